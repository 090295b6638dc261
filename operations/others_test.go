package operations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// otherPoller returns the poller of another process on the same store.
func (p poll) otherPoller(t *testing.T, action operations.Action) *operations.Poller {
	t.Helper()
	other, err := operations.NewPoller(newMap(t, p.store), map[string]operations.Action{"test": action}, operations.PollerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// O6: whatever the map remembers, Done is what the store says.
func TestPollerDoneIsConfirmed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		before []operations.Operation // what the map knows
		mine   func(*operations.List) error
		theirs func(*operations.List) error
		want   operations.Summary // of the first Step
		done   bool
	}{
		"missing": {
			reason: "operations were registered after the map had looked", theirs: func(l *operations.List) error { return l.Add(op("a")) },
			want: operations.Summary{Total: 1, Running: 1},
		},
		"all ended": {
			reason: "one more was registered", before: []operations.Operation{doneOp("a")},
			theirs: func(l *operations.List) error { return l.Add(op("b")) },
			want:   operations.Summary{Total: 2, Completed: 1, Running: 1},
		},
		"ended by both": {
			reason: "the store's end counts", before: []operations.Operation{op("a")}, mine: setPhase("a", operations.PhaseFailed),
			theirs: setPhase("a", operations.PhaseCompleted), want: operations.Summary{Total: 1, Completed: 1}, done: true,
		},
		"taken out": {
			reason: "what the other took out stays out", before: []operations.Operation{op("a")}, mine: setDone("a", 7),
			theirs: func(l *operations.List) (err error) {
				*l, err = operations.NewList(doneOp("b"))
				return err
			},
			want: operations.Summary{Total: 1, Completed: 1}, done: true,
		},
		"ended by this one": {
			reason: "an end counts more than progress", before: []operations.Operation{op("a")}, mine: setPhase("a", operations.PhaseFailed),
			theirs: setDone("a", 7), want: operations.Summary{Total: 1, Failed: 1}, done: true,
		},
		"put and not stored": {
			reason: "what only this process knows is not lost, nor what only the other does", before: []operations.Operation{op("a"), op("b")},
			mine: func(l *operations.List) error {
				return errors.Join(setPhase("a", operations.PhaseFailed)(l), l.Add(doneOp("mine")))
			},
			theirs: func(l *operations.List) error {
				return errors.Join(setPhase("b", operations.PhaseCompleted)(l), l.Add(doneOp("theirs")))
			},
			want: operations.Summary{Total: 4, Completed: 3, Failed: 1}, done: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPoll(t, newScript(endAfter(time.Minute, operations.StateCompleted)), operations.PollerOptions{})
				if tc.before != nil {
					mustUpdate(t, p.m, testKey, func(l *operations.List) error { return l.Add(tc.before...) })
				} else {
					p = newPollOn(t, operations.NewMemoryStore(), newScript(endAfter(time.Minute, operations.StateCompleted)))
				}
				rec, err := p.m.Get(t.Context(), testKey)
				if err != nil || rec.Missing() != (tc.before == nil) {
					t.Fatalf("Get() = missing %v, %v", rec.Missing(), err)
				}
				if tc.mine != nil {
					if err := tc.mine(&rec.List); err != nil {
						t.Fatal(err)
					}
					if _, err := p.m.Put(t.Context(), rec); err != nil {
						t.Fatal(err)
					}
				}
				mustUpdate(t, newMap(t, p.store), testKey, tc.theirs)
				p.store.reset()
				res, err := p.poller.Step(t.Context(), testKey)
				if err != nil || res.Done != tc.done || res.Summary != tc.want || !res.Done && res.RequeueAfter <= 0 {
					t.Errorf("%s: Step() = %+v, %v, want done %v with %+v", tc.reason, res, err, tc.done, tc.want)
				}
				want := tc.want
				want.Completed, want.Running = want.Completed+want.Running, 0
				if got := p.run(t); got != want {
					t.Errorf("%s: Run() = %+v, want %+v", tc.reason, got, want)
				}
				if stored, err := newMap(t, p.store).Get(t.Context(), testKey); err != nil || stored.Summary() != want {
					t.Errorf("%s: the store says %+v, %v, want %+v", tc.reason, stored.Summary(), err, want)
				}
			})
		})
	}
}

func newPollOn(t *testing.T, store operations.Store, action operations.Action) poll {
	t.Helper()
	rec := newRecorder(store)
	m := newMap(t, rec)
	p, err := operations.NewPoller(m, map[string]operations.Action{"test": action}, operations.PollerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return poll{store: rec, m: m, poller: p}
}

// O6, O11: confirming costs one read for each Done, whatever is polled before it; a step that asks reads nothing.
func TestPollerReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoll(t, newScript(endAfter(30*time.Second, operations.StateCompleted)), operations.PollerOptions{}, op("a"))
		for {
			p.store.reset()
			res, err := p.poller.Step(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			if reads, _ := p.store.counts(); reads != map[bool]int{true: 1}[res.Done] {
				t.Errorf("%d reads in a Step with done %v", reads, res.Done)
			}
			if res.Done {
				return
			}
			time.Sleep(res.RequeueAfter)
		}
	})
}

// O10: a request to cancel that another process stores reaches the owner's poller: with its next write when there is
// progress, and after the ReadInterval when there is none.
func TestPollerCancelByAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		moves bool
		want  time.Duration
	}{"progress": {true, 22 * time.Second}, "no progress": {false, 70 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var canceled time.Time
				action := newScript(func(context.Context, string) (operations.Progress, error) {
					switch {
					case !canceled.IsZero():
						return operations.Progress{State: operations.StateCanceled}, nil
					case tc.moves:
						return operations.Progress{State: operations.StateRunning, Completed: int64(time.Since(start))}, nil
					}
					return operations.Progress{State: operations.StateRunning}, nil
				})
				action.cancel = func(context.Context, string) error {
					canceled = time.Now()
					return nil
				}
				p := newPoll(t, action, operations.PollerOptions{}, op("a"))
				for time.Since(start) < 12*time.Second {
					res, err := p.poller.Step(t.Context(), testKey)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(res.RequeueAfter)
				}
				if err := p.otherPoller(t, nothing{}).Cancel(t.Context(), testKey, "user asked"); err != nil {
					t.Fatal(err)
				}
				if got, want := p.run(t), (operations.Summary{Total: 1, Canceled: 1}); got != want {
					t.Errorf("Run() = %+v, want %+v", got, want)
				}
				if got := canceled.Sub(start); got > tc.want {
					t.Errorf("the action was told after %v, want %v at most", got, tc.want)
				}
				if got := p.op(t, "a").Status; got.CancelReason != "user asked" {
					t.Errorf("stored status = %+v", got)
				}
			})
		})
	}
}

// nothing is an action that is never asked.
type nothing struct{}

func (nothing) Progress(context.Context, string) (operations.Progress, error) { panic("asked") }
func (nothing) Cancel(context.Context, string) error                          { panic("asked") }

// O6, O10: Cancel goes by what the store holds, not by what its map remembers.
func TestPollerCancelIsNotStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cli := newPollOn(t, operations.NewMemoryStore(), nothing{})
		if _, err := cli.m.Get(t.Context(), testKey); err != nil { // there is nothing yet
			t.Fatal(err)
		}
		owner := newMap(t, cli.store)
		mustUpdate(t, owner, testKey, func(l *operations.List) error { return l.Add(op("a")) })
		for _, id := range []string{"a", "b"} {
			if id == "b" { // and now the map is old again
				mustUpdate(t, newMap(t, cli.store), testKey, func(l *operations.List) error { return l.Add(op("b")) })
			}
			if err := cli.poller.Cancel(t.Context(), testKey, "", id); err != nil {
				t.Fatal(err)
			}
			if got := cli.op(t, id).Status; got.CancelRequested == nil {
				t.Errorf("operation %s is not asked to stop: %+v", id, got)
			}
		}
	})
}

// O10: a request to cancel gets past writes of others.
func TestPollerCancelRace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cli := newPoll(t, nothing{}, operations.PollerOptions{}, op("a"))
		other := newMap(t, cli.store.Store)
		races := 0
		cli.store.hooks(func(_ context.Context, verb, _ string) error {
			if verb == "write" && races < 3 {
				races++
				mustUpdate(t, other, testKey, func(l *operations.List) error { return l.Add(doneOp(fmt.Sprint(races))) })
			}
			return nil
		}, nil)
		if err := cli.poller.Cancel(t.Context(), testKey, "", "a"); err != nil || races != 3 {
			t.Errorf("Cancel() = %v after %d writes of others", err, races)
		}
		if got := cli.op(t, "a").Status; got.CancelRequested == nil {
			t.Errorf("operation a is not asked to stop: %+v", got)
		}
	})
}

// O7: two processes that poll one key by turns end it together, and the store has each end once.
func TestPollersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(endAfter(time.Minute, operations.StateCompleted))
		p := newPoll(t, action, operations.PollerOptions{}, op("a"), op("b"))
		pollers := []*operations.Poller{p.poller, p.otherPoller(t, action)}
		for i := 0; ; i++ {
			res, err := pollers[i%2].Step(t.Context(), testKey)
			if err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			if res.Done {
				break
			}
			time.Sleep(res.RequeueAfter)
		}
		for i, poller := range pollers {
			res, err := poller.Step(t.Context(), testKey)
			if want := (operations.Summary{Total: 2, Completed: 2}); err != nil || !res.Done || res.Summary != want {
				t.Errorf("poller %d: Step() = %+v, %v, want done with %+v", i, res, err, want)
			}
		}
	})
}

// X2: a store that reports conflicts without end is an error, not a loop.
func TestPollerConflictWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoll(t, newScript(endAfter(0, operations.StateCompleted)), operations.PollerOptions{}, op("a"))
		p.store.hooks(func(_ context.Context, verb, _ string) error {
			if verb == "write" {
				return operations.ErrConflict
			}
			return nil
		}, nil)
		start := time.Now()
		if _, err := p.poller.Run(t.Context(), testKey); !errors.Is(err, operations.ErrConflict) || time.Since(start) > 11*time.Minute {
			t.Errorf("Run() = %v after %v, want a conflict after the error budget", err, time.Since(start))
		}
	})
}

// O7, O13: a document that is gone, or another owner's by now, ends no wait.
func TestPollerRecordIsGone(t *testing.T) {
	t.Parallel()
	foreign := testKey
	foreign.UID = "other"
	for name, tc := range map[string]struct {
		foreign bool
		want    error
	}{
		"gone":    {false, operations.ErrConflict},
		"foreign": {true, operations.ErrForeignRecord},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &swapped{operations.NewMemoryStore()}
			p := newPollOn(t, store, nothing{})
			mustUpdate(t, p.m, testKey, func(l *operations.List) error { return l.Add(doneOp("a")) })
			store.Store = operations.NewMemoryStore()
			if tc.foreign {
				mustUpdate(t, newMap(t, store), foreign, add("a"))
			}
			if res, err := p.poller.Step(t.Context(), testKey); !errors.Is(err, tc.want) || res.Done {
				t.Errorf("Step() = %+v, %v, want %v", res, err, tc.want)
			}
			if _, err := p.m.Complete(t.Context(), testKey); !errors.Is(err, tc.want) {
				t.Errorf("Complete() = %v, want %v", err, tc.want)
			}
		})
	}
}

// setDone returns a change that moves the progress of one operation.
func setDone(id string, n int64) func(*operations.List) error {
	return func(l *operations.List) error {
		o, _ := l.Get(id)
		o.Status.Completed = n
		return l.Set(o)
	}
}

type swapped struct{ operations.Store }

func add(id string) func(*operations.List) error {
	return func(l *operations.List) error { return l.Add(op(id)) }
}

// O3, O6: Complete neither refuses nor closes by what the map remembers.
func TestMapCompleteIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before []operations.Operation
		put    func(*operations.List) error
		theirs func(*operations.List) error
		want   operations.Summary
		err    error
	}{
		"still running, says the map": {
			before: []operations.Operation{op("a")}, theirs: setPhase("a", operations.PhaseCompleted), want: operations.Summary{Total: 1, Completed: 1},
		},
		"still running, says the map, with progress put": {
			before: []operations.Operation{op("a")}, theirs: setPhase("a", operations.PhaseCompleted), want: operations.Summary{Total: 1, Completed: 1},
			put: setDone("a", 7),
		},
		"nothing, says the map": {theirs: add("a"), err: operations.ErrRunning},
		"all ended, says the map": {
			before: []operations.Operation{doneOp("a")}, theirs: add("b"), err: operations.ErrRunning,
		},
		"all ended, put and not stored": {
			before: []operations.Operation{op("a")}, put: setPhase("a", operations.PhaseFailed), theirs: add("b"), err: operations.ErrConflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newRecorder(operations.NewMemoryStore())
			m := newMap(t, store)
			if tc.before != nil {
				mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(tc.before...) })
			}
			rec, err := m.Get(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			if tc.put != nil {
				if err := tc.put(&rec.List); err != nil {
					t.Fatal(err)
				}
				if _, err := m.Put(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
			}
			mustUpdate(t, newMap(t, store), testKey, tc.theirs)
			store.reset()
			for range 2 {
				if got, err := m.Complete(t.Context(), testKey); !errors.Is(err, tc.err) || got != tc.want {
					t.Errorf("Complete() = %+v, %v, want %+v, %v", got, err, tc.want, tc.err)
				}
			}
			if _, writes := store.counts(); tc.err == nil && len(writes) != 0 {
				t.Errorf("%d writes, want none", len(writes))
			}
		})
	}
}

// O2, O3: a write of this map's that had no answer, and was then overtaken, does not keep a key open for ever.
func TestMapCompleteAfterLostWrite(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	m := newMap(t, store)
	mustUpdate(t, m, testKey, add("a"))
	store.hooks(func(_ context.Context, verb, _ string) error {
		if verb == "write" {
			return operations.ErrUnknownOutcome
		}
		return nil
	}, nil)
	if _, err := m.Update(t.Context(), testKey, setPhase("a", operations.PhaseFailed)); !errors.Is(err, operations.ErrUnknownOutcome) {
		t.Fatalf("Update = %v", err)
	}
	store.hooks(nil, nil)
	mustUpdate(t, newMap(t, store), testKey, setPhase("a", operations.PhaseCompleted))
	if sum, err := m.Complete(t.Context(), testKey); err != nil || sum.Completed != 1 {
		t.Errorf("Complete() = %+v, %v, want what the other stored", sum, err)
	}
}

// O9: what an unknown state kept an operation from ending is said where it ends.
func TestPollerUnknownStateIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			return operations.Progress{State: "Succeeded"}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		p.run(t)
		want := "it did not end within 4h0m0s; it did not confirm within 5m0s that it stopped; last error: unknown state: state \"Succeeded\""
		if got := p.op(t, "a").Status; got.Phase != operations.PhaseAbandoned || got.Error != want {
			t.Errorf("status = %+v, want abandoned with %q", got, want)
		}
	})
}

// What is registered has an action, which answers for it, and a phase.
func TestListRegisters(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(*operations.List, ...operations.Operation) error{
		"Add": (*operations.List).Add, "Merge": (*operations.List).Merge,
	} {
		var l operations.List
		err := register(&l, op("good"), operations.Operation{ID: "bad"})
		if !errors.Is(err, operations.ErrMalformed) || !strings.Contains(err.Error(), `operation "bad"`) || !strings.Contains(err.Error(), "no action") || l.Len() != 0 {
			t.Errorf("%s() of one without action = %v with %d operations", name, err, l.Len())
		}
		if err := register(&l, operations.Operation{ID: "a", Action: "x"}); err != nil {
			t.Fatal(err)
		}
		got, _ := l.Get("a")
		if diff := cmp.Diff(operations.Status{Phase: operations.PhaseNew}, got.Status); diff != "" {
			t.Errorf("%s() (-want +got):\n%s", name, diff)
		}
	}
}
