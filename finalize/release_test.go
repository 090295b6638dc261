package finalize_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

// F5: what becomes of a snapshot follows from how its operations ended.
func TestReleaseSnapshots(t *testing.T) {
	t.Parallel()
	late := operation("retried", operations.PhaseCompleted, "")
	late.ID = csisnapshot.OperationID(ref("retried"), began.Add(time.Hour))
	other := operation("not ours", operations.PhaseFailed, "x")
	other.Action, other.ID = "example.com/mover", "opaque"
	never := operation("never", operations.PhaseFailed, "quota")
	never.Resource = operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "app", Name: "claim"}
	ops := opsMap(t,
		operation("good", operations.PhaseCompleted, ""),
		operation("bad", operations.PhaseFailed, "storage full"),
		operation("stopped", operations.PhaseCanceled, ""),
		operation("lost", operations.PhaseAbandoned, ""),
		operation("retried", operations.PhaseFailed, "first try"), late, other, never,
	)
	snaps := newFakeSnapshots("good", "bad", "stopped", "lost", "retried")
	hook := finalize.ReleaseSnapshots(snaps, owner, ops, key)
	report := runOnce(t, hook)
	if report.Errors() != 0 || report.Warnings() != 0 {
		t.Errorf("report = %+v", report)
	}
	want := []string{"destroy app/bad", "destroy app/lost", "destroy app/never", "destroy app/stopped", "release app/good", "release app/retried"}
	if diff := cmp.Diff(want, snaps.calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[csisnapshot.Ref]bool{ref("good"): true, ref("retried"): true}, snaps.data); diff != "" || len(snaps.there) > 0 {
		t.Errorf("%d objects left, physical snapshots (-want +got):\n%s", len(snaps.there), diff)
	}
	if _, err := ops.Complete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	// F2: again, as after a crash behind the completion of the operations: the same end.
	if again := runOnce(t, hook); again.Errors() != 0 || len(snaps.data) != 2 {
		t.Errorf("second run = %+v, physical snapshots %v", again, snaps.data)
	}
}

// F5: a snapshot is never touched while one of its operations runs; the hook comes back, and ends by MaxTotal (F7).
func TestReleaseWaitsForTheOperation(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"ends": true, "never ends": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				running := operation("slow", operations.PhaseInProgress, "")
				ops := opsMap(t, operation("good", operations.PhaseCompleted, ""), running, operation("odd", "Paused", ""))
				snaps := newFakeSnapshots("good", "slow", "odd")
				r := mustNew(t, []finalize.Hook{finalize.ReleaseSnapshots(snaps, owner, ops, key)}, finalize.Options{})
				res, err := r.Step(t.Context())
				if err != nil || res.Done || res.RequeueAfter != 10*time.Second || !snaps.there[ref("slow")] || snaps.there[ref("good")] {
					t.Fatalf("Step = %+v, %v, objects %v, want the ended one released and to come back", res, err, snaps.there)
				}
				if ends {
					_, err := ops.Update(t.Context(), key, func(l *operations.List) error {
						slow, odd := operation("slow", operations.PhaseCompleted, ""), operation("odd", operations.PhaseFailed, "x")
						return l.Set(slow, odd)
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				report, err := r.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want := map[bool]finalize.State{true: finalize.Succeeded, false: finalize.Failed}[ends]
				if report.Hooks[0].State != want || snaps.there[ref("slow")] == ends || snaps.data[ref("slow")] != true || snaps.data[ref("odd")] == ends {
					t.Errorf("report = %+v, objects %v, data %v", report, snaps.there, snaps.data)
				}
			})
		})
	}
}

// F3: a snapshot that cannot be removed is named and holds up no other; it is tried again.
func TestReleaseFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		odd := operation("odd", operations.PhaseCompleted, "")
		odd.ID, odd.Resource = "no snapshot", operations.ResourceID{Namespace: "app", Name: "thing"}
		ops := opsMap(t, operation("a", operations.PhaseCompleted, ""), operation("b", operations.PhaseCompleted, ""), operation("c", operations.PhaseFailed, "x"), odd)
		snaps := newFakeSnapshots("a", "b", "c")
		snaps.faults[ref("a")], snaps.faults[ref("c")] = errors.New("stuck"), errors.New("refused")
		report := runOnce(t, finalize.ReleaseSnapshots(snaps, owner, ops, key))
		want := map[string][]string{"app": {
			`hook release-snapshots: app/thing: operation ID "no snapshot": want NAMESPACE/NAME/START`,
			"hook release-snapshots: app/a: stuck",
			"hook release-snapshots: app/c: refused",
		}}
		if diff := cmp.Diff(want, report.Results().Errors.Namespaces); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
		if h := report.Hooks[0]; h.Attempts != 3 || snaps.there[ref("b")] || !snaps.data[ref("c")] {
			t.Errorf("hook = %+v, objects %v", h, snaps.there)
		}
	})
}

// X1: neither an outage nor a panic of the releaser crosses the hook.
func TestReleaserBreaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ops := opsMap(t, operation("a", operations.PhaseCompleted, ""), operation("b", operations.PhaseFailed, "x"))
		for text, snaps := range map[string]finalize.Releaser{
			"remove snapshots: api down (and 1 more)":       &fakeSnapshots{err: errors.New("api down")},
			"remove snapshots: panic: nil map (and 1 more)": &fakeSnapshots{panics: true},
		} {
			h := runOnce(t, finalize.ReleaseSnapshots(snaps, owner, ops, key)).Hooks[0]
			if h.State != finalize.Failed || h.Error != text {
				t.Errorf("hook = %+v, want failed with %q", h, text)
			}
		}
	})
}
