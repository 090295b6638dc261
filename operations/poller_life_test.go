package operations_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// endings counts the ends that the hook is told of.
type endings struct {
	mu    sync.Mutex
	count map[string]int
}

func (e *endings) changed(_ context.Context, _ operations.Key, o operations.Operation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count == nil {
		e.count = map[string]int{}
	}
	if o.Status.Phase.IsTerminal() {
		e.count[fmt.Sprint(o.ID, " ", o.Status.Phase)]++
	}
}

// ops-14: a request to cancel that comes before the first question, while it is on its way, between two, or after the
// end gives one end, told once.
func TestPollerCancelInEveryState(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		at     time.Duration
		want   string
	}{
		"never started": {"nobody has asked the action yet", 0, "a Canceled"},
		"in a call":     {"the first question is on its way for 2 s", time.Second, "a Canceled"},
		"running":       {"between two questions", 2500 * time.Millisecond, "a Canceled"},
		"done":          {"an end stays as it is", time.Minute, "a Completed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, stopped := time.Now(), false
				action := newScript(nil)
				action.progress = func(ctx context.Context, _ string) (operations.Progress, error) {
					if err := wait(ctx, 2*time.Second); err != nil {
						return operations.Progress{}, err
					}
					action.mu.Lock()
					defer action.mu.Unlock()
					switch {
					case stopped:
						return operations.Progress{State: operations.StateCanceled}, nil
					case time.Since(start) > 30*time.Second:
						return operations.Progress{State: operations.StateCompleted}, nil
					}
					return operations.Progress{State: operations.StateRunning}, nil
				}
				action.cancel = func(context.Context, string) error {
					action.mu.Lock()
					defer action.mu.Unlock()
					stopped = true
					return nil
				}
				var ends endings
				p := newPoll(t, action, operations.PollerOptions{Hooks: operations.PollerHooks{Changed: ends.changed}}, op("a"))
				var wg sync.WaitGroup
				if tc.at > 0 {
					wg.Go(func() { p.run(t) })
				}
				time.Sleep(tc.at)
				if err := p.poller.Cancel(t.Context(), testKey, "enough"); err != nil {
					t.Error(err)
				}
				wg.Wait()
				p.run(t)
				if diff := cmp.Diff(map[string]int{tc.want: 1}, ends.count); diff != "" {
					t.Errorf("%s: ends (-want +got):\n%s", tc.reason, diff)
				}
				if cancels := strings.Count(strings.Join(action.lines(), "\n"), "cancel"); cancels > 1 {
					t.Errorf("%s: asked to stop %d times", tc.reason, cancels)
				}
			})
		})
	}
}

// ops-13: work that ended before, while or after it was registered counts once.
func TestPollerRegisterAndCompletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ends endings
		action := newScript(endAfter(10*time.Second, operations.StateCompleted))
		p := newPoll(t, action, operations.PollerOptions{Hooks: operations.PollerHooks{Changed: ends.changed}}, op("before"), op("x"))
		mustUpdate(t, p.m, testKey, setPhase("before", operations.PhaseFailed))
		register := func(ids ...string) {
			t.Helper()
			for _, id := range ids {
				if err := p.poller.Register(t.Context(), testKey, operations.Operation{ID: id, Action: "test"}); err != nil {
					t.Error(err)
				}
			}
		}
		register("before", "x", "twice", "twice")
		var wg sync.WaitGroup
		wg.Go(func() { p.run(t) })
		time.Sleep(10 * time.Second) // the answer of this very moment, and a registration
		register("x", "during")
		wg.Wait()
		register("x", "after")
		if got, want := p.run(t), (operations.Summary{Total: 5, Completed: 4, Failed: 1}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
		want := map[string]int{"x Completed": 1, "twice Completed": 1, "during Completed": 1, "after Completed": 1}
		if diff := cmp.Diff(want, ends.count); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
		if got := p.op(t, "after").Status.Created; got == nil || time.Since(*got) > 2*time.Second {
			t.Errorf("Created = %v, want the time of the registration", got)
		}
	})
}

// O9, ops-9: what nobody would answer for is refused at once, and nothing of it is kept.
func TestPollerRegisterRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		ops    []operations.Operation
		want   error
		text   string
	}{
		"unknown action": {"there is no poller for it", []operations.Operation{op("ok"), {ID: "b", Action: "gone"}}, operations.ErrUnknownAction, `operation "b": unknown action "gone"`},
		"unknown parent": {"nothing would ever stop it", []operations.Operation{op("ok"), childOf("nobody", "b")}, operations.ErrUnknownOperation, `operation "b": parent "nobody"`},
		"own parent":     {"it would be a part of itself", []operations.Operation{op("ok"), childOf("b", "b")}, operations.ErrMalformed, `operation "b": malformed: field Parent`},
		"no ID":          {"a list refuses it", []operations.Operation{op("ok"), {Action: "test"}}, operations.ErrMalformed, "no ID"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPoll(t, nothing{}, operations.PollerOptions{}, op("a"))
			err := p.poller.Register(t.Context(), testKey, tc.ops...)
			if !errors.Is(err, tc.want) || !contains(err, tc.text) {
				t.Errorf("%s: Register() = %v, want %v with %q", tc.reason, err, tc.want, tc.text)
			}
			rec, err := p.m.Peek(t.Context(), testKey)
			if err != nil || rec.List.Len() != 1 {
				t.Errorf("%s: the record has %d operations, %v, want the one from before", tc.reason, rec.List.Len(), err)
			}
		})
	}
}

// Register goes by what the store holds; nothing to register is nothing, and a completed key is closed.
func TestPollerRegisterEdges(t *testing.T) {
	t.Parallel()
	p := newPoll(t, nothing{}, operations.PollerOptions{}, op("a"))
	mustUpdate(t, newMap(t, p.store), testKey, add("theirs"))
	if err := p.poller.Register(t.Context(), testKey, childOf("theirs", "b"), childOf("b", "c")); err != nil {
		t.Errorf("Register() = %v, want it on top of another process's write", err)
	}
	if err := p.poller.Register(t.Context(), testKey); err != nil {
		t.Errorf("Register of nothing = %v", err)
	}
	rec, err := p.m.Peek(t.Context(), testKey)
	if err != nil || rec.List.Len() != 4 {
		t.Errorf("the record has %d operations, %v, want 4", rec.List.Len(), err)
	}
	other := operations.Key{Namespace: "app", Name: "other", UID: "u"}
	if _, err := p.m.Complete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := p.poller.Register(t.Context(), other, op("x")); !errors.Is(err, operations.ErrCompleted) {
		t.Errorf("Register on a completed key = %v, want ErrCompleted", err)
	}
}

// ops-11, X1: after many owners nothing is left: no goroutine, no memory of a key.
func TestPollerLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoll(t, newScript(endAfter(0, operations.StateCompleted)), operations.PollerOptions{})
		var before int
		for i := range 50 {
			key := operations.Key{Namespace: "app", Name: fmt.Sprint("backup", i), UID: "u"}
			if err := p.poller.Register(t.Context(), key, op("a"), op("b")); err != nil {
				t.Fatal(err)
			}
			if _, err := p.poller.Run(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := bubbleGoroutines(); i == 0 {
				before = n
			} else if n > before {
				t.Fatalf("%d goroutines after %d owners, want %d", n, i+1, before)
			}
		}
		if n := operations.PollerKeys(p.poller); n != 0 {
			t.Errorf("the poller remembers %d keys", n)
		}
	})
}

// bubbleGoroutines counts the goroutines of this test's bubble.
func bubbleGoroutines() int {
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, bubble, _ := strings.Cut(strings.SplitN(all[0], "]", 2)[0], "synctest bubble ")
	n := 0
	for _, g := range all {
		if strings.Contains(strings.SplitN(g, "]", 2)[0]+",", "synctest bubble "+bubble+",") {
			n++
		}
	}
	return n
}

// ops-25, ops-4: everything is done and only the last answer does not get through, nor the last write: both are repeated
// within a budget, and no failure is made of it.
func TestPollerErrorsAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		errDown := errors.New("connection reset by peer")
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			switch age := time.Since(start); {
			case age < time.Minute:
				return operations.Progress{State: operations.StateRunning, Completed: 100, Total: 100}, nil
			case age < 9*time.Minute:
				return operations.Progress{}, errDown
			}
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		p.store.hooks(func(context.Context, string, string) error {
			if age := time.Since(start); age > 5*time.Minute && age < 14*time.Minute {
				return errDown
			}
			return nil
		}, nil)
		if got, want := p.run(t), (operations.Summary{Total: 1, Completed: 1}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
		if got := time.Since(start); got < 14*time.Minute || got > 15*time.Minute {
			t.Errorf("Run returned after %v, want soon after the store came back", got)
		}
		if got := p.op(t, "a").Status; got.Error != "" || got.CancelRequested != nil {
			t.Errorf("status = %+v, want no trace of the errors", got)
		}
	})
}

// ops-3: an error that the action does not call permanent is information, however soon it comes; one that it does call
// so is final, in both ways of asking.
func TestPollerFirstErrorIsNotFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errRate := errors.New("client rate limiter: too many requests")
		start := time.Now()
		answer := func(_ context.Context, id string) (operations.Progress, error) {
			switch {
			case id == "gone":
				return operations.Progress{}, fmt.Errorf("read: %w", operations.Permanent(errRate))
			case time.Since(start) < 7*time.Second:
				return operations.Progress{}, errRate
			}
			return operations.Progress{State: operations.StateCompleted}, nil
		}
		p := newPoll(t, newScript(answer), operations.PollerOptions{}, op("a"), op("gone"))
		if got, want := p.run(t), (operations.Summary{Total: 2, Completed: 1, Failed: 1}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
		start = time.Now()
		many := &manyScript{script: newScript(answer), many: func(ctx context.Context, ids []string) (map[string]operations.ProgressResult, error) {
			out := map[string]operations.ProgressResult{}
			for _, id := range ids {
				p, err := answer(ctx, id)
				out[id] = operations.ProgressResult{Progress: p, Err: err}
			}
			return out, nil
		}}
		p = newPoll(t, many, operations.PollerOptions{}, op("a"), op("gone"))
		if got, want := p.run(t), (operations.Summary{Total: 2, Completed: 1, Failed: 1}); got != want {
			t.Errorf("Run() with ProgressMany = %+v, want %+v", got, want)
		}
		if got := time.Since(start); got > 10*time.Second {
			t.Errorf("ended after %v, want soon after the last error", got)
		}
	})
}

// O9, O10: Cancel and Progress have a deadline each: a request to stop that hangs does not hide that the work has ended.
func TestPollerCancelHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		action := newScript(func(ctx context.Context, _ string) (operations.Progress, error) {
			if err := wait(ctx, time.Second); err != nil || time.Since(start) < time.Minute {
				return operations.Progress{State: operations.StateRunning}, err
			}
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		action.cancel = func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) }
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		if err := p.poller.Cancel(t.Context(), testKey, "enough"); err != nil {
			t.Fatal(err)
		}
		if got, want := p.run(t), (operations.Summary{Total: 1, Completed: 1}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
		if got := time.Since(start); got > 2*time.Minute {
			t.Errorf("ended after %v, long after the work", got)
		}
	})
}

// X1: when ctx ends while a callback does not, Step waits for the grace time and does not spin: virtual time would stand
// still.
func TestPollerStepEndsBesideDueOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		action := newScript(func(_ context.Context, id string) (operations.Progress, error) {
			if id == "deaf" {
				<-release
			}
			return operations.Progress{State: operations.StateRunning}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{Fast: 100 * time.Millisecond}, op("deaf"), op("b"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := p.poller.Step(ctx, testKey); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Step() = %v, want the end of ctx", err)
		}
		if got := time.Since(start); got != 4*time.Second {
			t.Errorf("Step returned after %v, want ctx and grace", got)
		}
		close(release)
	})
}
