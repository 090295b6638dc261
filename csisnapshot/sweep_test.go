package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

var destroyAll = csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyDelete}

// createFor creates a ready snapshot of claim i for another owner.
func (l *waitLab) createFor(owner csisnapshot.Owner, i int) csisnapshot.Ref {
	l.Helper()
	vs, err := l.client.Snapshots().Create(l.Context(), l.names.NewSnapshot(owner, csisnapshot.ClaimRef{Namespace: "app", Name: claimName(i), UID: claimUID(i)}, backuptest.DefaultSnapshotClass))
	if err != nil {
		l.Fatal(err)
	}
	if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Wait(l.Context(), owner, csisnapshot.StageReady, vs.Ref()); err != nil {
		l.Fatal(err)
	}
	return vs.Ref()
}

func TestSweepTouchesNothingElse(t *testing.T) {
	t.Parallel()
	// S10: snapshots, contents whose snapshot is gone, and a snapshot that appears while it sweeps go; what is another's, or
	// has the label without the annotation, stays as it was.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 4)
		l.createFor(l.owner, 1)
		l.createFor(l.owner, 2)
		kept := l.createFor(restorer, 0)
		l.orphan(boundFinalizer)
		look := l.object(3)
		look.Name, look.Annotations = "looks-like-it", nil
		if _, err := l.client.Snapshots().Create(t.Context(), look); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		before := l.content(kept)
		left, err := l.snapshotter(csisnapshot.WaitOptions{}).Leftovers(t.Context(), l.owner.UID)
		if err != nil || len(left) != 5 {
			t.Fatalf("leftovers %+v, %v, want 2 snapshots and 3 contents", left, err)
		}
		late := false
		l.cluster.Fault(backuptest.Fault{Verb: "delete", Resource: "volumesnapshotcontents", Times: 1, Action: backuptest.FaultLostAnswer, Observe: func(backuptest.Request) {
			late = true
			l.all.Go(func() { l.create(3) }) // by a process of the owner's that is not dead yet
		}})
		report, err := l.snapshotter(csisnapshot.WaitOptions{}).Sweep(t.Context(), l.owner.UID, destroyAll)
		if err != nil || !late {
			t.Fatalf("Sweep = %+v, %v; late %v", report, err, late)
		}
		again, err := l.snapshotter(csisnapshot.WaitOptions{}).Leftovers(t.Context(), l.owner.UID)
		if err != nil || len(again) != 0 {
			t.Errorf("left %+v, %v", again, err)
		}
		if after := l.content(kept); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the content of another owner was changed: %+v", after)
		}
		if vs, err := l.client.Snapshots().Get(t.Context(), "app", look.Name); err != nil || vs.Terminating() {
			t.Errorf("a snapshot without the annotation: %+v, %v", vs, err)
		}
	})
}

func TestSweepReadsItsPlanFirst(t *testing.T) {
	t.Parallel()
	// snap-50 all-7: the whole of what is to go is listed, page by page, before the first write; a sweep that finds nothing writes
	// nothing. What cannot go is in the report once.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 2)
		refs := l.ready(2)
		log := l.record()
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Sweep(t.Context(), "nobody", destroyAll); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"patch", "delete", "create"} {
			if n := l.counter.Requests()[verb+" volumesnapshots"] + l.counter.Requests()[verb+" volumesnapshotcontents"]; verb != "create" && n != 0 {
				t.Errorf("%d %s requests for an owner of nothing", n, verb)
			}
		}
		l.cluster.Fault(backuptest.Fault{Verb: "delete", Resource: "volumesnapshots", Name: refs[0].Name, Code: 403})
		report, err := l.snapshotter(csisnapshot.WaitOptions{}).Sweep(t.Context(), l.owner.UID, destroyAll)
		if !errors.Is(err, csisnapshot.ErrRefused) || len(report.Items) != 2 {
			t.Errorf("Sweep = %+v, %v, want one refused", report, err)
		}
		entries := log("", refs[0].Name, refs[1].Name)
		if first := slices.IndexFunc(entries, func(e string) bool { return strings.HasPrefix(e, "delete") }); first < 2 || !strings.HasPrefix(entries[0], "list") || !strings.HasPrefix(entries[1], "list") {
			t.Errorf("requests %q, want two lists before the first delete", entries)
		}
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Sweep(t.Context(), l.owner.UID, csisnapshot.RemoveOptions{}); err == nil || !strings.Contains(err.Error(), "Policy") {
			t.Errorf("without a policy: %v", err)
		}
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Sweep(t.Context(), "", destroyAll); err == nil {
			t.Error("without an owner")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Sweep(ctx, l.owner.UID, destroyAll); !errors.Is(err, csisnapshot.ErrCanceled) {
			t.Errorf("canceled: %v", err)
		}
		clean, done := csisnapshot.CleanupContext(ctx, 0)
		defer done()
		if deadline, ok := clean.Deadline(); clean.Err() != nil || !ok || time.Until(deadline) != 5*time.Minute {
			t.Errorf("the context for cleaning: %v, ends at %v", clean.Err(), deadline)
		}
	})
}

func TestExpireTurnsRetainToDelete(t *testing.T) {
	t.Parallel()
	// snap-44 snap-45: contents that survived their namespace with Retain, and what was released, end with no content of the
	// owner and nothing in the storage; what somebody restores from at the time stays, and so does everything after the
	// namespace's deletion before.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 3)
		l.addNamespace("elsewhere")
		refs := l.ready(3)
		records := []csisnapshot.VolumeRecord{l.recordOf(refs[0]), l.recordOf(refs[1]), l.recordOf(refs[2])}
		s := l.snapshotter(csisnapshot.WaitOptions{})
		if _, err := s.Release(t.Context(), l.owner, refs[0]); err != nil {
			t.Fatal(err)
		}
		retain := []byte(`{"spec":{"deletionPolicy":"Retain"}}`)
		for _, ref := range refs[1:] {
			if _, err := l.client.Contents().Patch(t.Context(), "", l.content(ref).Name, retain); err != nil {
				t.Fatal(err)
			}
			if err := l.client.Snapshots().Delete(t.Context(), ref.Namespace, ref.Name, csisnapshot.Preconditions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		for _, r := range records {
			if _, ok := l.driver.Snapshot(r.Handle); !ok {
				t.Fatalf("handle %s is gone before its time", r.Handle)
			}
		}
		made, err := s.Restore(t.Context(), restorer, "elsewhere", records[2])
		if err != nil {
			t.Fatal(err)
		}
		report, err := s.Expire(t.Context(), l.owner, csisnapshot.RemoveOptions{}, records...)
		e, ok := errors.AsType[*csisnapshot.RemovalError](err)
		if !ok || !errors.Is(err, csisnapshot.ErrInUse) || !strings.Contains(e.Object, made[0].Content) || len(report.Items) != 3 {
			t.Fatalf("Expire = %+v, %v, want the one that is restored from in use", report, err)
		}
		if _, ok := l.driver.Snapshot(records[2].Handle); !ok || len(l.driver.Snapshots()) != 1 {
			t.Errorf("the storage has %+v", l.driver.Snapshots())
		}
		if _, err := s.Sweep(t.Context(), restorer.UID, destroyAll); err != nil {
			t.Fatal(err)
		}
		if report, err = s.Expire(t.Context(), l.owner, csisnapshot.RemoveOptions{}, records...); err != nil {
			t.Errorf("afterwards: %+v, %v", report, err)
		}
		if got := l.left(); got != "0 snapshots, 0 contents, 0 physical" {
			t.Errorf("left %s", got)
		}
		if _, err := s.Expire(t.Context(), l.owner, csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyRetain}, csisnapshot.VolumeRecord{}); err == nil ||
			!strings.Contains(err.Error(), "Handle") || !strings.Contains(err.Error(), "Policy") {
			t.Errorf("wrong options: %v", err)
		}
	})
}

func TestSweepOnBareFakes(t *testing.T) {
	t.Parallel()
	// B4: restoring and sweeping work on the generated fakes.
	for name, newFake := range fakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				s, err := csisnapshot.New(fake.NewClientset(), f.client, csisnapshot.Options{})
				if err != nil {
					t.Fatal(err)
				}
				record := csisnapshot.VolumeRecord{Driver: "d", Handle: "h"}
				for range 2 {
					if _, err := s.Restore(t.Context(), fakeOwner, "app", record); err != nil {
						t.Fatal(err)
					}
				}
				if left, err := s.Leftovers(t.Context(), fakeOwner.UID); err != nil || len(left) != 2 || !left[1].Borrowed || left[0].Kind != csisnapshot.KindSnapshot {
					t.Errorf("leftovers %+v, %v", left, err)
				}
				if report, err := s.Sweep(t.Context(), fakeOwner.UID, destroyAll); err != nil || len(report.Items) != 1 || report.Items[0].Handle != "h" {
					t.Errorf("Sweep = %+v, %v", report, err)
				}
				if left, err := s.Leftovers(t.Context(), fakeOwner.UID); err != nil || len(left) != 0 {
					t.Errorf("left %+v, %v", left, err)
				}
			})
		})
	}
}

func TestRemoveInTheDeclaredOrder(t *testing.T) {
	t.Parallel()
	// snap-42 X1: nothing of a snapshot is touched before what was declared to go first is gone; what does not go is named; a
	// gate that hangs is left behind.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		ref := l.ready(1)[0]
		s := l.snapshotter(csisnapshot.WaitOptions{Timeout: time.Minute})
		volumes := l.core().CoreV1().PersistentVolumes()
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "restored"}}
		if _, err := volumes.Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		opts := destroyAll
		opts.Before = csisnapshot.AfterVolumes(l.core(), map[csisnapshot.Ref][]string{ref: {"restored"}})
		opts.MinInterval = 3 * time.Second
		synctest.Wait() // the controller, too, is done with them
		before := l.content(ref)
		_, err := s.Remove(t.Context(), l.owner, opts, ref)
		if !errors.Is(err, csisnapshot.ErrHeld) || !strings.Contains(err.Error(), "PersistentVolume restored") || l.content(ref).ResourceVersion != before.ResourceVersion {
			t.Errorf("Remove = %v, want it held by the volume and untouched", err)
		}
		hangs := opts
		stop := make(chan struct{})
		hangs.Before = func(context.Context, csisnapshot.Ref) (string, error) { <-stop; return "", nil }
		if _, err := s.Remove(t.Context(), l.owner, hangs, ref); !errors.Is(err, csisnapshot.ErrAbandoned) {
			t.Errorf("a gate that hangs: %v", err)
		}
		close(stop)
		deleted := time.Now().Add(20 * time.Second)
		l.all.Go(func() {
			time.Sleep(20 * time.Second)
			if err := volumes.Delete(l.Context(), "restored", metav1.DeleteOptions{}); err != nil {
				l.Error(err)
			}
		})
		if _, err := s.Remove(t.Context(), l.owner, opts, ref); err != nil || time.Now().Before(deleted) {
			t.Errorf("Remove = %v at %v, want it done after the volume", err, l.at())
		}
		if got := l.left(); got != "0 snapshots, 0 contents, 0 physical" {
			t.Errorf("left %s", got)
		}
	})
}

func TestRemoveKeepsItsPace(t *testing.T) {
	t.Parallel()
	// S10: writes are bounded in rate, and options are checked before anything is done.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 5)
		refs := l.ready(5)
		s := l.snapshotter(csisnapshot.WaitOptions{})
		began := time.Now()
		_, err := s.Remove(t.Context(), l.owner, csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyRetain, MinInterval: 10 * time.Second, Concurrency: 2}, refs...)
		if took := time.Since(began); err != nil || took < 14*10*time.Second { // a patch and two deletes each
			t.Errorf("15 writes took %v, %v", took, err)
		}
		_, err = s.Remove(t.Context(), csisnapshot.Owner{}, csisnapshot.RemoveOptions{MinInterval: -1, Concurrency: -1}, refs...)
		for _, want := range []string{"UID", "Policy", "MinInterval", "Concurrency"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("wrong options: %v, want %s named", err, want)
			}
		}
	})
}

func TestWaitGone(t *testing.T) {
	t.Parallel()
	// S10: deleted means gone: it waits for what others delete, changes nothing, and names the content that holds a snapshot.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		ref := l.ready(1)[0]
		vsc := l.content(ref)
		l.setFinalizers(vsc.Name, append(vsc.Finalizers, "example.dev/keep")...)
		if err := l.client.Snapshots().Delete(t.Context(), ref.Namespace, ref.Name, csisnapshot.Preconditions{}); err != nil {
			t.Fatal(err)
		}
		s := l.snapshotter(csisnapshot.WaitOptions{Timeout: time.Minute})
		l.counter.Reset()
		_, err := s.WaitGone(t.Context(), l.owner, ref)
		e, ok := errors.AsType[*csisnapshot.RemovalError](err)
		if !ok || !errors.Is(err, csisnapshot.ErrTimeout) || !strings.Contains(e.Object, vsc.Name) || !slices.Contains(e.Finalizers, "example.dev/keep") {
			t.Errorf("WaitGone = %v, want the content named that holds the snapshot", err)
		}
		for request := range l.counter.Requests() {
			if !strings.HasPrefix(request, "get") && !strings.HasPrefix(request, "list") {
				t.Errorf("it sent %s", request)
			}
		}
		l.all.Go(func() {
			time.Sleep(30 * time.Second)
			l.setFinalizers(vsc.Name)
		})
		if report, err := s.WaitGone(t.Context(), l.owner, ref); err != nil || !report.Items[0].Gone {
			t.Errorf("WaitGone = %+v, %v", report, err)
		}
		if _, err := s.WaitGone(t.Context(), csisnapshot.Owner{}, ref); err == nil {
			t.Error("no owner is no error")
		}
	})
}

func ExampleRemoveOptions() {
	fmt.Println(csisnapshot.RemoveOptions{}.Validate())
	// Output:
	// RemoveOptions.Policy: "", want Retain or Delete
}
