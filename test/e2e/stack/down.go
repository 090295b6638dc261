package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Down ends the processes of the stack, paused ones too, and no others, and removes its directory unless
// [Options.KeepData] says otherwise. Stacks in its directory go down before it; when one of them does not, the directory
// stays. At the end of ctx it goes on by SIGKILL, so that nothing stays behind. A stack that is down already is no error.
// It returns the errors of the system.
func (s *Stack) Down(ctx context.Context) error {
	if s.isZero() {
		return ErrNoStack
	}
	if _, err := readLayout(s.layout.dir); errors.Is(err, ErrNoStack) {
		return nil
	}
	return s.end(ctx, !s.layout.KeepData)
}

// end stops the clients before the servers.
func (s *Stack) end(ctx context.Context, remove bool) error {
	inner := s.endInner(ctx)
	defer s.driver.Close()
	var names []string
	for _, name := range Components() {
		if name != APIServer && name != Etcd {
			names = append(names, name)
		}
	}
	err := errors.Join(inner, s.stopAll(ctx, names), s.stopAll(ctx, []string{APIServer}), s.stopAll(ctx, []string{Etcd}))
	if err != nil || !remove {
		return err
	}
	return os.RemoveAll(s.layout.dir)
}

// endInner ends the stacks in this one's directory: those of tests that were killed. One that cannot be ended keeps none
// of the others running.
func (s *Stack) endInner(ctx context.Context) error {
	entries, err := os.ReadDir(s.layout.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody else ended it meanwhile
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		inner, err := Attach(filepath.Join(s.layout.dir, entry.Name()))
		if errors.Is(err, ErrNoStack) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err == nil {
			err = inner.Down(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("end the stack in %s: %w", entry.Name(), err))
		}
	}
	return errors.Join(errs...)
}

func (s *Stack) stopAll(ctx context.Context, names []string) error {
	errs := make([]error, len(names))
	var group errgroup.Group
	for i, name := range names {
		group.Go(func() error {
			// The locks are taken even when ctx is over: whoever holds one ends with the same ctx, or soon.
			lockCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
			defer cancel()
			errs[i] = s.operate(lockCtx, name, func(c componentRun) error {
				return c.stop(func(p process) error { return p.end(ctx, stopGrace) })
			})
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })...)
}
