package backuptest_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: deletion with policy Delete marks the content, deletes it and the physical snapshot, and then the snapshot goes.
func TestControllerDeletes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Second)
		seenVS, seenVSC := len(l.path("vs snap")), len(l.path("vsc snap"))
		l.delete(snapshotsGVR, "app", "snap")
		l.wait(time.Second)
		wantVS := []string{
			"bound cut deleting " + finSource + " " + finBound + " ready size",
			"bound cut deleting " + finBound + " ready size", // without the source finalizer at once
			"gone",
		}
		if diff := cmp.Diff(wantVS, l.path("vs snap")[seenVS:]); diff != "" {
			t.Errorf("states of the snapshot (-want +got):\n%s", diff)
		}
		wantVSC := []string{
			"being-deleted:yes cut " + finContent + " handle ready size",
			"being-deleted:yes cut deleting " + finContent + " handle ready size",
			"being-deleted:yes deleting " + finContent,
			"gone",
		}
		if diff := cmp.Diff(wantVSC, l.path("vsc snap")[seenVSC:]); diff != "" {
			t.Errorf("states of the content (-want +got):\n%s", diff)
		}
		if held := l.driver.Snapshots(); len(held) != 0 {
			t.Errorf("the storage holds %+v, want nothing", held)
		}
	})
}

// B2: with policy Retain the content stays, ready and marked, and deleting it later deletes no data.
func TestControllerRetains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, backuptest.Claim{Namespace: "app", Name: "data"}, backuptest.SnapshotClass{Policy: "Retain"})
		l.run(backuptest.ControllerOptions{})
		vs := l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Second)
		if slices.ContainsFunc(l.path("vs snap"), func(s string) bool { return s == finBound }) {
			t.Errorf("states %q, want no bound finalizer with policy Retain", l.path("vs snap"))
		}
		l.delete(snapshotsGVR, "app", "snap")
		l.wait(time.Minute)
		if path := l.path("vs snap"); path[len(path)-1] != "gone" {
			t.Errorf("snapshot ended as %q, want gone", path[len(path)-1])
		}
		path := l.path("vsc snap")
		if got, want := path[len(path)-1], "being-deleted:yes cut "+finContent+" handle ready size"; got != want {
			t.Errorf("content ended as %q, want %q", got, want)
		}
		l.delete(contentsGVR, "", "snapcontent-"+string(vs.GetUID()))
		l.wait(time.Minute)
		if path := l.path("vsc snap"); path[len(path)-1] != "gone" || len(l.driver.Snapshots()) != 1 {
			t.Errorf("content ended as %q with %d physical snapshots, want it gone and the snapshot kept", path[len(path)-1], len(l.driver.Snapshots()))
		}
	})
}

// B2: a content that is deleted while its snapshot lives waits for it.
func TestControllerContentDeletedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{})
		vs := l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Second)
		l.delete(contentsGVR, "", "snapcontent-"+string(vs.GetUID()))
		l.wait(time.Hour)
		path := l.path("vsc snap")
		if got, want := path[len(path)-1], "cut deleting "+finContent+" handle ready size"; got != want || len(l.driver.Snapshots()) != 1 {
			t.Errorf("content is %q with %d physical snapshots, want %q and one", got, len(l.driver.Snapshots()), want)
		}
		l.delete(snapshotsGVR, "app", "snap")
		l.wait(time.Second)
		if path := l.path("vsc snap"); path[len(path)-1] != "gone" || len(l.driver.Snapshots()) != 0 {
			t.Errorf("content is %q with %d physical snapshots, want all gone", path[len(path)-1], len(l.driver.Snapshots()))
		}
	})
}

// B2: a snapshot that is deleted before it has its bound finalizer goes at once; its content finishes alone.
func TestControllerDeletesUnbound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		driver := backuptest.NewDriver(backuptest.DriverOptions{})
		taken, err := driver.CreateSnapshot(t.Context(), createRequest("snapshot-"+string(backuptest.UIDOf("VolumeSnapshot", "app", "snap")), backuptest.Script{}))
		if err != nil {
			t.Fatal(err)
		}
		l := newLab(t, append(claimAndClass(), backuptest.Snapshot{
			Namespace: "app", Name: "snap", Claim: "data", State: backuptest.SnapshotCutUnseen, Handle: taken.Handle,
		})...)
		l.driver = driver
		l.delete(snapshotsGVR, "app", "snap")
		stubborn := backuptest.Script{DeleteErrors: []backuptest.DriverError{{Text: "in use", Times: 2}}}
		l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": stubborn}})
		l.wait(time.Minute)
		if gone := l.when("vs snap", "gone"); gone != 0 {
			t.Errorf("snapshot gone after %v, want at once", gone)
		}
		if gone := l.when("vsc snap", "gone"); gone != 3*time.Second {
			t.Errorf("content gone after %v, want 3s: the storage refused at 0 and 1", gone)
		}
	})
}

// B2: a storage that refuses to delete is asked again after 1, 2, 4 s, and nothing but an event tells of it.
func TestControllerDeleteRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{
			"data": {DeleteErrors: []backuptest.DriverError{{Code: "FailedPrecondition", Text: "in use", Times: 3}}},
		}})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(10 * time.Second)
		l.delete(snapshotsGVR, "app", "snap")
		l.wait(time.Minute)
		if gone := l.when("vs snap", "gone"); gone != 17*time.Second {
			t.Errorf("gone after %v, want 17s: asked at 10, 11, 13 and 17", gone)
		}
		if got := l.reasons("default"); !slices.Equal(got, slices.Repeat([]string{"Warning SnapshotDeleteError"}, 3)) {
			t.Errorf("events of the content %v, want three SnapshotDeleteError", got)
		}
		for _, s := range append(l.path("vs snap"), l.path("vsc snap")...) {
			if slices.Contains([]string{s}, "error") {
				t.Errorf("state %q, want no error in any status", s)
			}
		}
	})
}

// B2: after a final error a deleted snapshot is gone at once; after one that leaves the outcome open it is kept until there is one, so
// that nothing leaks. A deletion makes the sidecar call at once. Its success finds it in the trap, unless the script lets it see the
// deletion: any change of the content, or the resync after 15 minutes, frees it.
func TestControllerDeletesFailed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code  string
		sees  bool
		touch bool
		gone  time.Duration
	}{
		"final":       {code: "InvalidArgument", gone: 20 * time.Second},
		"unavailable": {code: "Unavailable", sees: true, gone: 20 * time.Second},
		"aborted":     {code: "Aborted", sees: true, gone: 20 * time.Second},
		"trapped":     {code: "Unavailable", gone: 15 * time.Minute},
		"touched":     {code: "Unavailable", touch: true, gone: 80 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, claimAndClass()...)
				l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {
					Errors: []backuptest.DriverError{{Code: tc.code, Text: "no", Times: 5}}, SeesDeletion: tc.sees,
				}}})
				vs := l.take("snap", "data", backuptest.DefaultSnapshotClass)
				l.wait(20 * time.Second)
				l.delete(snapshotsGVR, "app", "snap")
				l.wait(time.Minute)
				if tc.touch {
					l.touch("snapcontent-" + string(vs.GetUID()))
				}
				l.wait(time.Hour)
				for _, object := range []string{"vs snap", "vsc snap"} {
					if gone := l.when(object, "gone"); gone != tc.gone {
						t.Errorf("%s gone after %v, want %v", object, gone, tc.gone)
					}
				}
				if held := l.driver.Snapshots(); len(held) != 0 {
					t.Errorf("the storage holds %+v, want nothing", held)
				}
			})
		})
	}
}

// touch sets a label of a content.
func (l *lab) touch(content string) {
	l.t.Helper()
	patch := []byte(`{"metadata":{"labels":{"touched":"yes"}}}`)
	if _, err := l.client.Resource(contentsGVR).Patch(l.t.Context(), content, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// B2: a cut that is not ready yet is deleted at once.
func TestControllerDeletesCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {ReadyAfter: time.Hour}}})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(10 * time.Second)
		l.delete(snapshotsGVR, "app", "snap")
		l.wait(time.Hour)
		if gone := l.when("vs snap", "gone"); gone != 10*time.Second || len(l.driver.Snapshots()) != 0 {
			t.Errorf("gone after %v with %d physical snapshots, want 10s and none", gone, len(l.driver.Snapshots()))
		}
	})
}

const finClaim = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

// B2: the claim has its finalizer while one of its snapshots is not ready, also if it is deleted meanwhile.
func TestControllerProtectsClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {CutAfter: 10 * time.Second}}})
		protected := func() bool { return slices.Contains(l.get(claimsGVR, "app", "data").GetFinalizers(), finClaim) }
		l.take("one", "data", backuptest.DefaultSnapshotClass)
		l.wait(5 * time.Second)
		l.take("two", "data", backuptest.DefaultSnapshotClass)
		l.wait(6 * time.Second)
		if !protected() {
			t.Error("the claim is free at 11s, want it protected: the second snapshot is not ready")
		}
		l.take("three", "data", backuptest.DefaultSnapshotClass)
		l.delete(claimsGVR, "app", "data")
		l.wait(5 * time.Second)
		if claim := l.get(claimsGVR, "app", "data"); claim.GetDeletionTimestamp() == nil || !protected() {
			t.Error("the claim is not Terminating and protected at 16s, while its third snapshot is not ready")
		}
		l.wait(time.Minute)
		if protected() {
			t.Error("the claim is protected after all its snapshots are ready")
		}
		for _, name := range []string{"one", "two", "three"} {
			l.when("vs "+name, "ready")
		}
	})
}

// B2: deleting an unready snapshot lets go of the claim.
func TestControllerReleasesClaimOfDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{Scripts: driverErrors(backuptest.DriverError{Text: "never"})})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Minute)
		if !slices.Contains(l.get(claimsGVR, "app", "data").GetFinalizers(), finClaim) {
			t.Error("the claim of a failing snapshot is not protected")
		}
		l.delete(snapshotsGVR, "app", "snap")
		l.wait(time.Minute)
		if slices.Contains(l.get(claimsGVR, "app", "data").GetFinalizers(), finClaim) {
			t.Error("the claim of a deleted snapshot is still protected")
		}
	})
}
