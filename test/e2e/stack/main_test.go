package stack_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// TestMain checks for leaks. Connections of client-go end with the server, a moment later.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// bound is how long anything may take on a busy machine.
const bound = 2 * time.Minute

// programs returns the directory of the programs: those of the running stack, or those built before.
func programs(t *testing.T) string {
	t.Helper()
	if first := first(t); first != nil {
		return first.Bin()
	}
	bin, err := stack.Built(t.Context(), stack.BuildOptions{})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the programs are not built and %s is not set: use test/e2e/run", stack.EnvDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// first is the stack that test/e2e/run has started; nil when tests run alone.
func first(t *testing.T) *stack.Stack {
	t.Helper()
	dir := os.Getenv(stack.EnvDir)
	if dir == "" {
		return nil
	}
	s, err := stack.Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// up starts a stack of its own for a test.
func up(t *testing.T, opts stack.Options) *stack.Stack {
	t.Helper()
	opts.Bin = programs(t)
	s, err := stack.Up(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), bound)
		defer cancel()
		if err := s.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// freshDir is a directory for a stack: in that of the first one, so that test/e2e/run ends what a killed test leaves.
func freshDir(t *testing.T) string {
	t.Helper()
	if first(t) == nil {
		return filepath.Join(t.TempDir(), "s")
	}
	dir, err := os.MkdirTemp(os.Getenv(stack.EnvDir), "more-") //nolint:usetesting // it is to be there
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// status returns what a component does.
func status(t *testing.T, s *stack.Stack, component string) stack.Status {
	t.Helper()
	all, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range all {
		if st.Component == component {
			return st
		}
	}
	t.Fatalf("no status of %s", component)
	return stack.Status{}
}
