// Package bubbletest gives a program that is no test binary a *testing.T, and so the bubbles of testing/synctest.
package bubbletest

import (
	"flag"
	"io"
	"os"
	"testing"
)

// Main calls f with a T of that name, and the program's standard output to write results to, and ends the program: with 0, or
// with 1 if f has failed. What the testing package has to say, of failures and at the end, goes to standard error, and so does
// whatever is written to os.Stdout meanwhile. It must be called from main, once, after the program has parsed its own flags.
func Main(name string, f func(t *testing.T, stdout io.Writer)) {
	stdout := os.Stdout
	os.Stdout = os.Stderr
	testing.Init()
	_ = flag.CommandLine.Parse(nil) // else testing parses the program's own arguments
	all := func(_, _ string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: name, F: func(t *testing.T) {
		t.Helper()
		f(t, stdout)
	}}}, nil, nil)
}
