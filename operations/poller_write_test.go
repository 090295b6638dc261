package operations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// X1: a store that hangs holds up neither a Step nor a Cancel of a key that is not loaded for longer than StoreTimeout.
func TestPollerStoreHangsOnColdKey(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *operations.Poller) error{
		"step": func(ctx context.Context, p *operations.Poller) error {
			res, err := p.Step(ctx, testKey)
			if err != nil && res.RequeueAfter <= 0 {
				return errors.New("no RequeueAfter beside the error")
			}
			return err
		},
		"cancel": func(ctx context.Context, p *operations.Poller) error { return p.Cancel(ctx, testKey, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newRecorder(operations.NewMemoryStore())
				store.hooks(func(ctx context.Context, _, _ string) error {
					<-ctx.Done()
					return errAny
				}, nil)
				p, err := operations.NewPoller(newMap(t, store), nil, operations.PollerOptions{StoreTimeout: 3 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				if err := call(ctx, p); !errors.Is(err, errAny) || time.Since(start) != 3*time.Second {
					t.Errorf("%s = %v after %v, want the store's error after 3s", name, err, time.Since(start))
				}
			})
		})
	}
}

// O11: progress at most once in an interval, the end at once, unchanged content never. ops-19: in between it can be
// read without the store.
func TestPollerCoalescesWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			switch age := time.Since(start); {
			case age < 25*time.Second: // moves with every question
				return operations.Progress{State: operations.StateRunning, Completed: int64(age.Seconds()), Total: 30}, nil
			case age < time.Minute: // stands still
				return operations.Progress{State: operations.StateRunning, Completed: 25, Total: 30}, nil
			}
			return operations.Progress{State: operations.StateCompleted, Completed: 30, Total: 30}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{Slow: time.Second}, op("a"))
		p.store.hooks(func(context.Context, string, string) error { return nil }, nil)
		for {
			res, err := p.poller.Step(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			if rec, err := p.m.Get(t.Context(), testKey); err != nil {
				t.Fatal(err)
			} else if o, _ := rec.List.Get("a"); time.Since(start) < 25*time.Second && o.Status.Completed != int64(time.Since(start).Seconds()) {
				t.Errorf("at %v the map says %d", time.Since(start), o.Status.Completed)
			}
			if res.Done {
				break
			}
			time.Sleep(res.RequeueAfter)
		}
		var got []string
		reads, writes := p.store.counts()
		for _, at := range writes {
			got = append(got, at.Sub(start).String())
		}
		if diff := cmp.Diff([]string{"0s", "10s", "20s", "30s", "1m0s"}, got); diff != "" {
			t.Errorf("written at (-want +got):\n%s", diff)
		}
		if reads != 1 {
			t.Errorf("%d reads, want one, before Done", reads)
		}
	})
}

// O11: the end of one operation, and the request to stop one, are stored at once, whatever the others do.
func TestPollerUrgentWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		action := newScript(func(_ context.Context, id string) (operations.Progress, error) {
			if id == "ends" && time.Since(start) >= 2*time.Minute {
				return operations.Progress{State: operations.StateCompleted}, nil
			}
			return operations.Progress{State: operations.StateRunning, Completed: int64(time.Since(start).Seconds())}, nil
		})
		opts := slowOpts
		opts.WriteInterval, opts.Deadline = 24*time.Hour, 4*time.Minute
		p := newPoll(t, action, opts, op("ends"), op("stays"))
		var got []string
		for time.Since(start) <= 5*time.Minute {
			p.store.reset()
			res, err := p.poller.Step(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			if _, writes := p.store.counts(); len(writes) > 0 {
				stays := p.op(t, "stays").Status
				got = append(got, fmt.Sprintf("%v: ends %s, stays asked to stop %v", time.Since(start), p.op(t, "ends").Status.Phase, stays.CancelRequested != nil))
			}
			time.Sleep(res.RequeueAfter)
		}
		want := []string{
			"1m0s: ends InProgress, stays asked to stop false",
			"2m0s: ends Completed, stays asked to stop false",
			"4m0s: ends Completed, stays asked to stop true",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// ops-7: an operation that somebody else ended while it was asked about stays as it ended.
func TestPollerLateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			time.Sleep(10 * time.Second)
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Second)
			mustUpdate(t, p.m, testKey, setPhase("a", operations.PhaseFailed))
		})
		res, err := p.poller.Step(t.Context(), testKey)
		if want := (operations.Summary{Total: 1, Failed: 1}); err != nil || !res.Done || res.Summary != want {
			t.Errorf("Step() = %+v, %v, want done with %+v", res, err, want)
		}
		wg.Wait()
	})
}

// O5: an answer is applied once: what somebody else changes afterwards stays.
func TestPollerAnswerIsAppliedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		asked := 0
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			if asked++; asked == 1 {
				return operations.Progress{State: operations.StateRunning, Started: start}, nil
			}
			return operations.Progress{}, errStore
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil {
			t.Fatal(err)
		}
		rec := mustUpdate(t, p.m, testKey, func(l *operations.List) error {
			o, _ := l.Get("a")
			o.Status.Started = new(start.Add(-time.Hour))
			return l.Set(o)
		})
		time.Sleep(res.RequeueAfter)
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if got, err := p.m.Get(t.Context(), testKey); asked != 2 || err != nil || !got.List.Equal(rec.List) {
			t.Errorf("after %d questions the record is not what was set last, %v", asked, err)
		}
	})
}

// O11: many operations that end together are one write.
func TestPollerGathersAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(endAfter(0, operations.StateCompleted))
		var ops []operations.Operation
		for i := range 50 {
			ops = append(ops, op(string(rune('A'+i))))
		}
		p := newPoll(t, action, operations.PollerOptions{}, ops...)
		p.run(t)
		if _, writes := p.store.counts(); len(writes) != 1 {
			t.Errorf("%d writes, want 1", len(writes))
		}
	})
}

// O9, O11: when the store fails, what an operation's action said last is not lost and the action is not asked again.
func TestPollerStoreDown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason        string
		before, after error
		hang          bool
		wantErr       error
	}{
		"write fails":   {reason: "nothing was written", before: errStore, wantErr: errStore},
		"no answer":     {reason: "it was written, and found there", after: operations.ErrUnknownOutcome, wantErr: operations.ErrUnknownOutcome},
		"store hangs":   {reason: "a write has a deadline", hang: true, wantErr: operations.ErrUnknownOutcome},
		"store is back": {reason: "nothing is wrong"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				action := newScript(endAfter(0, operations.StateCompleted))
				p := newPoll(t, action, operations.PollerOptions{}, op("a"))
				p.store.hooks(
					func(ctx context.Context, verb, _ string) error {
						if tc.hang && verb == "write" {
							<-ctx.Done()
							return context.Cause(ctx)
						}
						return tc.before
					},
					func(context.Context, string) error { return tc.after },
				)
				start := time.Now()
				res, err := p.poller.Step(t.Context(), testKey)
				switch {
				case tc.wantErr == nil && (err != nil || !res.Done):
					t.Errorf("Step() = %+v, %v, want done", res, err)
				case tc.wantErr != nil && !errors.Is(err, tc.wantErr):
					t.Errorf("Step() = %v, want %v", err, tc.wantErr)
				case tc.wantErr != nil && (res.Done || res.RequeueAfter <= 0):
					t.Errorf("Step() = %+v with an error, want a time to come back", res)
				}
				if took := time.Since(start); took > 30*time.Second {
					t.Errorf("Step took %v", took)
				}
				p.store.hooks(nil, nil)
				if got, want := p.run(t), (operations.Summary{Total: 1, Completed: 1}); got != want {
					t.Errorf("%s: Run() = %+v, want %+v", tc.reason, got, want)
				}
				if got := len(action.lines()); got != 1 {
					t.Errorf("asked %d times, want once", got)
				}
				if got := p.op(t, "a").Status.Phase; got != operations.PhaseCompleted {
					t.Errorf("stored phase = %s", got)
				}
			})
		})
	}
}

// O9: a store that cannot take progress does not stop the questions.
func TestPollerProgressWriteFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			return operations.Progress{State: operations.StateRunning, Completed: int64(time.Since(start).Seconds())}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		errFull := errors.New("disk full")
		p.store.hooks(func(_ context.Context, verb, _ string) error {
			if verb == "write" {
				return errFull
			}
			return nil
		}, nil)
		var notes int
		for time.Since(start) < 30*time.Second {
			res, err := p.poller.Step(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range res.Notes {
				if !errors.Is(n.Err, errFull) {
					t.Errorf("note = %v", n.Err)
				}
				notes++
			}
			time.Sleep(res.RequeueAfter)
		}
		if _, writes := p.store.counts(); notes != len(writes) || notes < 2 || notes > 4 {
			t.Errorf("%d notes of %d writes in 30s, want one each 10s", notes, len(writes))
		}
		if got := len(action.lines()); got != 14 {
			t.Errorf("asked %d times, want 14: at 0 to 10, 15, 20 and 25 s", got)
		}
	})
}

// O7: of two pollers on one store, the one whose record is old overwrites nothing, and goes on with what there is.
func TestPollerDeposed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := newPoll(t, newScript(endAfter(0, operations.StateFailed)), operations.PollerOptions{}, op("a"), op("b"))
		if _, err := old.m.Get(t.Context(), testKey); err != nil { // it believes to own the backup
			t.Fatal(err)
		}
		mustUpdate(t, newMap(t, old.store), testKey, setPhase("a", operations.PhaseCompleted))
		res, err := old.poller.Step(t.Context(), testKey)
		if want := (operations.Summary{Total: 2, Completed: 1, Failed: 1}); err != nil || !res.Done || res.Summary != want {
			t.Errorf("Step of the deposed poller = %+v, %v, want done with %+v", res, err, want)
		}
		if got := old.op(t, "a").Status.Phase; got != operations.PhaseCompleted {
			t.Errorf("stored phase = %s, want the new owner's Completed", got)
		}
		if got := old.op(t, "b").Status.Phase; got != operations.PhaseFailed {
			t.Errorf("stored phase = %s, want what the deposed poller learnt", got)
		}
	})
}

// O9: Run rides out a store that fails for a while, not one that fails for longer than the budget.
func TestPollerRunErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		down time.Duration
		err  error
		want error
		took time.Duration
	}{
		"a while":       {down: 9 * time.Minute, err: errAny, took: 9 * time.Minute},
		"too long":      {down: time.Hour, err: errAny, want: errAny, took: 10 * time.Minute},
		"foreign":       {down: time.Hour, err: operations.ErrForeignRecord, want: operations.ErrForeignRecord},
		"not readable":  {down: time.Hour, err: operations.ErrMalformed, want: operations.ErrMalformed},
		"does not fail": {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPoll(t, newScript(endAfter(0, operations.StateCompleted)), operations.PollerOptions{}, op("a"))
				p.m.EvictAll()
				start := time.Now()
				p.store.hooks(func(context.Context, string, string) error {
					if time.Since(start) < tc.down {
						return tc.err
					}
					return nil
				}, nil)
				if _, err := p.poller.Run(t.Context(), testKey); !errors.Is(err, tc.want) {
					t.Errorf("Run() = %v, want %v", err, tc.want)
				}
				if got := time.Since(start); got != tc.took {
					t.Errorf("Run took %v, want %v", got, tc.took)
				}
			})
		})
	}
}

// O9: a Step that works gives Run the whole budget back.
func TestPollerRunErrorsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var p poll
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			p.m.EvictAll() // so that the next Step has to read
			if time.Since(start) < 15*time.Minute {
				return operations.Progress{State: operations.StateRunning}, nil
			}
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		p = newPoll(t, action, operations.PollerOptions{}, op("a"))
		p.m.EvictAll()
		p.store.hooks(func(context.Context, string, string) error {
			if age := time.Since(start); age < 6*time.Minute || age > 8*time.Minute && age < 14*time.Minute {
				return errStore
			}
			return nil
		}, nil)
		if got, want := p.run(t), (operations.Summary{Total: 1, Completed: 1}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
	})
}

// O9: a wake-up from outside ends the wait of Run.
func TestPollerRunIsWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPoll(t, newScript(endAfter(90*time.Second, operations.StateCompleted)), operations.PollerOptions{Fast: time.Hour, Slow: time.Hour}, op("a"))
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(100 * time.Second)
			p.poller.Wake(testKey)
		})
		p.run(t)
		wg.Wait()
		if got := time.Since(start); got != 100*time.Second {
			t.Errorf("ended after %v, want at the wake-up", got)
		}
	})
}

// O9: a completed key is done, an empty one too, and a key of which two Steps run at once is asked once.
func TestPollerStepEdges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			time.Sleep(time.Second / 2)
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if res, err := p.poller.Step(t.Context(), testKey); err != nil || !res.Done {
					t.Errorf("Step() = %+v, %v, want done", res, err)
				}
			})
		}
		wg.Wait()
		if got := len(action.lines()); got != 1 {
			t.Errorf("asked %d times, want once", got)
		}
		sum, err := p.m.Complete(t.Context(), testKey)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := p.poller.Step(t.Context(), testKey); err != nil || !res.Done || res.Summary != sum {
			t.Errorf("Step of a completed key = %+v, %v, want done with %+v", res, err, sum)
		}
		empty := operations.Key{Namespace: "app", Name: "empty", UID: "uid-2"}
		if res, err := p.poller.Step(t.Context(), empty); err != nil || !res.Done || res.Summary.Total != 0 {
			t.Errorf("Step of an empty key = %+v, %v, want done", res, err)
		}
		if _, err := p.poller.Step(t.Context(), operations.Key{Name: "../x", UID: "u"}); err == nil {
			t.Error("Step of an invalid key succeeded")
		}
	})
}

// X1: a panic of a hook does not cross the API and is reported.
func TestPollerHookPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts := operations.PollerOptions{Hooks: operations.PollerHooks{
			Changed: func(context.Context, operations.Key, operations.Operation) { panic("hook") },
		}}
		p := newPoll(t, newScript(endAfter(0, operations.StateCompleted)), opts, op("a"))
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil || !res.Done {
			t.Fatalf("Step() = %+v, %v", res, err)
		}
		checkNotes(t, res.Notes, &operations.PanicError{Value: "hook"})
	})
}

// ops-19: counts never fall while the unit stays, never exceed the total, and being at 100 % is not an end.
func TestPollerProgressIsMonotonic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := []operations.Progress{
			{State: operations.StateRunning, Completed: 5, Total: 10, Units: "Bytes", Description: "reading"},
			{State: operations.StateRunning, Completed: 3},
			{State: operations.StateRunning, Completed: 12},
			{State: operations.StateRunning, Completed: -1, Total: 2, Units: "Files"},
		}
		want := []operations.Status{
			{Completed: 5, Total: 10, Units: "Bytes", Description: "reading"},
			{Completed: 5, Total: 10, Units: "Bytes", Description: "reading"},
			{Completed: 10, Total: 10, Units: "Bytes", Description: "reading"},
			{Completed: 0, Total: 2, Units: "Files", Description: "reading"},
		}
		round := 0
		action := newScript(func(context.Context, string) (operations.Progress, error) { return answers[round], nil })
		p := newPoll(t, action, operations.PollerOptions{WriteInterval: time.Nanosecond}, op("a"))
		for ; round < len(answers); round++ {
			res, err := p.poller.Step(t.Context(), testKey)
			if err != nil || res.Done {
				t.Fatalf("Step() = %+v, %v", res, err)
			}
			got := p.op(t, "a").Status
			got.Phase, got.Created, got.Updated = "", nil, nil
			if diff := cmp.Diff(want[round], got); diff != "" {
				t.Errorf("after answer %d (-want +got):\n%s", round, diff)
			}
			time.Sleep(res.RequeueAfter)
		}
	})
}

func TestNewPollerRefusesBadOptions(t *testing.T) {
	t.Parallel()
	m := newMap(t, operations.NewMemoryStore())
	_, err := operations.NewPoller(nil, map[string]operations.Action{"nothing": nil, "": newScript(nil)}, operations.PollerOptions{
		Fast: -1, Jitter: 2, Concurrency: -1, ActionConcurrency: map[string]int{"unheard": 1}, ReadInterval: -1,
	})
	for _, want := range []string{"map is nil", `action "nothing" is nil`, `the name ""`, "ReadInterval", "Fast", "Jitter", "Concurrency is negative", `action "unheard"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewPoller() = %v, want it to name %q", err, want)
		}
	}
	if _, err := operations.NewPoller(m, nil, operations.PollerOptions{}); err != nil {
		t.Errorf("NewPoller of the zero options = %v", err)
	}
}

// O9: the times an action gives are kept; an Updated that falls back is not.
func TestPollerTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		answers := []operations.Progress{
			{State: operations.StateRunning, Started: start.Add(-time.Minute), Updated: start.Add(-time.Second)},
			{State: operations.StateRunning, Updated: start.Add(-time.Hour)},
			{State: operations.StateRunning, Completed: 1},
			{State: operations.StateRunning, Completed: 1},
		}
		want := []time.Duration{-time.Second, -time.Second, 2 * time.Second, 2 * time.Second} // Updated
		round := 0
		action := newScript(func(context.Context, string) (operations.Progress, error) { return answers[round], nil })
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		for ; round < len(answers); round++ {
			res, err := p.poller.Step(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := p.m.Get(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			o, _ := rec.List.Get("a")
			if o.Status.Started.Sub(start) != -time.Minute || o.Status.Updated.Sub(start) != want[round] {
				t.Errorf("after answer %d: started %v, updated %v, want %v", round, o.Status.Started, o.Status.Updated, want[round])
			}
			time.Sleep(res.RequeueAfter)
		}
	})
}

// O9, X1: forgetting a key drops the poller's memory, not the record: everything is due at once again.
func TestPollerForget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(endAfter(time.Hour, operations.StateCompleted))
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		for i := range 2 {
			if _, err := p.poller.Step(t.Context(), testKey); err != nil {
				t.Fatal(err)
			}
			if got := len(action.lines()); got != i+1 {
				t.Errorf("asked %d times, want %d", got, i+1)
			}
			p.poller.Forget(testKey)
		}
	})
}

// X1: a Step that does not get its turn leaves nothing in the poller's memory, whoever goes last.
func TestPollerForgetsWhoDidNotGetTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			time.Sleep(time.Second)
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errAny)
		if _, err := p.poller.Step(ended, testKey); !errors.Is(err, errAny) {
			t.Errorf("Step() = %v, want the cause of the end", err)
		}
		if got := operations.PollerKeys(p.poller); got != 0 {
			t.Errorf("%d keys after a Step that never began, want none", got)
		}
		var wg sync.WaitGroup
		wg.Go(func() { p.run(t) })
		synctest.Wait()
		ctx, stop := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errAny)
		defer stop()
		if _, err := p.poller.Step(ctx, testKey); !errors.Is(err, errAny) {
			t.Errorf("Step() beside another = %v, want the cause of the end", err)
		}
		if got := operations.PollerKeys(p.poller); got != 1 {
			t.Errorf("%d keys while a Step runs, want its own", got)
		}
		wg.Wait()
		if got := operations.PollerKeys(p.poller); got != 0 {
			t.Errorf("%d keys after the end, want none", got)
		}
	})
}

// phase-7: a restart goes on from the record: same operations, same ages.
func TestPollerRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		action := newScript(endAfter(time.Minute, operations.StateCompleted))
		p := newPoll(t, action, operations.PollerOptions{}, op("a"), op("b"))
		for time.Since(start) < 30*time.Second {
			restarted, err := operations.NewPoller(newMap(t, p.store), map[string]operations.Action{"test": action}, operations.PollerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			res, err := restarted.Step(t.Context(), testKey)
			if err != nil || res.Summary != (operations.Summary{Total: 2, Running: 2}) {
				t.Fatalf("Step after a restart = %+v, %v", res, err)
			}
			if want := map[bool]time.Duration{true: time.Second, false: 5 * time.Second}[time.Since(start) < 10*time.Second]; res.RequeueAfter != want {
				t.Errorf("at %v: RequeueAfter = %v, want %v: the age is in the record", time.Since(start), res.RequeueAfter, want)
			}
			time.Sleep(res.RequeueAfter)
		}
		p.m.EvictAll()
		if got, want := p.run(t), (operations.Summary{Total: 2, Completed: 2}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
	})
}

// X4: the hook is told of each change once, also when the write was done and its answer lost, and of what another process
// stored.
func TestPollerChangedIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		opts := operations.PollerOptions{Hooks: operations.PollerHooks{Changed: func(_ context.Context, _ operations.Key, o operations.Operation) {
			told = append(told, fmt.Sprint(o.ID, " ", o.Status.Phase))
		}}}
		action := newScript(func(_ context.Context, id string) (operations.Progress, error) {
			return operations.Progress{State: map[string]operations.State{"a": operations.StateCompleted, "b": operations.StateRunning}[id]}, nil
		})
		p := newPoll(t, action, opts, op("a"), op("b"))
		p.store.hooks(nil, func(context.Context, string) error { return errAny })
		if _, err := p.poller.Step(t.Context(), testKey); !errors.Is(err, errAny) {
			t.Fatalf("Step() = %v, want %v", err, errAny)
		}
		p.store.hooks(nil, nil)
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, newMap(t, p.store), testKey, setPhase("b", operations.PhaseFailed))
		time.Sleep(2 * time.Minute)
		if res, err := p.poller.Step(t.Context(), testKey); err != nil || !res.Done {
			t.Fatalf("Step() = %+v, %v, want done", res, err)
		}
		if diff := cmp.Diff([]string{"a Completed", "b Failed"}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
