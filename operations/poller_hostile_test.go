package operations_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// O9: an answer that no document can hold is kept as far as it can be, reported, and holds up no other operation.
func TestPollerAnswersThatCannotBeKept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1<<20)
	for name, tc := range map[string]struct {
		progress operations.Progress
		err      error
		note     error
		phase    operations.Phase
		text     string
	}{
		"time": {
			progress: operations.Progress{State: operations.StateCompleted, Updated: time.Unix(time.Now().UnixMilli(), 0)},
			note:     operations.ErrMalformed, phase: operations.PhaseCompleted,
		},
		"year before zero": {
			progress: operations.Progress{State: operations.StateCompleted, Started: time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)},
			note:     operations.ErrMalformed, phase: operations.PhaseCompleted,
		},
		"text": {
			progress: operations.Progress{State: operations.StateFailed, Error: long, Units: long, Description: long},
			note:     operations.ErrTooLarge, phase: operations.PhaseFailed, text: "é… (cut)",
		},
		"permanent error": {err: operations.Permanent(errors.New(long)), phase: operations.PhaseFailed, text: "é… (cut)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				action := newScript(func(_ context.Context, id string) (operations.Progress, error) {
					if id == "good" {
						return operations.Progress{State: operations.StateCompleted}, nil
					}
					return tc.progress, tc.err
				})
				p := newPoll(t, action, operations.PollerOptions{}, op("bad"), op("good"))
				res, err := p.poller.Step(t.Context(), testKey)
				if err != nil || !res.Done {
					t.Fatalf("Step() = %+v, %v, want done", res.Summary, err)
				}
				if tc.note != nil {
					checkNotes(t, res.Notes, tc.note)
				}
				got := p.op(t, "bad").Status
				if got.Phase != tc.phase || !strings.HasSuffix(got.Error, tc.text) || len(got.Error) > 3000 || len(got.Description) > 3000 {
					t.Errorf("status = %s with an error of %d bytes, want %s, cut", got.Phase, len(got.Error), tc.phase)
				}
			})
		})
	}
}

// O10, X2: a stored time that has not come, of another host's clock or a damaged document, makes no wait endless.
func TestPollerTimesOfTheFuture(t *testing.T) {
	t.Parallel()
	future := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		status operations.Status
		want   time.Duration
	}{
		"created":          {operations.Status{Created: &future}, 4*time.Hour + 5*time.Minute},
		"cancel requested": {operations.Status{CancelRequested: &future, CancelReason: "x"}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPoll(t, newScript(endAfter(1000*time.Hour, operations.StateCompleted)), operations.PollerOptions{})
				mustUpdate(t, p.m, testKey, func(l *operations.List) error {
					o := op("a")
					o.Status.Created, o.Status.CancelRequested, o.Status.CancelReason = tc.status.Created, tc.status.CancelRequested, tc.status.CancelReason
					return l.Add(o)
				})
				start := time.Now()
				if got := p.run(t); got.Abandoned != 1 || time.Since(start) != tc.want {
					t.Errorf("Run() = %+v after %v, want abandoned after %v", got, time.Since(start), tc.want)
				}
			})
		})
	}
}

// O10: the grace is never shorter than CancelGrace, though the record keeps whole seconds.
func TestPollerGraceOfLessThanASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(900 * time.Millisecond)
		asked := time.Time{}
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			if !asked.IsZero() && time.Since(asked) >= 700*time.Millisecond {
				return operations.Progress{State: operations.StateCanceled}, nil
			}
			return operations.Progress{State: operations.StateRunning}, nil
		})
		action.cancel = func(context.Context, string) error {
			asked = time.Now()
			return nil
		}
		p := newPoll(t, action, operations.PollerOptions{CancelGrace: 800 * time.Millisecond, Fast: 50 * time.Millisecond}, op("a"))
		if err := p.poller.Cancel(t.Context(), testKey, "x"); err != nil {
			t.Fatal(err)
		}
		if got := p.run(t); got.Canceled != 1 {
			t.Errorf("Run() = %+v, want canceled", got)
		}
	})
}

// X1: whatever the user's functions do, the key's turn is given back and nothing is left running.
func TestPollerUserCodeThatBreaks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		breaks func()
		inHook bool
		panics bool
	}{
		"clock panics":             {breaks: func() { panic("clock") }, panics: true},
		"clock ends its goroutine": {breaks: runtime.Goexit},
		"hook ends its goroutine":  {breaks: runtime.Goexit, inHook: true},
		"clock panics with an in-flight question": {breaks: func() {
			time.Sleep(time.Second)
			panic("clock")
		}, panics: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				now := func() time.Time {
					if !tc.inHook && broken.CompareAndSwap(true, false) {
						tc.breaks()
					}
					return time.Now()
				}
				action := newScript(func(_ context.Context, id string) (operations.Progress, error) {
					if id == "slow" {
						time.Sleep(10 * time.Second)
					} else {
						broken.Store(true) // while the other question is on its way
					}
					return operations.Progress{State: operations.StateCompleted}, nil
				})
				p := newPoll(t, action, operations.PollerOptions{Clock: now, Hooks: operations.PollerHooks{
					Changed: func(context.Context, operations.Key, operations.Operation) {
						if tc.inHook && broken.CompareAndSwap(true, false) {
							tc.breaks()
						}
					},
				}}, op("quick"), op("slow"))
				var wg sync.WaitGroup
				wg.Go(func() {
					_, err := p.poller.Step(t.Context(), testKey)
					if _, ok := errors.AsType[*operations.PanicError](err); ok != tc.panics {
						t.Errorf("Step() = %v, want a PanicError: %v", err, tc.panics)
					}
				})
				wg.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				action.progress = endAfter(0, operations.StateCompleted)
				if sum, err := p.poller.Run(ctx, testKey); err != nil || sum.Completed != 2 {
					t.Errorf("Run() after that = %+v, %v, want both completed", sum, err)
				}
			})
		})
	}
}

// O9: the work for one operation does not grow with their number: counted by the calls of the clock.
func TestPollerScales(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		var ticks atomic.Int64
		opts := operations.PollerOptions{Clock: func() time.Time {
			ticks.Add(1)
			return time.Now()
		}}
		ops := make([]operations.Operation, n)
		for i := range ops {
			ops[i] = op(strconv.Itoa(i))
		}
		p := newPoll(t, newScript(endAfter(0, operations.StateCompleted)), opts, ops...)
		if res, err := p.poller.Step(t.Context(), testKey); err != nil || !res.Done {
			t.Fatalf("Step() = %+v, %v, want done", res.Summary, err)
		}
		if got := ticks.Load(); got > 50*n {
			t.Errorf("%d looks at the clock for %d operations", got, n)
		}
	})
}

func BenchmarkPollerStepMany(b *testing.B) {
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]string, 10_000)
	_, err = m.Update(b.Context(), testKey, func(l *operations.List) error {
		ops := make([]operations.Operation, len(ids))
		for i := range ops {
			ids[i] = fmt.Sprintf("app/snapshot-%d", i)
			ops[i] = op(ids[i])
		}
		return l.Add(ops...)
	})
	if err != nil {
		b.Fatal(err)
	}
	p, err := operations.NewPoller(m, map[string]operations.Action{"test": allRun{}}, operations.PollerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.Wake(testKey, ids...)
		if _, err := p.Step(b.Context(), testKey); err != nil {
			b.Fatal(err)
		}
	}
}

// allRun says of every operation that it runs.
type allRun struct{ nothing }

func (allRun) ProgressMany(_ context.Context, ids []string) (map[string]operations.ProgressResult, error) {
	out := make(map[string]operations.ProgressResult, len(ids))
	for _, id := range ids {
		out[id] = operations.ProgressResult{Progress: operations.Progress{State: operations.StateRunning}}
	}
	return out, nil
}
