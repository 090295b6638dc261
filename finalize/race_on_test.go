//go:build race

package finalize_test

// share is which of many inputs is tried, here every fifth: the race detector makes each dear.
const share = 5
