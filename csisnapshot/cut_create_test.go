package csisnapshot_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// snapshotsOf is the snapshot client of the lab's cluster.
func (l *cutLab) snapshotsOf() csisnapshot.Resource[csisnapshot.Snapshot] {
	l.t.Helper()
	client, err := dynamic.NewForConfig(l.cluster.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	return csisnapshot.NewDynamic(client).Snapshots()
}

// claimRef names a claim of the lab.
func claimRef(name string) csisnapshot.ClaimRef {
	return csisnapshot.ClaimRef{Namespace: "app", Name: name, UID: backuptest.UIDOf("PersistentVolumeClaim", "app", name)}
}

// S9: an object of another owner that has the name is a typed conflict and is not touched (snap-19, snap-20, snap-23).
func TestCutConflict(t *testing.T) {
	t.Parallel()
	cases := map[string]func(s *csisnapshot.Snapshot){
		"another owner": func(s *csisnapshot.Snapshot) {
			*s = csisnapshot.Names{}.NewSnapshot(csisnapshot.Owner{UID: "other", Name: "other"}, claimRef("a"), "csi-snapclass")
		},
		"no owner":        func(s *csisnapshot.Snapshot) { s.Labels, s.Annotations = nil, nil },
		"the label alone": func(s *csisnapshot.Snapshot) { s.Annotations = nil },
		"another claim":   func(s *csisnapshot.Snapshot) { s.Claim = "b" },
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), hookedPod("pa", "a", "b"))...)
				foreign := csisnapshot.Names{}.NewSnapshot(cutOwner, claimRef("a"), "csi-snapclass")
				want := foreign.Name
				edit(&foreign)
				foreign.Name = want
				made, err := l.snapshotsOf().Create(t.Context(), foreign)
				if err != nil {
					t.Fatal(err)
				}
				report := l.mustCut(csisnapshot.Options{})
				v := volumeOf(t, report, "a")
				e, ok := errors.AsType[*csisnapshot.ConflictError](v.Err)
				if !ok || !errors.Is(v.Err, csisnapshot.ErrConflict) || e.UID != made.UID || e.Ref.Name != want || v.Snapshot != "" {
					t.Errorf("a: %+v, want a *ConflictError that names %s", v, made.UID)
				}
				if !volumeOf(t, report, "b").IsCut() {
					t.Error("b is not cut")
				}
				now, err := l.snapshotsOf().Get(t.Context(), "app", want)
				if err != nil || now.UID != made.UID || now.Terminating() || len(now.Labels) != len(foreign.Labels) {
					t.Errorf("the foreign object was touched: %+v, %v", now, err)
				}
			})
		})
	}
}

// hold leaves an earlier snapshot of the claim that is being deleted for the time; zero: for good.
func (l *cutLab) hold(t *testing.T, claim string, d time.Duration) csisnapshot.Snapshot {
	t.Helper()
	made, err := l.snapshotsOf().Create(t.Context(), csisnapshot.Names{}.NewSnapshot(cutOwner, claimRef(claim), "csi-snapclass"))
	if err != nil {
		t.Fatal(err)
	}
	hold := `{"metadata":{"finalizers":["example.dev/slow"]}}`
	if _, err := l.snapshotsOf().Patch(t.Context(), "app", made.Name, []byte(hold)); err != nil {
		t.Fatal(err)
	}
	if err := l.snapshotsOf().Delete(t.Context(), "app", made.Name, csisnapshot.Preconditions{UID: made.UID}); err != nil {
		t.Fatal(err)
	}
	if d > 0 {
		time.AfterFunc(d, func() {
			if _, err := l.snapshotsOf().Patch(t.Context(), "app", made.Name, []byte(`{"metadata":{"finalizers":null}}`)); err != nil {
				t.Errorf("free the old snapshot: %v", err)
			}
		})
	}
	return made
}

// S9: the owner's own snapshot that is being deleted is waited for until it is gone; then the volume gets another. No pod is
// frozen meanwhile (S4).
func TestCutWaitsForATerminatingSnapshot(t *testing.T) {
	t.Parallel()
	for name, pod := range map[string]backuptest.Pod{"hooked": hookedPod("pa", "a", "b"), "unhooked": plainPod("pa", "a", "b")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), pod)...)
				made := l.hold(t, "a", 40*time.Second)
				start := time.Now()
				report := l.mustCut(csisnapshot.Options{})
				checkWhole(t, report)
				v := volumeOf(t, report, "a")
				if v.SnapshotUID == made.UID || v.Adopted {
					t.Errorf("a: %+v, want a new snapshot", v)
				}
				if took := time.Since(start); took < 40*time.Second || took > time.Minute {
					t.Errorf("Cut took %v, want until the old snapshot was gone", took)
				}
				if frozen := podOf(t, report, "pa").Frozen; frozen > time.Second {
					t.Errorf("pod frozen for %v", frozen)
				}
			})
		})
	}
}

// S7, S9: snapshots that are being deleted and do not go cost one Timeout together, in whatever batches they are, freeze
// nothing, and harm no other volume.
func TestCutGivesUpOnTerminatingSnapshots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a1", "a2", "b", "w1", "w2"), hookedPod("pa", "a1", "a2"), hookedPod("pb", "b"))...)
		stuck := []string{"a1", "b", "w1"}
		for _, claim := range stuck {
			l.hold(t, claim, 0)
		}
		report := l.mustCut(csisnapshot.Options{Concurrency: 1})
		for _, v := range report.Volumes {
			if slices.Contains(stuck, v.Claim) {
				if !errors.Is(v.Err, csisnapshot.ErrTimeout) || !strings.Contains(v.Err.Error(), "earlier snapshot is being deleted") {
					t.Errorf("%s: %v", v.Claim, v.Err)
				}
			} else if !v.IsCut() {
				t.Errorf("%s: %v", v.Claim, v.Err)
			}
		}
		if got := l.quiescer.order(); got != "pa/pre pa/post" {
			t.Errorf("hooks ran %q, want none in pb, which has nothing to cut", got)
		}
		if frozen := podOf(t, report, "pa").Frozen; frozen > time.Second || report.Duration > 11*time.Minute {
			t.Errorf("Cut took %v, pod pa was frozen for %v, want one Timeout of 10m in all", report.Duration, frozen)
		}
	})
}

// S9: a claim that was created again after the plan, or is gone, has no snapshot under the name of the planned one; the others
// have theirs, and one list tells for all of a namespace (S3).
func TestCutLooksAtTheClaimsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims(append(numbered("c", 30), "again", "gone")...), hookedPod("pa", "again"))...)
		s := l.snapshotter(csisnapshot.Options{})
		plan, err := s.Plan(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		core, err := kubernetes.NewForConfig(l.cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		pvcs := core.CoreV1().PersistentVolumeClaims("app")
		for _, name := range []string{"again", "gone"} {
			if _, err := pvcs.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := pvcs.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		again := backuptest.Claim{Namespace: "app", Name: "again", UID: "second", VolumeName: "pv-second", VolumeHandle: "vol-second"}
		if err := l.cluster.Add(backuptest.Objects(again)...); err != nil {
			t.Fatal(err)
		}
		l.cluster.ResetRequests()
		report, err := s.Cut(t.Context(), cutOwner, plan)
		if err != nil {
			t.Fatal(err)
		}
		for claim, found := range map[string]types.UID{"again": "second", "gone": ""} {
			v := volumeOf(t, report, claim)
			changed, ok := errors.AsType[*csisnapshot.ClaimChangedError](v.Err)
			if !ok || !errors.Is(v.Err, csisnapshot.ErrClaimChanged) || changed.Planned != claimRef(claim).UID || changed.Found != found || v.Snapshot != "" {
				t.Errorf("%s: %+v", claim, v)
			}
		}
		if !slices.Equal(l.stored(), numbered("c", 30)) {
			t.Errorf("the storage has snapshots of %v", l.stored())
		}
		requests := l.cluster.Requests()
		if lists, gets := requests["list persistentvolumeclaims"], requests["get persistentvolumeclaims"]; lists != 1 || l.quiescer.order() != "" {
			t.Errorf("%d lists and %d gets of claims, want one list; hooks ran %q", lists, gets, l.quiescer.order())
		}
	})
}

// S9: created objects carry the library's labels only, the full names in annotations, and no ownerReference (snap-18).
func TestCutWritesItsOwnLabelsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		labelled := claim("a")
		labelled.Labels = map[string]string{"app.kubernetes.io/instance": "shop"}
		l := newCutLab(t, backuptest.ControllerOptions{}, labelled)
		checkWhole(t, l.mustCut(csisnapshot.Options{}))
		name := csisnapshot.Names{}.Snapshot(cutOwner.UID, claimRef("a").UID)
		got, err := l.snapshotsOf().Get(t.Context(), "app", name)
		if err != nil {
			t.Fatal(err)
		}
		for key := range got.Labels {
			if !strings.HasPrefix(key, "sheetanchor.io/") {
				t.Errorf("label %s is not the library's", key)
			}
		}
		if !(csisnapshot.Names{}).Owns(cutOwner.UID, got.Meta) || got.Class == nil || *got.Class != "csi-snapclass" {
			t.Errorf("snapshot: %+v", got)
		}
	})
}

// S8: trouble of the API while creating is ridden out; a refusal that names a reason is the volume's error (snap-17).
func TestCutRidesOutTheAPI(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fault backuptest.Fault
		fails string // text in the volume's error; empty: it is cut
	}{
		"500 three times":    {fault: backuptest.Fault{Code: 500, Nth: 1, Times: 3}},
		"503":                {fault: backuptest.Fault{Code: 503, Nth: 1, Times: 5}},
		"429":                {fault: backuptest.Fault{Code: 429, RetryAfter: time.Second, Nth: 1, Times: 12}},
		"refused":            {fault: backuptest.Fault{Action: backuptest.FaultRefuse, Nth: 1, Times: 4}},
		"reset":              {fault: backuptest.Fault{Action: backuptest.FaultReset, Nth: 1, Times: 4}},
		"answer lost":        {fault: backuptest.Fault{Action: backuptest.FaultLostAnswer, Nth: 1, Times: 2}},
		"hangs":              {fault: backuptest.Fault{Action: backuptest.FaultHang, Nth: 1, Times: 2}},
		"unauthorized":       {fault: backuptest.Fault{Code: 401, Nth: 1, Times: 2}},
		"forbidden for 1 s":  {fault: backuptest.Fault{Code: 403, Nth: 1, Times: 2}},
		"forbidden for good": {fault: backuptest.Fault{Code: 403}, fails: "create VolumeSnapshot app/"},
		"invalid":            {fault: backuptest.Fault{Code: 422}, fails: "create VolumeSnapshot app/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
				tc.fault.Verb, tc.fault.Resource = "create", "volumesnapshots"
				l.cluster.Fault(tc.fault)
				report := l.mustCut(csisnapshot.Options{})
				v := volumeOf(t, report, "a")
				if tc.fails == "" {
					checkWhole(t, report)
					if !slices.Equal(l.stored(), []string{"a"}) || v.Adopted {
						t.Errorf("stored %v, adopted %v", l.stored(), v.Adopted)
					}
				} else if v.Err == nil || !strings.Contains(v.Err.Error(), tc.fails) || report.Duration > 10*time.Second {
					t.Errorf("error %v after %v, want one with %q, soon", v.Err, report.Duration, tc.fails)
				}
				if l.quiescer.frozen() != nil {
					t.Errorf("frozen: %v", l.quiescer.frozen())
				}
			})
		})
	}
}
