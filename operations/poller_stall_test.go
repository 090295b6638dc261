package operations_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// stallTimes steps as a reconciler would and returns when notes said that the operation stalled, and the last Result.
func stallTimes(t *testing.T, p poll, until time.Duration) (at []time.Duration, last operations.Result) {
	t.Helper()
	start := time.Now()
	for time.Since(start) <= until {
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range res.Notes {
			if errors.Is(n.Err, operations.ErrStalled) {
				at = append(at, time.Since(start))
			}
		}
		if last = res; res.Done {
			break
		}
		time.Sleep(res.RequeueAfter)
	}
	return at, last
}

// O9, ops-5: an operation that shows no progress for the stall window is reported, to the second, once until it moves
// again; it is not ended, and others are not touched.
func TestPollerStall(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Minute
	tests := map[string]struct {
		reason   string
		op       func(*operations.Operation)
		progress func(age time.Duration) (operations.Progress, error)
		want     []time.Duration
		stalled  bool // at the end, after 40 minutes
	}{
		"never moves": {
			reason:   "the same answer is no progress",
			progress: func(time.Duration) (operations.Progress, error) { return operations.Progress{Completed: 7}, nil },
			want:     []time.Duration{window}, stalled: true,
		},
		"moves": {
			reason: "counts that rise are progress",
			progress: func(age time.Duration) (operations.Progress, error) {
				return operations.Progress{State: operations.StateRunning, Completed: int64(age.Minutes())}, nil
			},
		},
		"updated moves": {
			reason: "so is a time that the action gives",
			progress: func(time.Duration) (operations.Progress, error) {
				return operations.Progress{State: operations.StateRunning, Updated: time.Now()}, nil
			},
		},
		"moves again": {
			reason: "an operation that moved is reported again when it stalls again",
			progress: func(age time.Duration) (operations.Progress, error) {
				return operations.Progress{State: operations.StateRunning, Completed: int64(age / (25 * time.Minute))}, nil
			},
			want: []time.Duration{window, 25*time.Minute + window}, stalled: true,
		},
		"only errors": {
			reason:   "an error is no progress",
			progress: func(time.Duration) (operations.Progress, error) { return operations.Progress{}, errAny },
			want:     []time.Duration{window}, stalled: true,
		},
		"stalled before a restart": {
			reason: "the record says how long ago it moved",
			op: func(o *operations.Operation) {
				o.Status.Updated = new(time.Now().Add(-8 * time.Minute))
				o.Status.Created = new(time.Now().Add(-9 * time.Minute))
			},
			progress: func(time.Duration) (operations.Progress, error) {
				return operations.Progress{State: operations.StateRunning}, nil
			},
			want: []time.Duration{2 * time.Minute}, stalled: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				action := newScript(func(_ context.Context, id string) (operations.Progress, error) {
					if id == "good" {
						return operations.Progress{State: operations.StateCompleted}, nil
					}
					return tc.progress(time.Since(start))
				})
				opts := operations.PollerOptions{
					Fast: time.Minute, Slow: time.Minute, StallWindow: window, ErrorBudget: 2 * time.Hour, ReadInterval: 3 * time.Hour,
				}
				p := newPoll(t, action, opts, op("a"), op("good"))
				if tc.op != nil {
					mustUpdate(t, p.m, testKey, func(l *operations.List) error {
						o, _ := l.Get("a")
						tc.op(&o)
						return l.Set(o)
					})
				}
				got, res := stallTimes(t, p, 40*time.Minute)
				if !slices.Equal(got, tc.want) {
					t.Errorf("%s: reported at %v, want %v", tc.reason, got, tc.want)
				}
				if stalled := slices.Equal(res.Stalled, []string{"a"}); stalled != tc.stalled {
					t.Errorf("%s: Stalled = %v at the end", tc.reason, res.Stalled)
				}
				if want := (operations.Summary{Total: 2, Running: 1, Completed: 1}); res.Summary != want {
					t.Errorf("Summary = %+v, want %+v: a stall ends nothing", res.Summary, want)
				}
			})
		})
	}
}

// ops-5: a Step comes back for the end of the stall window, also when no question is due until long after, and an
// operation that was asked to stop is not called stalled.
func TestPollerStallIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(endAfter(24*time.Hour, operations.StateCompleted))
		opts := operations.PollerOptions{Fast: time.Hour, Slow: time.Hour, StallWindow: 7 * time.Minute, CancelGrace: time.Hour}
		p := newPoll(t, action, opts, op("a"))
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil || res.RequeueAfter != 7*time.Minute {
			t.Fatalf("RequeueAfter = %v, %v, want the stall window", res.RequeueAfter, err)
		}
		time.Sleep(res.RequeueAfter)
		if res, err = p.poller.Step(t.Context(), testKey); err != nil || len(res.Stalled) != 1 {
			t.Errorf("Step() = %+v, %v, want it stalled", res, err)
		}
		if err := p.poller.Cancel(t.Context(), testKey, "", "a"); err != nil {
			t.Fatal(err)
		}
		if res, err = p.poller.Step(t.Context(), testKey); err != nil || len(res.Stalled) != 0 {
			t.Errorf("Step() after Cancel = %+v, %v, want nothing stalled", res, err)
		}
	})
}
