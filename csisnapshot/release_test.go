package csisnapshot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// snapshotter makes one on the lab's client.
func (l *waitLab) snapshotter(opts csisnapshot.WaitOptions) *csisnapshot.Snapshotter {
	l.Helper()
	core, err := kubernetes.NewForConfig(l.cluster.Config())
	if err != nil {
		l.Fatal(err)
	}
	s, err := csisnapshot.New(core, l.client, csisnapshot.Options{Wait: opts})
	if err != nil {
		l.Fatal(err)
	}
	return s
}

// ready creates the snapshots of the first n claims and waits until they are ready.
func (l *waitLab) ready(n int) []csisnapshot.Ref {
	l.Helper()
	var refs []csisnapshot.Ref
	for i := range n {
		l.create(i)
		refs = append(refs, l.ref(i))
	}
	outcomes, err := l.snapshotter(csisnapshot.WaitOptions{}).Wait(l.Context(), l.owner, csisnapshot.StageReady, refs...)
	if err != nil {
		l.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Err != nil {
			l.Fatal(o.Err)
		}
	}
	return refs
}

// other is the client of someone else, which meets no trouble.
func (l *waitLab) other() csisnapshot.Client {
	l.Helper()
	return adapters["dynamic"](l.T, l.cluster.Config())
}

// left counts the snapshots and contents in the cluster and the physical snapshots.
func (l *waitLab) left() string {
	l.Helper()
	plain := l.other()
	vs, err := plain.Snapshots().List(l.Context(), "app", csisnapshot.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	vsc, err := plain.Contents().List(l.Context(), "", csisnapshot.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return fmt.Sprintf("%d snapshots, %d contents, %d physical", len(vs.Items), len(vsc.Items), len(l.driver.Snapshots()))
}

func TestReleaseKeepsThePhysicalSnapshot(t *testing.T) {
	t.Parallel()
	// S10 snap-37: Retain is written and read back before anything is deleted; deleted means gone; repeating it is no error.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 3)
		refs := l.ready(3)
		order := l.record()
		s := l.snapshotter(csisnapshot.WaitOptions{})
		report, err := s.Release(t.Context(), l.owner, refs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range report.Items {
			if !item.Gone || item.Handle == "" || item.Content == "" || item.UID == "" {
				t.Errorf("item %+v", item)
			}
			log := order(item.Ref.Name, item.Content)
			deleted := slices.Index(log, "delete "+item.Ref.Name)
			if deleted < 0 {
				t.Fatalf("requests %q: the snapshot was not deleted", log)
			}
			retained := lastIndex(log[:deleted], "patch "+item.Content) // later ones touch a content that stays Terminating
			if retained < 0 || !slices.Contains(log[retained:deleted], "get "+item.Content) {
				t.Errorf("requests %q: the snapshot was deleted before Retain was read back", log)
			}
			if i := slices.Index(log, "delete "+item.Content); i >= 0 && i < deleted {
				t.Errorf("requests %q: the content was deleted first", log)
			}
		}
		if got := l.left(); got != "0 snapshots, 0 contents, 3 physical" {
			t.Errorf("left %s", got)
		}
		again, err := s.Release(t.Context(), l.owner, refs...)
		if err != nil || len(again.Items) != 3 || !again.Items[0].Gone {
			t.Errorf("again: %+v, %v", again, err)
		}
	})
}

// lastIndex is where the entry stands last; -1 if it does not.
func lastIndex(log []string, entry string) int {
	for i, e := range slices.Backward(log) {
		if e == entry {
			return i
		}
	}
	return -1
}

// record records the requests of the client that name an object, as "VERB NAME".
func (l *waitLab) record() func(names ...string) []string {
	var (
		mu  sync.Mutex
		log []string
	)
	l.trouble = func(_ *http.Request, info apirequest.Info) error {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, info.Verb+" "+info.Name)
		return nil
	}
	return func(names ...string) []string {
		mu.Lock()
		defer mu.Unlock()
		var own []string
		for _, entry := range log {
			if slices.Contains(names, entry[strings.Index(entry, " ")+1:]) {
				own = append(own, entry)
			}
		}
		return own
	}
}

func TestReleaseTouchesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	// S10 S9 snap-19 snap-20: another backup's snapshot and one without a handle are errors, and nothing of them is changed.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data-001": {Silent: true}}}, 3)
		l.create(1)
		foreign := l.object(2)
		foreign.Labels, foreign.Annotations = map[string]string{l.names.OwnerLabel(): string(l.owner.UID)}, nil
		if _, err := l.client.Snapshots().Create(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		refs := l.ready(1)
		time.Sleep(time.Minute)
		l.counter.Reset()
		report, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, refs[0], l.ref(1), l.ref(2))
		if !errors.Is(err, csisnapshot.ErrNotCut) || !errors.Is(err, csisnapshot.ErrForeign) {
			t.Errorf("error %v, want ErrNotCut and ErrForeign", err)
		}
		for _, item := range report.Items {
			if _, ok := errors.AsType[*csisnapshot.RemovalError](item.Err); item.Gone != (item.Ref == refs[0]) || ok == item.Gone {
				t.Errorf("item %+v", item)
			}
		}
		requests := l.counter.Requests()
		if requests["delete volumesnapshots"] != 1 || requests["delete volumesnapshotcontents"] > 1 {
			t.Errorf("requests %v, want only the deletes of the one that is ours", requests)
		}
		if p := requests["patch volumesnapshotcontents"]; p != 1 {
			t.Errorf("%d patches, want 1", p)
		}
	})
}

func TestReleaseCostsTheServerLittle(t *testing.T) {
	t.Parallel()
	// S10 F5: reads do not grow with the number of snapshots times the time.
	synctest.Test(t, func(t *testing.T) {
		n := race.Scaled(60, 20)
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, n)
		refs := l.ready(n)
		l.counter.Reset()
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, refs...); err != nil {
			t.Fatal(err)
		}
		requests := l.counter.Requests()
		reads := requests["list volumesnapshots"] + requests["list volumesnapshotcontents"] + requests["get volumesnapshots"] + requests["get volumesnapshotcontents"]
		if writes := requests["patch volumesnapshotcontents"]; writes != n {
			t.Errorf("%d patches, want %d", writes, n)
		}
		if reads > 2*n+100 { // each content is read back and each snapshot confirmed gone, beside up to 50 a round
			t.Errorf("%d reads for %d snapshots: %v", reads, n, requests)
		}
	})
}

func TestReleaseAndDestroySurviveAStopAnywhere(t *testing.T) {
	t.Parallel()
	// S10 X7: a process that ends after any single request and calls again ends as one that was not stopped.
	for _, policy := range []string{"release", "destroy"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			for k := 1; ; k += race.Scaled(1, 3) {
				done := false
				t.Run(fmt.Sprint(k), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { done = stopAfter(bubble{T: t, adapter: "dynamic"}, policy, k) })
				})
				if done || t.Failed() {
					return
				}
			}
		})
	}
}

// stopAfter stops the removal after k requests, runs it again, and reports whether it ended before.
func stopAfter(t bubble, policy string, k int) (done bool) {
	l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 2)
	refs := l.ready(2)
	remove := func(ctx context.Context) error {
		s := l.snapshotter(csisnapshot.WaitOptions{})
		call, want := s.Release, "0 snapshots, 0 contents, 2 physical"
		if policy == "destroy" {
			call, want = s.Destroy, "0 snapshots, 0 contents, 0 physical"
		}
		_, err := call(ctx, l.owner, refs...)
		if got := l.left(); err == nil && got != want {
			t.Errorf("left %s, want %s", got, want)
		}
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	n := 0
	l.trouble = func(*http.Request, apirequest.Info) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n > k {
			stop()
			return context.Canceled
		}
		return nil
	}
	err := remove(ctx)
	l.trouble = nil
	if err == nil {
		return true
	}
	if !errors.Is(err, csisnapshot.ErrCanceled) {
		t.Errorf("stopped: %v", err)
	}
	time.Sleep(time.Minute)
	if err := remove(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
	return false
}

func TestDestroyRemovesEverything(t *testing.T) {
	t.Parallel()
	// S10 snap-38 snap-39 snap-40 snap-21: whatever state a snapshot is in, Destroy ends with nothing left, and never waits
	// for readiness.
	for name, tt := range map[string]struct {
		reason string
		script backuptest.Script
		policy string
		after  time.Duration
	}{
		"just created":       {reason: "the content may come after the snapshot is gone", after: 0},
		"being created":      {reason: "its content has no finalizer yet", after: time.Millisecond},
		"cut, never ready":   {reason: "deletion needs no readiness", script: backuptest.Script{ReadyAfter: 1000 * time.Hour}, after: time.Minute},
		"ready":              {reason: "", after: time.Minute},
		"class says Retain":  {reason: "only Destroy may turn it round", policy: "Retain", after: time.Minute},
		"failing":            {reason: "the driver retries for ever", script: backuptest.Script{Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no"}}}, after: time.Minute},
		"driver refuses two": {reason: "refusals are retried by the sidecar", script: backuptest.Script{DeleteErrors: []backuptest.DriverError{{Code: "Aborted", Text: "busy", Times: 2}}}, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, scripts(2, tt.script), 2)
				if tt.policy != "" {
					if err := l.cluster.Add(backuptest.SnapshotClass{Name: "keeping", Policy: tt.policy}.Objects()...); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 2 {
					object := l.object(i)
					if tt.policy != "" {
						object.Class = new("keeping")
					}
					if _, err := l.client.Snapshots().Create(t.Context(), object); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(tt.after)
				s := l.snapshotter(csisnapshot.WaitOptions{})
				if _, err := s.Destroy(t.Context(), l.owner, l.ref(0), l.ref(1)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if got := l.left(); got != "0 snapshots, 0 contents, 0 physical" {
					t.Errorf("left %s: %s", got, tt.reason)
				}
				if _, err := s.Destroy(t.Context(), l.owner, l.ref(0), l.ref(1)); err != nil {
					t.Errorf("again: %v", err)
				}
			})
		})
	}
}

func TestDestroyDuringCreation(t *testing.T) {
	t.Parallel()
	// snap-38 S10: whatever the controllers do at the same instant, no physical snapshot stays behind.
	for range race.Scaled(30, 4) {
		synctest.Test(t, func(t *testing.T) {
			l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 2)
			l.create(0)
			l.create(1)
			if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Destroy(t.Context(), l.owner, l.ref(0), l.ref(1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if got := l.left(); got != "0 snapshots, 0 contents, 0 physical" {
				t.Fatalf("left %s", got)
			}
		})
	}
}

// orphan makes a content of the snapshot of claim 0, which is gone, as a controller that was slow leaves it.
func (l *waitLab) orphan(finalizers ...string) csisnapshot.Content {
	l.Helper()
	ref := l.ref(0)
	vsc, err := l.client.Contents().Create(l.Context(), csisnapshot.Content{
		Meta: csisnapshot.Meta{Name: "snapcontent-gone"}, Driver: backuptest.DefaultDriver, DeletionPolicy: csisnapshot.DeletionPolicyDelete,
		Snapshot: csisnapshot.SnapshotRef{Namespace: ref.Namespace, Name: ref.Name, UID: "gone"}, VolumeHandle: new("vol"),
	})
	if err != nil {
		l.Fatal(err)
	}
	return l.setFinalizers(vsc.Name, finalizers...)
}

func (l *waitLab) setFinalizers(content string, finalizers ...string) csisnapshot.Content {
	l.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		l.Fatal(err)
	}
	vsc, err := l.client.Contents().Patch(l.Context(), "", content, patch)
	if err != nil {
		l.Fatal(err)
	}
	return vsc
}

const boundFinalizer = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"

func TestDestroyWaitsForTheFinalizer(t *testing.T) {
	t.Parallel()
	// snap-38 S10: a content that was just created is deleted only when its protection finalizer was seen, or after a bound;
	// no fixed sleep. It is found by the name in its reference although its snapshot is gone (S9).
	for name, tt := range map[string]struct {
		reason    string
		finalizer time.Duration
		want      time.Duration
	}{
		"seen at once": {"nothing to wait for", 0, 0},
		"seen later":   {"as soon as it is there", 7 * time.Second, 7 * time.Second},
		"never seen":   {"the wait is bounded", time.Hour, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
				l.stopController()
				vsc := l.orphan()
				var deleted time.Duration
				l.cluster.Fault(backuptest.Fault{Verb: "delete", Resource: "volumesnapshotcontents", Observe: func(backuptest.Request) { deleted = l.at() }})
				if tt.finalizer == 0 {
					l.setFinalizers(vsc.Name, boundFinalizer)
				} else {
					time.AfterFunc(tt.finalizer, func() {
						if l.at() < time.Minute {
							l.setFinalizers(vsc.Name, boundFinalizer)
						}
					})
				}
				time.AfterFunc(50*time.Second, func() {
					if tt.finalizer < time.Minute {
						l.setFinalizers(vsc.Name) // what the sidecar does in the end
					}
				})
				if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Destroy(t.Context(), l.owner, l.ref(0)); err != nil {
					t.Fatal(err)
				}
				if deleted < tt.want || deleted > tt.want+5*time.Second {
					t.Errorf("deleted after %v, want %v: %s", deleted, tt.want, tt.reason)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestDestroyNudgesAStuckContent(t *testing.T) {
	t.Parallel()
	// snap-36 S10: a content that stays Terminating is touched with an annotation, which is what its sidecar waits for.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		l.stopController()
		vsc := l.orphan(boundFinalizer)
		w, err := l.client.Contents().Watch(t.Context(), "", csisnapshot.WatchOptions{ResourceVersion: vsc.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		l.all.Go(func() {
			for e := range w.ResultChan() {
				if w.Decode(e).Object.Annotations["sheetanchor.io/touched"] != "" {
					l.setFinalizers(vsc.Name)
					return
				}
			}
		})
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Destroy(t.Context(), l.owner, l.ref(0)); err != nil {
			t.Fatal(err)
		}
		if took := l.at(); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("gone after %v, want a touch after about 10s", took)
		}
		w.Stop()
	})
}

func TestDestroyKeepsItsPaceForLong(t *testing.T) {
	t.Parallel()
	// S3 S10: the pause between two looks grows up to the schedule's and stays there, however many looks there are.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
		l.stopController()
		l.orphan(boundFinalizer)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const looks = 30 * 5 // in 30 s, one each 200 ms
		var requests atomic.Int64
		l.trouble = func(*http.Request, apirequest.Info) error {
			if requests.Add(1) > 5*looks {
				cancel() // it would not end
			}
			return nil
		}
		opts := csisnapshot.WaitOptions{Schedule: csisnapshot.Schedule{Fast: 200 * time.Millisecond, FastFor: time.Minute}, MaxWait: 30 * time.Second}
		if _, err := l.snapshotter(opts).Destroy(ctx, l.owner, l.ref(0)); !errors.Is(err, csisnapshot.ErrTimeout) {
			t.Errorf("error %v after %d requests, want a timeout after at most %d", err, requests.Load(), 5*looks)
		}
	})
}

func TestReleaseOfALostContent(t *testing.T) {
	t.Parallel()
	// S10: a content that is being deleted with its physical snapshot cannot be kept any more, and that is said.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
		l.stopController()
		vsc := l.orphan(boundFinalizer)
		mark := []byte(`{"metadata":{"annotations":{"snapshot.storage.kubernetes.io/volumesnapshot-being-deleted":"yes"}}}`)
		if _, err := l.client.Contents().Patch(t.Context(), "", vsc.Name, mark); err != nil {
			t.Fatal(err)
		}
		if err := l.client.Contents().Delete(t.Context(), "", vsc.Name, csisnapshot.Preconditions{UID: vsc.UID}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, l.ref(0)); !errors.Is(err, csisnapshot.ErrLost) {
			t.Errorf("error %v, want ErrLost", err)
		}
	})
}

func TestDestroyNamesWhatHoldsItBack(t *testing.T) {
	t.Parallel()
	// snap-36 snap-41 S10: a foreign finalizer is reported and never removed; the wait is bounded.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		ref := l.ready(1)[0]
		vs, err := l.client.Snapshots().Get(t.Context(), ref.Namespace, ref.Name)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": append(vs.Finalizers, "example.dev/keep")}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.client.Snapshots().Patch(t.Context(), ref.Namespace, ref.Name, patch); err != nil {
			t.Fatal(err)
		}
		began := l.at()
		report, err := l.snapshotter(csisnapshot.WaitOptions{Timeout: time.Minute}).Destroy(t.Context(), l.owner, ref)
		e, ok := errors.AsType[*csisnapshot.RemovalError](err)
		if !ok || !errors.Is(err, csisnapshot.ErrTimeout) || !slices.Contains(e.Finalizers, "example.dev/keep") || report.Items[0].Gone {
			t.Errorf("error %v, report %+v", err, report)
		}
		if took := l.at() - began; took < time.Minute || took > 2*time.Minute {
			t.Errorf("after %v, want a minute without progress", took)
		}
		if vs, err = l.client.Snapshots().Get(t.Context(), ref.Namespace, ref.Name); err != nil || !slices.Contains(vs.Finalizers, "example.dev/keep") {
			t.Errorf("the finalizer is gone: %v, %v", vs.Finalizers, err)
		}
	})
}

func TestReleaseRidesOutTrouble(t *testing.T) {
	t.Parallel()
	// S8 S10 snap-17: trouble of the API costs time and nothing else, also where a write is done and its answer lost.
	for name, fault := range map[string]backuptest.Fault{
		"refused":     {Action: backuptest.FaultRefuse, Nth: 2, Times: 3},
		"500":         {Code: 500, Nth: 2, Times: 3},
		"429":         {Code: 429, RetryAfter: time.Second, Nth: 1, Times: 3},
		"lost answer": {Verb: "write", Action: backuptest.FaultLostAnswer, Nth: 1, Times: 3},
		"conflict":    {Verb: "patch", Code: 409, Nth: 1, Times: 2},
		"forbidden":   {Code: 403, Nth: 1, Times: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 2)
				refs := l.ready(2)
				for _, resource := range []string{"volumesnapshots", "volumesnapshotcontents"} {
					f := fault
					f.Resource = resource
					l.cluster.Fault(f)
				}
				if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, refs...); err != nil {
					t.Fatal(err)
				}
				if got := l.left(); got != "0 snapshots, 0 contents, 2 physical" {
					t.Errorf("left %s", got)
				}
			})
		})
	}
}

func TestReleaseForbidden(t *testing.T) {
	t.Parallel()
	// S8: a refusal that lasts is a typed error; without Retain nothing is deleted.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
		refs := l.ready(1)
		l.cluster.Fault(backuptest.Fault{Verb: "patch", Resource: "volumesnapshotcontents", Code: 403})
		_, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, refs...)
		e, ok := errors.AsType[*csisnapshot.RemovalError](err)
		if !ok || !errors.Is(err, csisnapshot.ErrRefused) || !apierrors.IsForbidden(e.Err) {
			t.Errorf("error %v", err)
		}
		if got := l.left(); got != "1 snapshots, 1 contents, 1 physical" {
			t.Errorf("left %s", got)
		}
	})
}
