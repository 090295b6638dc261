package operations_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// X4: every call of an action is told with its method, its duration and what came of it, and every Step with its result.
func TestPollerHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		action := newScript(func(ctx context.Context, id string) (operations.Progress, error) {
			switch id {
			case "deaf":
				<-release
			case "slow":
				return operations.Progress{}, wait(ctx, time.Hour)
			case "bad":
				panic("no such field")
			}
			return operations.Progress{State: operations.StateRunning}, wait(ctx, 3*time.Second)
		})
		calls, steps := map[string]string{}, 0
		opts := operations.PollerOptions{Fast: time.Hour, FastFor: time.Hour, CallTimeout: 10 * time.Second, Hooks: operations.PollerHooks{
			Called: func(_ context.Context, key operations.Key, c operations.Call) {
				cause := "-"
				if errors.Is(c.Err, context.DeadlineExceeded) {
					cause = "deadline"
				} else if errors.Is(c.Err, operations.ErrAbandonedCallback) {
					cause = "abandoned"
				} else if _, ok := errors.AsType[*operations.PanicError](c.Err); ok {
					cause = "panic"
				}
				calls[c.Method+" "+c.OperationIDs[0]] = fmt.Sprint(key.Name, " ", c.Action, " ", len(c.OperationIDs), " ", c.Duration, " ", cause)
			},
			Stepped: func(_ context.Context, _ operations.Key, res operations.Result, err error) {
				if steps++; err != nil || res.Summary.Running != 5 || len(res.Notes) != 3 {
					t.Errorf("stepped with %+v, %v", res, err)
				}
			},
		}}
		p := newPoll(t, action, opts, op("a"), op("slow"), op("bad"), op("deaf"), op("b"))
		if err := p.poller.Cancel(t.Context(), testKey, "enough", "b"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"Progress a":    "nightly test 1 3s -",
			"Progress slow": "nightly test 1 10s deadline",
			"Progress bad":  "nightly test 1 0s panic",
			"Progress deaf": "nightly test 1 11s abandoned",
			"Cancel b":      "nightly test 1 0s -",
			"Progress b":    "nightly test 1 3s -",
		}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if steps != 1 {
			t.Errorf("told of %d steps, want one", steps)
		}
		close(release)
	})
}

// X4: a Step that ends with an error is told too, and hooks that panic are notes.
func TestPollerHooksThatBreak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told error
		opts := operations.PollerOptions{Hooks: operations.PollerHooks{
			Called: func(context.Context, operations.Key, operations.Call) { panic("called") },
			Stepped: func(_ context.Context, _ operations.Key, _ operations.Result, err error) {
				told = err
				panic("stepped")
			},
		}}
		p := newPoll(t, newScript(endAfter(time.Hour, operations.StateCompleted)), opts, op("a"))
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil || len(res.Notes) != 2 {
			t.Fatalf("Step() = %+v, %v, want a note of each hook", res, err)
		}
		for i, want := range []string{"hook Called: panic: called", "hook Stepped: panic: stepped"} {
			if got := res.Notes[i].Err; got.Error() != want {
				t.Errorf("note %d = %v, want %s", i, got, want)
			}
		}
		p.m.EvictAll()
		p.store.hooks(func(context.Context, string, string) error { return errAny }, nil)
		if _, err := p.poller.Step(t.Context(), testKey); !errors.Is(err, errAny) || !errors.Is(told, errAny) {
			t.Errorf("Step() = %v, and the hook was told %v, want %v", err, told, errAny)
		}
	})
}
