//go:build !race

package finalize_test

// share is which of many inputs is tried, here every one.
const share = 1
