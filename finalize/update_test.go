package finalize_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

func item(name string) operations.ResourceID {
	return operations.ResourceID{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots", Namespace: "app", Name: name}
}

// asking is an operation that has ended in a phase and asks for items.
func asking(name string, phase operations.Phase, items ...string) operations.Operation {
	op := operation(name, phase, "")
	for _, i := range items {
		op.PostItems = append(op.PostItems, item(i))
	}
	return op
}

// F5, fin-9: every item that a completed operation asked for is updated once, in order, told the phase; those of failed,
// canceled and abandoned operations are left alone, and the error of each item is kept by item.
func TestUpdateItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ops := opsMap(
			t, asking("a", operations.PhaseCompleted, "a2", "a1"), asking("b", operations.PhaseFailed, "b1"), asking("c", operations.PhaseCanceled, "c1"),
			asking("d", operations.PhaseAbandoned, "d1"), asking("e", operations.PhaseCompleted, "a1", "refused", "panics", "starts", "slow", "flaky", "last"),
			operation("none", operations.PhaseInProgress, ""),
		)
		var calls log
		tries := 0
		update := func(ctx context.Context, id operations.ResourceID, phase string) ([]operations.Operation, error) {
			calls.add(phase + " " + id.Name)
			switch id.Name {
			case "refused":
				return nil, finalize.Permanent(errors.New("no such item"))
			case "panics":
				panic("nil map")
			case "starts":
				return []operations.Operation{{ID: "op-7"}, {ID: "op-8"}}, nil
			case "slow":
				return nil, untilDone(ctx)
			case "flaky":
				if tries++; tries == 1 {
					return nil, errors.New("connection refused")
				}
			}
			return nil, nil
		}
		hook := finalize.UpdateItems(ops, key, update, finalize.UpdateOptions{})
		report := runOnce(t, hook)
		h := report.Hooks[0]
		want := []finalize.Entry{
			{Namespace: "app", Name: "volumesnapshots.snapshot.storage.k8s.io/refused", Message: "no such item"},
			{Namespace: "app", Name: "volumesnapshots.snapshot.storage.k8s.io/panics", Message: "panic: nil map"},
			{Namespace: "app", Name: "volumesnapshots.snapshot.storage.k8s.io/starts", Message: "operation started during finalize: op-7, op-8"},
			{Namespace: "app", Name: "volumesnapshots.snapshot.storage.k8s.io/slow", Message: "hook timed out after 1m0s"},
		}
		if diff := cmp.Diff(want, h.Items); diff != "" || h.State != finalize.Failed || h.Attempts != 3 {
			t.Errorf("%s after %d attempts, items (-want +got):\n%s", h.State, h.Attempts, diff)
		}
		first := []string{"a2", "a1", "refused", "panics", "starts", "slow", "flaky", "last"}
		for i, name := range first {
			if got := calls.all()[i]; got != "Finalizing "+name {
				t.Errorf("call %d = %q, want Finalizing %s", i, got, name)
			}
		}
		counts := map[string]int{}
		for _, line := range calls.all() {
			counts[strings.TrimPrefix(line, "Finalizing ")]++
		}
		if diff := cmp.Diff(map[string]int{"a2": 1, "a1": 1, "last": 1, "flaky": 2, "refused": 1, "panics": 3, "starts": 1, "slow": 3}, counts); diff != "" {
			t.Errorf("calls (-want +got): what succeeded is not repeated\n%s", diff)
		}
	})
}

// F2: nothing is updated while an operation that asked for items runs; F7: the wait ends by MaxTotal.
func TestUpdateItemsWaits(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"ends": true, "never ends": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				running := asking("slow", operations.PhaseInProgress, "x")
				ops := opsMap(t, running, asking("good", operations.PhaseCompleted, "y"))
				calls := 0
				hook := finalize.UpdateItems(ops, key, func(context.Context, operations.ResourceID, string) ([]operations.Operation, error) {
					calls++
					return nil, nil
				}, finalize.UpdateOptions{Phase: "Verifying"})
				r := mustNew(t, []finalize.Hook{hook}, finalize.Options{MaxTotal: 10 * time.Minute})
				res, err := r.Step(t.Context())
				if err != nil || res.Done || calls != 0 {
					t.Fatalf("Step = %+v, %v after %d updates, want to come back after none", res, err, calls)
				}
				if ends {
					if _, err := ops.Update(t.Context(), key, func(l *operations.List) error {
						running.Status.Phase = operations.PhaseCompleted
						return l.Set(running)
					}); err != nil {
						t.Fatal(err)
					}
				}
				report, err := r.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if h := report.Hooks[0]; ends && (h.State != finalize.Succeeded || calls != 2) {
					t.Errorf("hook = %+v after %d updates, want success and 2", h, calls)
				} else if !ends && (h.State != finalize.Failed || !strings.Contains(h.Error, running.ID) || calls != 0) {
					t.Errorf("hook = %+v after %d updates, want failed with the operation named, and none", h, calls)
				}
			})
		})
	}
}

// X1, F7: a callback that ignores the end of its context ends the hook in a bounded time; the items behind it are errors of
// their own, and nothing is called beside it.
func TestUpdateItemsAbandons(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ops := opsMap(t, asking("a", operations.PhaseCompleted, "deaf", "next"))
		free := make(chan struct{})
		var calls atomic.Int32
		hook := finalize.UpdateItems(ops, key, func(context.Context, operations.ResourceID, string) ([]operations.Operation, error) {
			calls.Add(1)
			<-free
			return nil, nil
		}, finalize.UpdateOptions{ItemTimeout: time.Minute, Grace: time.Second})
		start := time.Now()
		h := runOnce(t, hook).Hooks[0]
		if took := time.Since(start); took != 61*time.Second || calls.Load() != 1 || h.State != finalize.Failed {
			t.Errorf("%s after %v and %d calls, want failed after 1m1s and one", h.State, took, calls.Load())
		}
		if len(h.Items) != 2 || !strings.Contains(h.Items[0].Message, "abandoned callback") || !strings.Contains(h.Items[1].Message, "not tried") {
			t.Errorf("items = %+v, want the abandoned one and the one behind it", h.Items)
		}
		close(free)
	})
}

// fin-19: what is uploaded is what the cluster says after the hooks that change it, and a second finalize uploads the same.
func TestUpdateReadsWhatIsTrueAfter(t *testing.T) {
	t.Parallel()
	cluster, uploaded := map[string]string{"s": "Delete"}, map[string][]string{}
	ops := opsMap(t, asking("s", operations.PhaseCompleted, "s"))
	for range 2 {
		retain := finalize.Hook{Name: "retain", Run: func(context.Context) error { cluster["s"] = "Retain"; return nil }}
		update := finalize.UpdateItems(ops, key, func(_ context.Context, id operations.ResourceID, _ string) ([]operations.Operation, error) {
			uploaded[id.Name] = append(uploaded[id.Name], cluster[id.Name])
			return nil, nil
		}, finalize.UpdateOptions{}, "retain")
		if report := runOnce(t, update, retain); report.Errors() != 0 {
			t.Errorf("report = %+v", report)
		}
	}
	if diff := cmp.Diff(map[string][]string{"s": {"Retain", "Retain"}}, uploaded); diff != "" {
		t.Errorf("uploads (-want +got):\n%s", diff)
	}
}

// F2: an operation that was started while finalize ran, or that has no end, is an error.
func TestRefuseOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := operation("before", operations.PhaseCompleted, "")
		before.Status.Created = new(time.Now().Add(-time.Hour))
		ops := opsMap(t, before, operation("endless", operations.PhaseInProgress, ""))
		starts := finalize.Hook{Name: "starts", Run: func(ctx context.Context) error {
			time.Sleep(3 * time.Second)
			late := operation("late", operations.PhaseCompleted, "")
			late.Status.Created = new(time.Now())
			_, err := ops.Update(ctx, key, func(l *operations.List) error { return l.Add(late) })
			return err
		}}
		h := runOnce(t, starts, finalize.RefuseOperations(ops, key, "starts")).Hooks[1]
		var got []string
		for _, e := range h.Items {
			got = append(got, fmt.Sprintf("%s/%s: %s", e.Namespace, e.Name, strings.Fields(e.Message)[0]))
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"app/endless: operation", "app/late: operation"}, got); diff != "" || h.State != finalize.Failed || h.Attempts != 1 {
			t.Errorf("hook = %+v, items (-want +got):\n%s", h, diff)
		}
		if !strings.Contains(h.Items[1].Message, finalize.ErrOperationStarted.Error()) {
			t.Errorf("the late operation is told as %q", h.Items[1].Message)
		}
	})
}

// F2: a failure that no later try can mend is not tried again.
func TestPermanent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := runOnce(t, finalize.Hook{Name: "h", Retries: 5, Run: func(context.Context) error {
			return errors.Join(errors.New("first"), finalize.Permanent(errors.New("no such kind")))
		}}).Hooks[0]
		if h.Attempts != 1 || h.State != finalize.Failed || len(h.Items) != 2 || h.Items[1].Message != "no such kind" {
			t.Errorf("hook = %+v, want failed at the first attempt with both errors", h)
		}
		if finalize.Permanent(nil) != nil {
			t.Error("Permanent(nil) is an error")
		}
	})
}
