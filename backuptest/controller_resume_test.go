package backuptest_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: a controller that is stopped after any of its writes is continued by another one, with another driver on the same file, to the
// same end and with one physical snapshot.
func TestControllerResumesAfterEachWrite(t *testing.T) {
	t.Parallel()
	script := map[string]backuptest.Script{"data": {
		Errors: []backuptest.DriverError{{Text: "busy", Times: 1}}, CutAfter: time.Second, ReadyAfter: time.Second,
	}}
	for _, action := range []backuptest.FaultAction{backuptest.FaultNone, backuptest.FaultLostAnswer} {
		for k := 1; ; k++ {
			stopped := false
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "driver.json")
				l := newLab(t, claimAndClass()...)
				l.driver = backuptest.NewDriver(backuptest.DriverOptions{File: file})
				l.take("snap", "data", backuptest.DefaultSnapshotClass)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				remove := l.cluster.Fault(backuptest.Fault{
					Verb: "write", Nth: k, Action: action, Observe: func(backuptest.Request) { stopped = true; cancel() },
				})
				ended := make(chan error, 1)
				first := backuptest.NewSnapshotController(l.client, l.driver, backuptest.ControllerOptions{Scripts: script})
				go func() { ended <- first.Run(ctx) }()
				l.wait(time.Minute)
				cancel()
				if err := <-ended; err != nil {
					t.Fatalf("write %d: Run = %v", k, err)
				}
				remove()

				l.driver = backuptest.NewDriver(backuptest.DriverOptions{File: file})
				stop := l.run(backuptest.ControllerOptions{Scripts: script})
				l.wait(time.Minute)
				for object, want := range map[string]string{
					"vs snap":  "bound cut " + finSource + " " + finBound + " ready size",
					"vsc snap": "cut " + finContent + " handle ready size",
				} {
					if path := l.path(object); path[len(path)-1] != want {
						t.Errorf("write %d: %s ended as %q, want %q", k, object, path[len(path)-1], want)
					}
				}
				if held := l.driver.Snapshots(); len(held) != 1 || !held[0].ReadyToUse {
					t.Errorf("write %d: the storage holds %+v, want one ready snapshot", k, held)
				}
				claim := l.get(claimsGVR, "app", "data")
				if diff := cmp.Diff([]string{"kubernetes.io/pvc-protection"}, claim.GetFinalizers()); diff != "" {
					t.Errorf("write %d: finalizers of the claim (-want +got):\n%s", k, diff)
				}
				stop()
			})
			if !stopped {
				if k < 15 {
					t.Errorf("only %d writes, want the whole life of a snapshot to be cut", k)
				}
				break
			}
			if t.Failed() {
				break
			}
		}
	}
}

// B2: a deletion is continued like a creation.
func TestControllerResumesDeletion(t *testing.T) {
	t.Parallel()
	for k := 1; ; k++ {
		stopped := false
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, claimAndClass()...)
			stop := l.run(backuptest.ControllerOptions{})
			l.take("snap", "data", backuptest.DefaultSnapshotClass)
			l.wait(time.Second)
			stop()
			l.delete(snapshotsGVR, "app", "snap")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l.cluster.Fault(backuptest.Fault{Verb: "write", Nth: k, Observe: func(backuptest.Request) { stopped = true; cancel() }})
			if err := runUntil(ctx, l); err != nil {
				t.Fatalf("write %d: Run = %v", k, err)
			}
			l.run(backuptest.ControllerOptions{})
			l.wait(time.Minute)
			for _, object := range []string{"vs snap", "vsc snap"} {
				if path := l.path(object); path[len(path)-1] != "gone" {
					t.Errorf("write %d: %s ended as %q, want gone", k, object, path[len(path)-1])
				}
			}
			if held := l.driver.Snapshots(); len(held) != 0 {
				t.Errorf("write %d: the storage holds %+v, want nothing", k, held)
			}
		})
		if !stopped || t.Failed() {
			return
		}
	}
}

// B2: a controller that meets a content whose snapshot is gone knows from the storage which claim's script holds.
func TestControllerResumesOrphan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		scripts := driverErrors(backuptest.DriverError{Code: "Unavailable", Text: "down"})
		stop := l.run(backuptest.ControllerOptions{Scripts: scripts})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(10 * time.Second)
		stop()
		vs := l.get(snapshotsGVR, "app", "snap")
		vs.SetFinalizers(nil)
		if _, err := l.client.Resource(snapshotsGVR).Namespace("app").Update(t.Context(), vs, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.delete(snapshotsGVR, "app", "snap")
		l.run(backuptest.ControllerOptions{Scripts: scripts})
		l.wait(time.Minute)
		content := l.get(contentsGVR, "", "snapcontent-"+string(vs.GetUID()))
		if got, want := describeContent(content), "being-created:yes error "+finContent+" unready"; got != want || len(l.driver.Snapshots()) != 0 {
			t.Errorf("content is %q with %d physical snapshots, want %q and none: the storage still fails", got, len(l.driver.Snapshots()), want)
		}
	})
}

// B2: a ready snapshot whose content vanished says so.
func TestControllerContentMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ready := backuptest.Snapshot{Namespace: "app", Name: "snap", Claim: "data"}
		l := newLab(t, append(claimAndClass(), ready)...)
		content := l.get(contentsGVR, "", ready.ContentName())
		content.SetFinalizers(nil)
		if _, err := l.client.Resource(contentsGVR).Update(t.Context(), content, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.delete(contentsGVR, "", ready.ContentName())
		l.run(backuptest.ControllerOptions{})
		l.wait(time.Millisecond)
		if got := errorText(l.get(snapshotsGVR, "app", "snap")); got != "VolumeSnapshotContent is missing" {
			t.Errorf("error = %q, want the missing content named", got)
		}
		if got := l.reasons("app"); len(got) != 1 || got[0] != "Warning SnapshotContentMissing" {
			t.Errorf("events %v, want SnapshotContentMissing", got)
		}
	})
}

func TestControllerRefusesToRun(t *testing.T) {
	t.Parallel()
	if err := backuptest.NewSnapshotController(nil, nil, backuptest.ControllerOptions{}).Run(t.Context()); err == nil {
		t.Error("Run without client and driver = nil, want an error")
	}
	dir := t.TempDir()
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	controller := backuptest.NewSnapshotController(client, backuptest.NewDriver(backuptest.DriverOptions{File: dir}), backuptest.ControllerOptions{})
	if err := controller.Run(t.Context()); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Run with a folder as driver file = %v, want an error naming it", err)
	}
}

// runUntil runs a controller until ctx ends or a minute is over.
func runUntil(ctx context.Context, l *lab) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return backuptest.NewSnapshotController(l.client, l.driver, backuptest.ControllerOptions{}).Run(ctx)
}

// B2: the states that builders make are where the real controllers go on from.
func TestControllerContinuesFromBuiltStates(t *testing.T) {
	t.Parallel()
	for _, state := range []backuptest.SnapshotState{
		backuptest.SnapshotCreated, backuptest.SnapshotPickedUp, backuptest.SnapshotCutUnseen, backuptest.SnapshotBound, backuptest.SnapshotCut, backuptest.SnapshotReady,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, append(claimAndClass(), backuptest.Snapshot{Namespace: "app", Name: "snap", Claim: "data", State: state})...)
			l.run(backuptest.ControllerOptions{})
			l.wait(time.Minute)
			vs := l.get(snapshotsGVR, "app", "snap")
			if got, want := describeSnapshot(vs), "bound cut "+finSource+" "+finBound+" ready size"; got != want {
				t.Errorf("from state %d the snapshot ended as %q, want %q", state, got, want)
			}
			content := l.get(contentsGVR, "", "snapcontent-"+string(vs.GetUID()))
			if got, want := describeContent(content), "cut "+finContent+" handle ready size"; got != want {
				t.Errorf("from state %d the content ended as %q, want %q", state, got, want)
			}
		})
	}
}

// B2: trouble of the API server is ridden out: no watch, watches that end, expire or fall silent, failing writes, no CRDs at first.
func TestControllerRidesOutTrouble(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		faults []backuptest.Fault
		within time.Duration
		shown  bool // as an error in a status, as the real controller does of its update of the claim
	}{
		"watch forbidden":  {faults: []backuptest.Fault{{Verb: "watch", Code: 403}}, within: 10 * time.Second},
		"watches end":      {faults: []backuptest.Fault{{Verb: "watch", Action: backuptest.FaultEndWatch}}, within: 5 * time.Second},
		"watches expire":   {faults: []backuptest.Fault{{Verb: "watch", Action: backuptest.FaultExpireWatch}}, within: 5 * time.Second},
		"watches silent":   {faults: []backuptest.Fault{{Verb: "watch", Action: backuptest.FaultSilenceWatch}}, within: 31 * time.Second},
		"every list once":  {faults: []backuptest.Fault{{Verb: "list", Code: 500, Nth: 1, Times: 3}}, within: time.Second},
		"writes fail":      {faults: []backuptest.Fault{{Verb: "write", Resource: "volumesnapshotcontents", Code: 500, Nth: 1, Times: 3}}, within: 10 * time.Second},
		"answers get lost": {faults: []backuptest.Fault{{Verb: "patch", Action: backuptest.FaultLostAnswer, Nth: 1, Times: 4}}, within: 30 * time.Second, shown: true},
		"content's answer lost": {faults: []backuptest.Fault{
			{Verb: "create", Resource: "volumesnapshotcontents", Action: backuptest.FaultLostAnswer, Nth: 1},
			{Verb: "watch", Resource: "volumesnapshotcontents", Action: backuptest.FaultSilenceWatch},
		}, within: 3 * time.Second},
		"reads fail":        {faults: []backuptest.Fault{{Verb: "get", Code: 503, Nth: 1, Times: 2}}, within: 10 * time.Second},
		"not found at once": {faults: []backuptest.Fault{{Verb: "list", Code: 404, Nth: 1, Times: 8}}, within: 10 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, claimAndClass()...)
				for _, fault := range tc.faults {
					l.cluster.Fault(fault)
				}
				l.run(backuptest.ControllerOptions{})
				l.wait(time.Millisecond)
				vs := backuptest.Snapshot{Namespace: "app", Name: "snap", Claim: "data", State: backuptest.SnapshotCreated}.VS()
				if err := l.cluster.Add(vs); err != nil {
					t.Fatal(err)
				}
				l.wait(10 * time.Minute)
				if ready := l.when("vs snap", "ready"); ready > tc.within {
					t.Errorf("ready after %v, want within %v", ready, tc.within)
				}
				for _, state := range append(l.path("vs snap"), l.path("vsc snap")...) {
					if strings.Contains(state, "error") && !tc.shown {
						t.Errorf("state %q, want trouble of the API server in no status", state)
					}
				}
				if held := l.driver.Snapshots(); len(held) != 1 {
					t.Errorf("the storage holds %+v, want one snapshot", held)
				}
			})
		})
	}
}

// B2: the controller works on client-go's fake dynamic client, which sends no bookmark, has no UIDs and no resource versions, and whose
// watches have no past.
func TestControllerOnBareFake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kinds := map[schema.GroupVersionResource]string{
			snapshotsGVR: "VolumeSnapshotList", contentsGVR: "VolumeSnapshotContentList", classesGVR: "VolumeSnapshotClassList",
		}
		own := runtime.NewScheme() // the fake adds kinds to it
		if err := scheme.AddToScheme(own); err != nil {
			t.Fatal(err)
		}
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(own, kinds, backuptest.Objects(claimAndClass()...)...)
		driver := backuptest.NewDriver(backuptest.DriverOptions{})
		controller := backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{
			Scripts: map[string]backuptest.Script{"data": {Errors: []backuptest.DriverError{{Text: "busy", Times: 1}}, ReadyAfter: time.Second}},
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		time.Sleep(time.Second)
		for _, name := range []string{"one", "two"} {
			vs := backuptest.Snapshot{Namespace: "app", Name: name, Claim: "data", State: backuptest.SnapshotCreated}.VS()
			vs.SetUID("")
			if _, err := client.Resource(snapshotsGVR).Namespace("app").Create(t.Context(), vs, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, name := range []string{"one", "two"} {
			vs, err := client.Resource(snapshotsGVR).Namespace("app").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := describeSnapshot(vs), "bound cut "+finSource+" "+finBound+" ready size"; got != want {
				t.Errorf("%s ended as %q, want %q", name, got, want)
			}
		}
		if held := driver.Snapshots(); len(held) != 2 {
			t.Errorf("the storage holds %+v, want two", held)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
