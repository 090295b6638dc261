package operations_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/sheetanchor/sheetanchor/operations"
)

// O9, ops-2: one error means one thing, whichever way an action gives it: what is final is final everywhere, and what
// is not leaves the operation running everywhere.
func TestPollerClassifiesAlike(t *testing.T) {
	t.Parallel()
	type result = operations.ProgressResult
	plain := errors.New("content has an error")
	final := operations.Permanent(plain)
	failures := map[string]struct {
		reason string
		err    error
		phase  operations.Phase
	}{
		"final":         {"asking again is useless", final, operations.PhaseFailed},
		"final, inside": {"wrapping takes nothing away", fmt.Errorf("read: %w", final), operations.PhaseFailed},
		"final, joined": {"nor does company", errors.Join(errors.New("status"), final), operations.PhaseFailed},
		"not final":     {"it may mend", plain, operations.PhaseInProgress},
		"timeout":       {"an answer was late", context.DeadlineExceeded, operations.PhaseInProgress},
	}
	ways := map[string]func(err error) operations.Action{
		"alone": func(err error) operations.Action {
			return newScript(func(context.Context, string) (operations.Progress, error) { return operations.Progress{}, err })
		},
		"alone, with progress": func(err error) operations.Action {
			return newScript(func(context.Context, string) (operations.Progress, error) {
				return operations.Progress{State: operations.StateCompleted}, err
			})
		},
		"panic": func(err error) operations.Action {
			return newScript(func(context.Context, string) (operations.Progress, error) { panic(err) })
		},
		"one of many": func(err error) operations.Action {
			return &manyScript{script: newScript(nil), many: func(context.Context, []string) (map[string]result, error) {
				return map[string]result{"a": {Err: err}}, nil
			}}
		},
		"all of many": func(err error) operations.Action {
			return &manyScript{script: newScript(nil), many: func(context.Context, []string) (map[string]result, error) { return nil, err }}
		},
	}
	for failure, tc := range failures {
		for way, action := range ways {
			t.Run(failure+"/"+way, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					p := newPoll(t, action(tc.err), operations.PollerOptions{}, op("a"))
					if _, err := p.poller.Step(t.Context(), testKey); err != nil {
						t.Fatal(err)
					}
					if got := p.op(t, "a").Status; got.Phase != tc.phase {
						t.Errorf("phase %s, want %s: %s", got.Phase, tc.phase, tc.reason)
					}
				})
			})
		}
	}
}
