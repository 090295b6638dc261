package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

const (
	envJSON     = "SHEETANCHOR_E2E_JSON" // a file for the events of go test
	testTimeout = "60m"
	downTimeout = 2 * time.Minute
	counter     = "github.com/sheetanchor/sheetanchor/internal/cmd/testcount"
)

// run starts a stack, runs the module's tests against it and ends it, whatever happened.
func (c command) run(ctx context.Context) (err error) {
	s, err := stack.Up(ctx, stack.Options{})
	if err != nil {
		return err
	}
	defer func() {
		// Also when ctx ended: by a signal.
		downCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
		defer cancel()
		err = errors.Join(err, s.Down(downCtx))
	}()
	begin := time.Now()
	if err = c.test(ctx, s); err != nil {
		all, statusErr := s.Status()
		err = errors.Join(err, statusErr, c.post(all, s.LogTail))
	}
	logr.FromContextOrDiscard(ctx).Info("tests done", "minutes", time.Since(begin).Minutes())
	return err
}

// test runs go test, whose events go to the counter and to a file. It fails when a test failed or none ran.
func (c command) test(ctx context.Context, s *stack.Stack) (err error) {
	events := os.Getenv(envJSON)
	if events == "" {
		events = filepath.Join(s.Dir(), "events.json")
	}
	file, err := os.Create(events)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	count := filepath.Join(s.Dir(), "testcount")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", count, counter).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", counter, err, out)
	}
	// One package at a time: a second stack beside the first must not blur the times that tests measure.
	args := append([]string{"test", "-json", "-count=1", "-p=1", "-timeout=" + testTimeout, "./..."}, c.args...)
	tests := exec.CommandContext(ctx, "go", args...)
	tests.Env = append(os.Environ(), stack.EnvDir+"="+s.Dir())
	tests.Stderr = os.Stderr
	inGroup(tests)
	lines := exec.CommandContext(ctx, count, "-lines")
	lines.Stdout, lines.Stderr = c.out, os.Stderr
	inGroup(lines)
	pipe, err := lines.StdinPipe()
	if err != nil {
		return err
	}
	tests.Stdout = io.MultiWriter(file, pipe)
	if err := lines.Start(); err != nil {
		return err
	}
	testErr := tests.Run()
	return errors.Join(wrap("go test", testErr), pipe.Close(), wrap("the tests' events", lines.Wait()))
}

// inGroup gives a command a process group of its own, which ends as a whole with its context: go test would leave the
// test's process behind.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// post prints the end of each component's log, and returns which of them ended by themselves: what a test says then is
// seldom the cause.
func (c command) post(all []stack.Status, tail func(component string) string) error {
	var errs []error
	for _, st := range all {
		errs = append(errs, c.print("\n=== %s is %s; the end of its log\n%s\n", st.Component, st.State, tail(st.Component)))
		if st.State == stack.Ended {
			errs = append(errs, fmt.Errorf("%s ended by itself; its log is above", st.Component))
		}
	}
	return errors.Join(errs...)
}
