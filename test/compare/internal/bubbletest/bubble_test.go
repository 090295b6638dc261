package bubbletest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/bubbletest"
)

const asProgram = "BUBBLETEST_AS_PROGRAM"

// TestMain is also the program of TestMainOfProgram: one that never calls testing.M.Run.
func TestMain(m *testing.M) {
	if mode := os.Getenv(asProgram); mode != "" {
		os.Args = append(os.Args[:1], "-unknown-to-testing", mode)
		bubbletest.Main("program", func(t *testing.T, stdout io.Writer) {
			t.Helper()
			program(t, stdout, mode)
		})
	}
	os.Exit(m.Run())
}

func program(t *testing.T, stdout io.Writer, mode string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		time.Sleep(time.Hour)
		_, _ = fmt.Fprintf(stdout, "waited %v\n", time.Since(start))
		if mode == "fail" {
			t.Error("no luck")
		}
	})
}

// An hour in a bubble takes no time in a plain program, whose standard output holds what it wrote and nothing else; a failure
// is told on standard error and makes the program exit 1.
func TestMainOfProgram(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct {
		code   int
		stderr string
	}{"pass": {0, "PASS"}, "fail": {1, "no luck"}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asProgram+"="+mode)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		}
		if code != want.code || stdout.String() != "waited 1h0m0s\n" || !strings.Contains(stderr.String(), want.stderr) {
			t.Errorf("%s: exit code %d (%v), stdout %q, stderr %q, want %d and %q", mode, code, err, stdout.String(), stderr.String(), want.code, want.stderr)
		}
	}
}
