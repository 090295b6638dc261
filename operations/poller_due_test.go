package operations_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// rareOpts ask so seldom that only something else than a question can be due.
var rareOpts = operations.PollerOptions{Fast: time.Hour, Slow: time.Hour, StallWindow: 100 * time.Hour}

// still is an action whose operations run and report progress.
func still() *script {
	return newScript(func(context.Context, string) (operations.Progress, error) {
		return operations.Progress{State: operations.StateRunning, Completed: 1, Total: 2}, nil
	})
}

// O11: progress that was committed and not stored makes the next Step due when it may be stored, though no operation
// has to be asked about.
func TestPollerUnwrittenProgressIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoll(t, still(), rareOpts, op("a"))
		var refused error
		p.store.hooks(func(_ context.Context, verb, _ string) error {
			if verb == "write" && refused == nil {
				refused = errors.New("disk full")
				return refused
			}
			return nil
		}, nil)
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil || refused == nil {
			t.Fatalf("Step = %v, write refused: %v", err, refused)
		}
		if res.RequeueAfter > 10*time.Second {
			t.Fatalf("come back after %v, want the default WriteInterval at most", res.RequeueAfter)
		}
		time.Sleep(res.RequeueAfter)
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if got := p.op(t, "a").Status.Completed; got != 1 {
			t.Errorf("the store says %d, want 1", got)
		}
	})
}

// O10: a request to stop that another process stored is passed on as soon as it is heard of, not when the operation
// would have been asked about.
func TestPollerForeignRequestIsPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := still()
		p := newPoll(t, action, rareOpts, op("a"))
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		other, err := operations.NewPoller(newMap(t, p.store), map[string]operations.Action{"test": still()}, rareOpts)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Cancel(t.Context(), testKey, "not wanted"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the default ReadInterval
		for range 2 {
			res, err := p.poller.Step(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.Join(action.lines(), "\n"), "+60.000s cancel a") {
				return
			}
			if res.RequeueAfter > time.Second {
				break
			}
			time.Sleep(res.RequeueAfter)
		}
		t.Errorf("asked %v, want the request passed on after a minute", action.lines())
	})
}

// O11: ends that somebody put into the map are stored before the poller says Done; that they cannot be is its error.
func TestPollerPutEndIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoll(t, still(), rareOpts, op("a"))
		rec, err := p.m.Get(t.Context(), testKey)
		if err == nil {
			err = setPhase("a", operations.PhaseCompleted)(&rec.List)
		}
		if err == nil {
			_, err = p.m.Put(t.Context(), rec)
		}
		if err != nil {
			t.Fatal(err)
		}
		full := errors.New("disk full")
		p.store.hooks(func(_ context.Context, verb, _ string) error {
			if verb == "write" {
				return full
			}
			return nil
		}, nil)
		if res, err := p.poller.Step(t.Context(), testKey); !errors.Is(err, full) || res.Done {
			t.Errorf("Step = done %v, %v, want the store's error", res.Done, err)
		}
		p.store.hooks(nil, nil)
		if res, err := p.poller.Step(t.Context(), testKey); err != nil || !res.Done {
			t.Errorf("Step = done %v, %v", res.Done, err)
		}
		if got := p.op(t, "a").Status.Phase; got != operations.PhaseCompleted {
			t.Errorf("the store says %s", got)
		}
	})
}

// O10: an error of a request to stop that arrived later is no cause any more.
func TestPollerCancelErrorIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action, tries := still(), 0
		action.cancel = func(context.Context, string) error {
			if tries++; tries == 1 {
				return errors.New("no route")
			}
			return nil
		}
		p := newPoll(t, action, slowOpts, op("a"))
		if err := p.poller.Cancel(t.Context(), testKey, "not wanted"); err != nil {
			t.Fatal(err)
		}
		p.run(t)
		got := p.op(t, "a").Status
		if got.Phase != operations.PhaseAbandoned || strings.Contains(got.Error, "no route") {
			t.Errorf("ended as %s: %s; want Abandoned, and no error that was overcome", got.Phase, got.Error)
		}
	})
}
