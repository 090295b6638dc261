// Package programtest is what the tests of the example programs share.
package programtest
