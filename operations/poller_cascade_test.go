package operations_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

func childOf(parent, id string) operations.Operation {
	o := op(id)
	o.Parent = parent
	return o
}

// O10, ops-8: a parent that ended in another way than Completed has every running child asked to stop, once, in the same
// write, and children of these in turn; children that have ended stay as they are.
func TestPollerCascade(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		parent operations.State // how it ends, after 10 seconds
		mutate func(*operations.Operation)
		want   map[string]string // phases and errors
	}{
		"failed": {
			reason: "the whole family stops",
			parent: operations.StateFailed,
			want: map[string]string{
				"parent": "Failed no space", "child": `Canceled its parent "parent" ended as Failed`,
				"grandchild": `Canceled its parent "child" ended as Canceled`, "done": "Completed ", "stranger": "Completed ",
			},
		},
		"canceled": {
			reason: "by somebody else",
			parent: operations.StateCanceled,
			want: map[string]string{
				"parent": "Canceled no space", "child": `Canceled its parent "parent" ended as Canceled`,
				"grandchild": `Canceled its parent "child" ended as Canceled`, "done": "Completed ", "stranger": "Completed ",
			},
		},
		"completed": {
			reason: "a parent with a result stops nobody",
			parent: operations.StateCompleted,
			want: map[string]string{
				"parent": "Completed ", "child": "Completed ", "grandchild": "Completed ", "done": "Completed ", "stranger": "Completed ",
			},
		},
		"unknown action": {
			reason: "a parent nobody answers for fails at once",
			parent: operations.StateRunning,
			mutate: func(o *operations.Operation) { o.Action = "gone" },
			want: map[string]string{
				"parent": `Failed no action named "gone" is registered`, "child": `Canceled its parent "parent" ended as Failed`,
				"grandchild": `Canceled its parent "child" ended as Canceled`, "done": "Completed ", "stranger": "Completed ",
			},
		},
		"ended before": {
			reason: "also when this poller never saw the parent running",
			parent: operations.StateRunning,
			mutate: func(o *operations.Operation) { o.Status.Phase = operations.PhaseAbandoned },
			want: map[string]string{
				"parent": "Abandoned ", "child": `Canceled its parent "parent" ended as Abandoned`,
				"grandchild": `Canceled its parent "child" ended as Canceled`, "done": "Completed ", "stranger": "Completed ",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				stopped := map[string]bool{}
				action := newScript(nil)
				action.progress = func(_ context.Context, id string) (operations.Progress, error) {
					action.mu.Lock()
					defer action.mu.Unlock()
					state := operations.StateRunning
					switch age := time.Since(start); {
					case id == "parent" && age >= 10*time.Second:
						state = tc.parent
					case stopped[id]:
						state = operations.StateCanceled
					case age >= time.Minute:
						state = operations.StateCompleted
					}
					p := operations.Progress{State: state}
					if id == "parent" {
						p.Error = "no space"
					}
					return p, nil
				}
				action.cancel = func(_ context.Context, id string) error {
					action.mu.Lock()
					defer action.mu.Unlock()
					stopped[id] = true
					return nil
				}
				parent := op("parent")
				if tc.mutate != nil {
					tc.mutate(&parent)
				}
				done := childOf("parent", "done")
				done.Status.Phase = operations.PhaseCompleted
				p := newPoll(t, action, operations.PollerOptions{}, childOf("child", "grandchild"), childOf("parent", "child"),
					done, parent, childOf("nobody", "stranger")) // the parent of the last is not in the list
				p.run(t)
				got := map[string]string{}
				for id := range tc.want {
					st := p.op(t, id).Status
					got[id] = fmt.Sprint(st.Phase, " ", st.Error)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
				}
				asked := map[string]int{}
				for _, line := range action.lines() {
					if f := strings.Fields(line); f[1] == "cancel" {
						asked[f[2]]++
					}
				}
				want := map[string]int{}
				for id, text := range tc.want {
					if strings.Contains(text, "its parent") {
						want[id] = 1
					}
				}
				if diff := cmp.Diff(want, asked); diff != "" {
					t.Errorf("%s: asked to stop (-want +got):\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// ops-8: what another process found out about the parent counts as well, and so does a child that comes later.
func TestPollerCascadeFromOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(endAfter(time.Hour, operations.StateCompleted))
		p := newPoll(t, action, operations.PollerOptions{}, op("parent"), childOf("parent", "child"))
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, newMap(t, p.store), testKey, setPhase("parent", operations.PhaseFailed))
		time.Sleep(2 * time.Minute) // the record is read again
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if got := p.op(t, "child").Status.CancelReason; got != `its parent "parent" ended as Failed` {
			t.Errorf("CancelReason = %q", got)
		}
		if err := p.poller.Register(t.Context(), testKey, operations.Operation{ID: "late", Action: "test", Parent: "parent"}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if got := p.op(t, "late").Status.CancelReason; got != `its parent "parent" ended as Failed` {
			t.Errorf("CancelReason of a late child = %q", got)
		}
	})
}

// O10: a parent that was only asked to stop has not ended; its children go on until it has.
func TestPollerCascadeWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(endAfter(30*time.Second, operations.StateCompleted))
		p := newPoll(t, action, operations.PollerOptions{}, op("parent"), childOf("parent", "child"))
		if err := p.poller.Cancel(t.Context(), testKey, "", "parent"); err != nil {
			t.Fatal(err)
		}
		if got, want := p.run(t), (operations.Summary{Total: 2, Completed: 2}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
		if got := p.op(t, "child").Status; got.CancelRequested != nil {
			t.Errorf("the child was asked to stop: %+v", got)
		}
	})
}
