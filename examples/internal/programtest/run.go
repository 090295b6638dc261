package programtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
)

// TB is what is needed of a *testing.T.
type TB interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
}

// argsVariable makes a test binary the program itself, so that a test can kill a real process.
const argsVariable = "SHEETANCHOR_EXAMPLE_ARGS"

// Main is the program f, if [Killed] started this one; else it returns. The TestMain of a program calls it.
func Main(f program.Func) {
	text := os.Getenv(argsVariable)
	if text == "" {
		return
	}
	var args []string
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		panic(err)
	}
	os.Exit(f(context.Background(), args, os.Stdout, os.Stderr))
}

// Run is the program in this process.
func Run(t TB, f program.Func, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	code = f(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), code
}

// Decode reads what -o json printed: one object of type R and nothing else.
func Decode[R any](t TB, stdout string) R {
	t.Helper()
	var r R
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("standard output is not one object: %v\n%s", err, stdout)
	}
	if dec.More() {
		t.Fatalf("standard output has more than one object:\n%s", stdout)
	}
	return r
}

// Killed runs the program as a process that is killed after a while, if it has not ended by then, and returns what a second
// one prints, which must end well.
func Killed(t TB, after time.Duration, args ...string) (stdout string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	_, err := process(ctx, t, args).Output()
	if _, ok := errors.AsType[*exec.ExitError](err); !ok && err != nil {
		t.Fatalf("%v", err)
	}
	out, err := process(t.Context(), t, args).Output()
	if err != nil {
		t.Fatalf("the second process: %v\n%s", err, out)
	}
	return string(out)
}

// process is the program with args, by SIGKILL ended with ctx.
func process(ctx context.Context, t TB, args []string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatalf("%v", err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), argsVariable+"="+string(text))
	cmd.Stderr = &bytes.Buffer{}
	return cmd
}
