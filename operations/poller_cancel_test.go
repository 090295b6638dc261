package operations_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// slowOpts ask every minute, so that logs stay short.
var slowOpts = operations.PollerOptions{Fast: time.Minute, Slow: time.Minute}

// O10, ops-6, ops-7: past its deadline an operation is asked to stop, and how it ends is what the action says within
// the grace time, or Abandoned.
func TestPollerDeadline(t *testing.T) {
	t.Parallel()
	const deadline, grace = 10 * time.Minute, 3 * time.Minute
	tests := map[string]struct {
		reason string
		state  func(age time.Duration, canceled bool) operations.State
		cancel error // what Cancel answers for the first two minutes after the deadline
		want   operations.Status
		at     time.Duration
		tail   []string // what was asked from the deadline on
	}{
		"confirmed": {
			reason: "the action's confirmation ends the operation as canceled, with the reason",
			state: func(age time.Duration, canceled bool) operations.State {
				if canceled && age >= deadline+time.Minute {
					return operations.StateCanceled
				}
				return operations.StateRunning
			},
			want: operations.Status{Phase: operations.PhaseCanceled, Error: "it did not end within 10m0s"},
			at:   deadline + time.Minute,
			tail: []string{"+600.000s cancel a", "+600.000s progress a", "+660.000s progress a"},
		},
		"completed all the same": {
			reason: "the race of cancel and completion is won by what the action says",
			state: func(age time.Duration, _ bool) operations.State {
				if age >= deadline+time.Minute {
					return operations.StateCompleted
				}
				return operations.StateRunning
			},
			want: operations.Status{Phase: operations.PhaseCompleted},
			at:   deadline + time.Minute,
			tail: []string{"+600.000s cancel a", "+600.000s progress a", "+660.000s progress a"},
		},
		"never confirmed": {
			reason: "without confirmation it is abandoned, which is not failed",
			state:  func(time.Duration, bool) operations.State { return operations.StateRunning },
			want: operations.Status{
				Phase: operations.PhaseAbandoned,
				Error: "it did not end within 10m0s; it did not confirm within 3m0s that it stopped",
			},
			at: deadline + grace,
			tail: []string{
				"+600.000s cancel a", "+600.000s progress a", "+660.000s progress a", "+720.000s progress a", "+780.000s progress a",
			},
		},
		"cancel fails at first": {
			reason: "a request that did not arrive is repeated",
			state: func(_ time.Duration, canceled bool) operations.State {
				if canceled {
					return operations.StateCanceled
				}
				return operations.StateRunning
			},
			cancel: errors.New("connection refused"),
			want:   operations.Status{Phase: operations.PhaseCanceled, Error: "it did not end within 10m0s"},
			at:     deadline + 2*time.Minute,
			tail: []string{
				"+600.000s cancel a", "+600.000s progress a", "+660.000s cancel a", "+660.000s progress a", "+720.000s cancel a", "+720.000s progress a",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var canceled atomic.Bool
				action := newScript(func(context.Context, string) (operations.Progress, error) {
					return operations.Progress{State: tc.state(time.Since(start), canceled.Load())}, nil
				})
				action.cancel = func(context.Context, string) error {
					if tc.cancel != nil && time.Since(start) < deadline+2*time.Minute {
						return tc.cancel
					}
					canceled.Store(true)
					return nil
				}
				opts := slowOpts
				opts.Deadline, opts.CancelGrace = deadline, grace
				p := newPoll(t, action, opts, op("a"))
				p.run(t)
				if got := time.Since(start); got != tc.at {
					t.Errorf("%s: ended after %v, want %v", tc.reason, got, tc.at)
				}
				got := p.op(t, "a").Status
				if got.CancelRequested == nil || got.CancelRequested.Sub(start) != deadline {
					t.Errorf("CancelRequested = %v, want the deadline", got.CancelRequested)
				}
				if diff := cmp.Diff([]any{tc.want.Phase, tc.want.Error}, []any{got.Phase, got.Error}); diff != "" {
					t.Errorf("%s: (-want +got):\n%s", tc.reason, diff)
				}
				var tail []string
				for _, line := range action.lines() {
					if line >= "+6" {
						tail = append(tail, line)
					}
				}
				if tail = tail[max(0, len(tail)-len(tc.tail)):]; !cmp.Equal(tc.tail, tail) {
					t.Errorf("%s: asked (-want +got):\n%s", tc.reason, cmp.Diff(tc.tail, tail))
				}
			})
		})
	}
}

// O9, O10: an operation that gives nothing but errors is asked to stop when the budget is used up, and the last error
// is kept.
func TestPollerErrorBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			return operations.Progress{}, errors.New("connection refused")
		})
		action.cancel = func(context.Context, string) error { return errors.New("no route") }
		opts := slowOpts
		opts.ErrorBudget, opts.CancelGrace = 5*time.Minute, 2*time.Minute
		p := newPoll(t, action, opts, op("a"))
		p.run(t)
		got := p.op(t, "a").Status
		if got.Phase != operations.PhaseAbandoned || !strings.Contains(got.Error, "no good answer for 5m0s; last error: connection refused") {
			t.Errorf("status = %+v, want abandoned with the last error", got)
		}
		if want := 7 * time.Minute; time.Since(start) != want {
			t.Errorf("ended after %v, want %v", time.Since(start), want)
		}
		if first := action.lines()[6:8]; !cmp.Equal(first, []string{"+300.000s cancel a", "+300.000s progress a"}) {
			t.Errorf("after the budget it asked %v, want a cancel at once", first)
		}
	})
}

// O9: a long gap between two Steps does not use up the budget: three errors in a row are the least.
func TestPollerErrorBudgetNeedsErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			return operations.Progress{}, errors.New("connection refused")
		})
		p := newPoll(t, action, slowOpts, op("a"))
		for range 2 {
			if _, err := p.poller.Step(t.Context(), testKey); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		if got := p.op(t, "a").Status; got.CancelRequested != nil {
			t.Errorf("after two errors: %+v, want no request to stop", got)
		}
	})
}

// O9: a good answer gives the whole budget back.
func TestPollerErrorBudgetIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			switch age := time.Since(start); {
			case age == 4*time.Minute:
				return operations.Progress{State: operations.StateRunning}, nil
			case age < 9*time.Minute:
				return operations.Progress{}, errors.New("connection refused")
			}
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		opts := slowOpts
		opts.ErrorBudget = 5 * time.Minute
		p := newPoll(t, action, opts, op("a"))
		p.run(t)
		if got := p.op(t, "a").Status; got.CancelRequested != nil || got.Phase != operations.PhaseCompleted {
			t.Errorf("status = %+v, want completed and never asked to stop", got)
		}
	})
}

// O10: a request to cancel is stored before anything is asked, survives a restart, and reaches only what runs.
func TestPollerCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Bool
		action := newScript(func(_ context.Context, id string) (operations.Progress, error) {
			switch {
			case id == "b":
				return operations.Progress{State: operations.StateCompleted}, nil
			case stopped.Load():
				return operations.Progress{State: operations.StateCanceled}, nil
			}
			return operations.Progress{State: operations.StateRunning}, nil
		})
		action.cancel = func(context.Context, string) error { stopped.Store(true); return nil }
		p := newPoll(t, action, operations.PollerOptions{}, op("a"), op("b"))
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if err := p.poller.Cancel(t.Context(), testKey, "user asked", "a", "c"); !errors.Is(err, operations.ErrUnknownOperation) {
			t.Errorf("Cancel of an unknown operation = %v, want ErrUnknownOperation", err)
		}
		if got := p.op(t, "a").Status; got.CancelRequested != nil {
			t.Errorf("a refused Cancel changed %+v", got)
		}
		if err := p.poller.Cancel(t.Context(), testKey, "user asked"); err != nil {
			t.Fatal(err)
		}
		if got := p.op(t, "a").Status; got.CancelReason != "user asked" || got.CancelRequested == nil {
			t.Errorf("stored status = %+v, want the request", got)
		}

		restarted, err := operations.NewPoller(newMap(t, p.store), map[string]operations.Action{"test": action}, operations.PollerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := restarted.Run(t.Context(), testKey)
		if want := (operations.Summary{Total: 2, Completed: 1, Canceled: 1}); err != nil || sum != want {
			t.Errorf("Run after a restart = %+v, %v, want %+v", sum, err, want)
		}
		if got := p.op(t, "a").Status.Error; got != "user asked" {
			t.Errorf("error of the canceled operation = %q, want the reason", got)
		}
	})
}
