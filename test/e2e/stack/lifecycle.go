package stack

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	startTimeout = 2 * time.Minute       // for a component to get healthy, on a machine that builds meanwhile
	healthPoll   = 50 * time.Millisecond // between two looks
	stopGrace    = 30 * time.Second      // from SIGTERM to SIGKILL
	pausePoll    = 5 * time.Millisecond  // between two looks at a process that should stop or go on
	pauseTimeout = 10 * time.Second      // for the kernel to stop it
)

// Start starts a component with the flags that it had last and waits until it is healthy; one that runs is only waited
// for. With the driver, the sidecars that were running are started again, since they end when it goes; with etcd, the
// API server is waited for. It returns [ErrComponent], [ErrPaused] or an [*UnhealthyError] wrapped, or ctx's error.
func (s *Stack) Start(ctx context.Context, component string) error {
	running := true
	err := s.operate(ctx, component, func(c componentRun) error {
		running = !c.record.Process.ended()
		return c.start(ctx)
	})
	if err != nil || running {
		return err
	}
	return s.startFollowers(ctx, component)
}

// Restart stops a component and starts it again with these extra flags instead of the extra flags that it had, none
// for none. Data and ports stay. It waits as [Stack.Start] does and returns its errors.
func (s *Stack) Restart(ctx context.Context, component string, flags ...string) error {
	err := s.operate(ctx, component, func(c componentRun) error {
		if err := c.record.Process.end(ctx, stopGrace); err != nil {
			return err
		}
		c.record.Flags = flags
		return c.start(ctx)
	})
	if err != nil {
		return err
	}
	return s.startFollowers(ctx, component)
}

// Stop ends a component by SIGTERM, and by SIGKILL when it takes longer than 30 s. A paused one is resumed for that;
// stopping what does not run does nothing. It returns [ErrComponent] wrapped, or the system's error.
func (s *Stack) Stop(ctx context.Context, component string) error {
	return s.operate(ctx, component, func(c componentRun) error {
		return c.stop(func(p process) error { return p.end(ctx, stopGrace) })
	})
}

// Kill ends a component by SIGKILL and returns when it is gone. It returns [ErrComponent] or [ErrNotRunning] wrapped,
// or the system's error.
func (s *Stack) Kill(ctx context.Context, component string) error {
	return s.operate(ctx, component, func(c componentRun) error {
		if c.record.Process.ended() {
			return ErrNotRunning
		}
		return c.stop(func(p process) error { return p.kill(ctx) })
	})
}

// Pause stops a component's execution by SIGSTOP and returns when it stands. Its connections stay open and nobody
// answers on them. It returns [ErrComponent] or [ErrNotRunning] wrapped.
func (s *Stack) Pause(ctx context.Context, component string) error {
	return s.operate(ctx, component, func(c componentRun) error { return c.signal(ctx, syscall.SIGSTOP, true) })
}

// Resume lets a paused component run on by SIGCONT and returns when it does. One that runs is left alone. It does not
// wait until the component is healthy; [Stack.Start] does that. It returns [ErrComponent] or [ErrNotRunning] wrapped.
func (s *Stack) Resume(ctx context.Context, component string) error {
	return s.operate(ctx, component, func(c componentRun) error { return c.signal(ctx, syscall.SIGCONT, false) })
}

// componentRun is a component whose lock is held, and its record.
type componentRun struct {
	component
	stack  *Stack
	record *record
}

// operate runs op on a component while nobody else operates on it.
func (s *Stack) operate(ctx context.Context, name string, op func(componentRun) error) (err error) {
	if s.isZero() {
		return ErrNoStack
	}
	c, err := find(name)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r, err := s.readRecord(name)
	if err != nil {
		return err
	}
	if err := op(componentRun{component: c, stack: s, record: &r}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// start starts the component unless it runs, and waits until it is healthy.
func (c componentRun) start(ctx context.Context) error {
	if c.record.Process.ended() {
		l := c.stack.layout
		args := append(c.args(l), c.record.Flags...)
		p, err := startProcess(l.program(c.name), l.dir, l.log(c.name), args)
		if err != nil {
			return err
		}
		c.record.Process, c.record.Wanted = p, true
		if err := c.stack.writeRecord(c.name, *c.record); err != nil {
			return errors.Join(err, p.kill(ctx))
		}
	}
	return c.awaitHealthy(ctx)
}

// awaitHealthy returns nil when the component serves, and early when its process ended.
func (c componentRun) awaitHealthy(ctx context.Context) error {
	if c.record.Process.paused() {
		return ErrPaused
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, healthPoll, startTimeout, true, func(ctx context.Context) (bool, error) {
		if c.record.Process.ended() {
			last = ErrNotRunning
			return false, ErrNotRunning
		}
		last = c.healthy(ctx, c.stack)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return &UnhealthyError{Component: c.name, Log: tail(c.stack.layout.log(c.name)), Err: last}
}

func (c componentRun) stop(end func(process) error) error {
	if err := end(c.record.Process); err != nil {
		return err
	}
	c.record.Wanted = false
	return c.stack.writeRecord(c.name, *c.record)
}

// signal pauses or resumes and waits until the process is as wanted.
func (c componentRun) signal(ctx context.Context, sig syscall.Signal, paused bool) error {
	p := c.record.Process
	if err := p.signal(sig); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, pausePoll, pauseTimeout, true, func(context.Context) (bool, error) {
		if p.ended() {
			return false, ErrNotRunning
		}
		return p.paused() == paused, nil
	})
}

// startFollowers restores what a component that was started anew has ended.
func (s *Stack) startFollowers(ctx context.Context, name string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range components() {
		if c.follows == name {
			group.Go(func() error { return s.startAgain(ctx, c.name) })
		}
	}
	if name == Etcd {
		group.Go(func() error { return s.operate(ctx, APIServer, func(c componentRun) error { return c.recover(ctx) }) })
	}
	return group.Wait()
}

// startAgain starts a component anew that was wanted.
func (s *Stack) startAgain(ctx context.Context, name string) error {
	return s.operate(ctx, name, func(c componentRun) error {
		if !c.record.Wanted {
			return nil
		}
		if err := c.record.Process.end(ctx, stopGrace); err != nil {
			return err
		}
		return c.start(ctx)
	})
}

// recover waits for a component that runs to be healthy again.
func (c componentRun) recover(ctx context.Context) error {
	if c.record.Process.ended() || c.record.Process.paused() {
		return nil
	}
	return c.awaitHealthy(ctx)
}
