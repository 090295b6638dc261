package csisnapshot_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

// Every method that is given snapshots names the one that is not whole, and its field, before it sends a request.
func TestRefsThatNameNoSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
		s := l.snapshotter(csisnapshot.WaitOptions{})
		retain := csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyRetain}
		good, bad := l.ref(0), []csisnapshot.Ref{{Name: "left"}, {Namespace: "app"}}
		refs := []csisnapshot.Ref{good, bad[0], bad[1]}
		removed := func(report *csisnapshot.ReleaseReport, err error) error {
			if report == nil || len(report.Items) != 0 {
				t.Errorf("the report is %+v, want an empty one", report)
			}
			return err
		}
		l.counter.Reset()
		_, waited := s.Wait(t.Context(), l.owner, csisnapshot.StageCut, refs...)
		_, recorded := s.Records(t.Context(), l.owner, refs...)
		for name, err := range map[string]error{
			"Release":  removed(s.Release(t.Context(), l.owner, refs...)),
			"Destroy":  removed(s.Destroy(t.Context(), l.owner, refs...)),
			"Remove":   removed(s.Remove(t.Context(), l.owner, retain, refs...)),
			"WaitGone": removed(s.WaitGone(t.Context(), l.owner, refs...)),
			"Wait":     waited,
			"Records":  recorded,
		} {
			for _, want := range []string{`refs[1] "/left": Ref.Namespace is empty`, `refs[2] "app/": Ref.Name is empty`} {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "refs[0]") {
					t.Errorf("%s: %v, want %s and no other", name, err, want)
				}
			}
		}
		for i, want := range []string{"Ref.Namespace is empty", "Ref.Name is empty"} {
			_, cloned := s.Clone(t.Context(), l.owner, bad[i], "app")
			_, explained := s.Explain(t.Context(), bad[i], "")
			for name, err := range map[string]error{"Clone": cloned, "Explain": explained} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s of %s: %v, want %s", name, bad[i], err, want)
				}
			}
		}
		if sent := l.counter.Requests(); len(sent) != 0 {
			t.Errorf("it sent %v", sent)
		}
	})
}

// A record that is not whole is named by its place among the arguments and by what it is of.
func TestRecordsThatAreNotWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
		s := l.snapshotter(csisnapshot.WaitOptions{})
		records := []csisnapshot.VolumeRecord{
			{Driver: "d", Claim: csisnapshot.ClaimRef{Namespace: "app", Name: "data"}},
			{Handle: "h-1"},
		}
		l.counter.Reset()
		_, restored := s.Restore(t.Context(), l.owner, "app", records...)
		report, expired := s.Expire(t.Context(), l.owner, csisnapshot.RemoveOptions{}, records...)
		if report == nil {
			t.Error("Expire has no report")
		}
		for name, err := range map[string]error{"Restore": restored, "Expire": expired} {
			for _, want := range []string{"records[0]: ", `record of claim app/data of driver "d": Handle is empty`, "records[1]: ", `record of handle "h-1": Driver is empty`} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %s", name, err, want)
				}
			}
		}
		if sent := l.counter.Requests(); len(sent) != 0 {
			t.Errorf("it sent %v", sent)
		}
	})
}

// A Snapshotter that New did not make answers every call with an error that says so.
func TestZeroSnapshotter(t *testing.T) {
	t.Parallel()
	owner, ref := exampleOwner, csisnapshot.Ref{Namespace: "app", Name: "data"}
	record := csisnapshot.VolumeRecord{Driver: "d", Handle: "h"}
	remove := csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyDelete}
	for reason, s := range map[string]*csisnapshot.Snapshotter{"zero": {}, "nil": nil} {
		for name, call := range map[string]func() (any, error){
			"Plan":      func() (any, error) { return s.Plan(t.Context(), "app") },
			"Cut":       func() (any, error) { return s.Cut(t.Context(), owner, &csisnapshot.Plan{}) },
			"Thaw":      func() (any, error) { return s.Thaw(t.Context(), owner) },
			"Wait":      func() (any, error) { return s.Wait(t.Context(), owner, csisnapshot.StageCut, ref) },
			"Release":   func() (any, error) { return s.Release(t.Context(), owner, ref) },
			"Destroy":   func() (any, error) { return s.Destroy(t.Context(), owner, ref) },
			"Remove":    func() (any, error) { return s.Remove(t.Context(), owner, remove, ref) },
			"WaitGone":  func() (any, error) { return s.WaitGone(t.Context(), owner, ref) },
			"Leftovers": func() (any, error) { return s.Leftovers(t.Context(), owner.UID) },
			"Sweep":     func() (any, error) { return s.Sweep(t.Context(), owner.UID, remove) },
			"Expire":    func() (any, error) { return s.Expire(t.Context(), owner, remove, record) },
			"Restore":   func() (any, error) { return s.Restore(t.Context(), owner, "app", record) },
			"Records":   func() (any, error) { return s.Records(t.Context(), owner, ref) },
			"Clone":     func() (any, error) { return s.Clone(t.Context(), owner, ref, "app") },
			"Explain":   func() (any, error) { return s.Explain(t.Context(), ref, "") },
			"Action":    func() (any, error) { return s.Action().Progress(t.Context(), "app/data/1") },
		} {
			got, err := call()
			if err == nil || !strings.Contains(err.Error(), "was not made by New") {
				t.Errorf("%s of a %s Snapshotter: %v", name, reason, err)
			}
			switch report := got.(type) {
			case *csisnapshot.ReleaseReport:
				if report == nil {
					t.Errorf("%s of a %s Snapshotter: no report", name, reason)
				}
			case *csisnapshot.Report:
				if report == nil {
					t.Errorf("%s of a %s Snapshotter: no report", name, reason)
				}
			}
		}
	}
}

// An Action and a Waiter that their functions did not make answer with errors that say so, and block nobody.
func TestZeroWaiterAndAction(t *testing.T) {
	t.Parallel()
	const want = "was not made by New"
	ref := csisnapshot.Ref{Namespace: "app", Name: "data"}
	var w csisnapshot.Waiter
	<-w.Opened()
	<-w.Stalled("d")
	_, pending := w.Add(csisnapshot.Target{Ref: ref, UID: "1", Driver: "d"}, csisnapshot.StageReady).Wait(t.Context(), csisnapshot.StageReady)
	outcomes := w.Wait(t.Context(), []csisnapshot.Target{{Ref: ref}}, csisnapshot.StageCut)
	w.Close()
	var a csisnapshot.Action
	_, one := a.Progress(t.Context(), "app/data/1")
	_, many := a.ProgressMany(t.Context(), []string{"app/data/1"})
	for name, err := range map[string]error{
		"Waiter.Add": pending, "Waiter.Wait": outcomes[0].Err, "Waiter.Run": w.Run(t.Context()),
		"Action.Progress": one, "Action.ProgressMany": many, "Action.Cancel": a.Cancel(t.Context(), "app/data/1"), "Action.Run": a.Run(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var _ operations.ManyAction = &a
}

// A waiter that is used again says so, in whatever way.
func TestWaiterIsUsedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
		l.create(0)
		w := l.waiter(csisnapshot.WaitOptions{})
		targets := []csisnapshot.Target{{Ref: l.ref(0)}}
		if first := w.Wait(t.Context(), targets, csisnapshot.StageReady); first[0].Err != nil {
			t.Fatal(first[0].Err)
		}
		for range 2 {
			again := w.Wait(t.Context(), targets, csisnapshot.StageReady)
			if err := again[0].Err; !errors.Is(err, csisnapshot.ErrCanceled) || !strings.Contains(err.Error(), "a waiter is used once") {
				t.Errorf("Wait again: %v", err)
			}
		}
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a waiter is used once") {
			t.Errorf("Run again: %v", err)
		}
	})
}
