package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sheetanchor/sheetanchor/phase"
)

// Exit codes of the programs.
const (
	ExitCompleted       = 0
	ExitOther           = 1
	ExitPartiallyFailed = 2
)

// Func is a whole program, so that tests can call it.
type Func func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// Main runs f until it ends or the user interrupts it, and ends the process with its code.
func Main(f Func) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := f(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit returns the exit code of what ended with err, after one line to stderr if that is an error. A call for help is none.
func Exit(name string, stderr io.Writer, code int, err error) int {
	switch {
	case err == nil:
		return code
	case errors.Is(err, flag.ErrHelp):
		return ExitCompleted
	}
	fmt.Fprintf(stderr, "%s: %s\n", name, OneLine(err.Error()))
	return ExitOther
}

// ExitCode is the code of a backup or restore that ended in a phase.
func ExitCode(ended string) int {
	switch ended {
	case phase.Completed:
		return ExitCompleted
	case phase.PartiallyFailed:
		return ExitPartiallyFailed
	}
	return ExitOther
}
