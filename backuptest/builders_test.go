package backuptest_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func TestClaimBindsClaimAndVolume(t *testing.T) {
	t.Parallel()
	claim := backuptest.Claim{Namespace: "app", Name: "data"}
	pvc, pv := claim.PVC(), claim.PV()
	if pvc.Status.Phase != corev1.ClaimBound || pvc.Spec.VolumeName != pv.Name {
		t.Errorf("claim is %s to %q, want Bound to %q", pvc.Status.Phase, pvc.Spec.VolumeName, pv.Name)
	}
	if ref := pv.Spec.ClaimRef; ref.UID != pvc.UID || ref.Namespace != "app" || ref.Name != "data" {
		t.Errorf("volume refers to %+v, want the claim with UID %s", ref, pvc.UID)
	}
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != backuptest.DefaultDriver || pv.Spec.CSI.VolumeHandle == "" {
		t.Errorf("volume source is %+v, want the default CSI driver", pv.Spec.CSI)
	}
	if class := (backuptest.StorageClass{}).Object(); class.Name != *pvc.Spec.StorageClassName || class.Provisioner != pv.Spec.CSI.Driver {
		t.Errorf("default storage class is %s of %s, the claim has %s", class.Name, class.Provisioner, *pvc.Spec.StorageClassName)
	}
}

func TestClaimVariants(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		claim   backuptest.Claim
		objects int
		bound   bool
		csi     bool
	}{
		"csi":     {reason: "the default is bound and CSI", objects: 2, bound: true, csi: true},
		"nfs":     {reason: "NFS is bound and not CSI", claim: backuptest.Claim{NFS: true}, objects: 2, bound: true},
		"unbound": {reason: "Unbound has no volume", claim: backuptest.Claim{Unbound: true}, objects: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.claim.Namespace, tc.claim.Name = "app", "data"
			if got := len(tc.claim.Objects()); got != tc.objects {
				t.Errorf("%s: %d objects, want %d", tc.reason, got, tc.objects)
			}
			if got := tc.claim.PVC().Spec.VolumeName != ""; got != tc.bound {
				t.Errorf("%s: names a volume %t, want %t", tc.reason, got, tc.bound)
			}
			pv := tc.claim.PV()
			if got := pv != nil && pv.Spec.CSI != nil; got != tc.csi {
				t.Errorf("%s: CSI %t, want %t", tc.reason, got, tc.csi)
			}
		})
	}
}

func TestPodPhases(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod     backuptest.Pod
		running []bool
		node    string
	}{
		"running by default": {running: []bool{true}, node: "node-1"},
		"one container stopped": {
			pod: backuptest.Pod{Containers: []string{"db", "sidecar"}, NotRunning: []string{"sidecar"}}, running: []bool{true, false}, node: "node-1",
		},
		"succeeded": {pod: backuptest.Pod{Phase: corev1.PodSucceeded}, running: []bool{false}, node: "node-1"},
		"failed":    {pod: backuptest.Pod{Phase: corev1.PodFailed}, running: []bool{false}, node: "node-1"},
		"pending":   {pod: backuptest.Pod{Phase: corev1.PodPending}, running: []bool{false}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.pod.Namespace, tc.pod.Name, tc.pod.Claims = "app", "web-0", []string{"data", "logs"}
			pod := tc.pod.Object()
			var running []bool
			for _, status := range pod.Status.ContainerStatuses {
				running = append(running, status.State.Running != nil)
			}
			if diff := cmp.Diff(tc.running, running); diff != "" || pod.Spec.NodeName != tc.node {
				t.Errorf("on node %q, containers run (-want +got):\n%s", pod.Spec.NodeName, diff)
			}
			if got := pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName; got != "logs" {
				t.Errorf("second volume is of claim %q, want logs", got)
			}
		})
	}
}

func TestPodsOfOneControllerShareItsUID(t *testing.T) {
	t.Parallel()
	owner := backuptest.ControllerOf("apps/v1", "StatefulSet", "app", "web")
	a := backuptest.Pod{Namespace: "app", Name: "web-0", Owner: owner}.Object()
	b := backuptest.Pod{Namespace: "app", Name: "web-1", Owner: owner}.Object()
	if a.OwnerReferences[0].UID != b.OwnerReferences[0].UID || a.UID == b.UID {
		t.Errorf("owners %s and %s, pods %s and %s; want one owner of two pods", a.OwnerReferences[0].UID, b.OwnerReferences[0].UID, a.UID, b.UID)
	}
}

func TestSnapshotStates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason     string
		snapshot   backuptest.Snapshot
		content    bool
		bound, cut bool // as the snapshot's status says
		handle     bool
		ready      bool
	}{
		"ready":      {reason: "the zero state is finished", content: true, bound: true, cut: true, handle: true, ready: true},
		"created":    {reason: "nobody saw it", snapshot: backuptest.Snapshot{State: backuptest.SnapshotCreated}},
		"picked up":  {reason: "content without status", snapshot: backuptest.Snapshot{State: backuptest.SnapshotPickedUp}, content: true},
		"cut unseen": {reason: "cut on the content alone", snapshot: backuptest.Snapshot{State: backuptest.SnapshotCutUnseen}, content: true, handle: true},
		"bound":      {reason: "bound, not cut", snapshot: backuptest.Snapshot{State: backuptest.SnapshotBound}, content: true, bound: true},
		"cut":        {reason: "cut, not ready", snapshot: backuptest.Snapshot{State: backuptest.SnapshotCut}, content: true, bound: true, cut: true, handle: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.snapshot.Namespace, tc.snapshot.Name, tc.snapshot.Claim = "app", "snap", "data"
			vs, vsc := tc.snapshot.VS(), tc.snapshot.VSC()
			boundName, bound, _ := unstructured.NestedString(vs.Object, "status", "boundVolumeSnapshotContentName")
			_, cut, _ := unstructured.NestedString(vs.Object, "status", "creationTime")
			ready, _, _ := unstructured.NestedBool(vs.Object, "status", "readyToUse")
			if bound != tc.bound || cut != tc.cut || ready != tc.ready {
				t.Errorf("%s: snapshot bound %t, cut %t, ready %t", tc.reason, bound, cut, ready)
			}
			if (vsc != nil) != tc.content || len(tc.snapshot.Objects()) != map[bool]int{false: 1, true: 2}[tc.content] {
				t.Fatalf("%s: content %v", tc.reason, vsc)
			}
			if vsc == nil {
				return
			}
			_, handle, _ := unstructured.NestedString(vsc.Object, "status", "snapshotHandle")
			refUID, _, _ := unstructured.NestedString(vsc.Object, "spec", "volumeSnapshotRef", "uid")
			if handle != tc.handle || refUID != string(vs.GetUID()) || vsc.GetName() != "snapcontent-"+refUID {
				t.Errorf("%s: content %s has handle %t, refers to %s", tc.reason, vsc.GetName(), handle, refUID)
			}
			if bound && boundName != vsc.GetName() {
				t.Errorf("%s: snapshot is bound to %q, want %q", tc.reason, boundName, vsc.GetName())
			}
		})
	}
}

func TestSnapshotErrorsAndDeletion(t *testing.T) {
	t.Parallel()
	s := backuptest.Snapshot{
		Namespace: "app", Name: "snap", Claim: "data", State: backuptest.SnapshotPickedUp, ContentError: "boom", Deleting: true,
	}
	text, _, _ := unstructured.NestedString(s.VSC().Object, "status", "error", "message")
	ready, found, _ := unstructured.NestedBool(s.VSC().Object, "status", "readyToUse")
	if text != "boom" || ready || !found {
		t.Errorf("content says %q, ready %t, set %t; want boom and readyToUse false", text, ready, found)
	}
	if _, has := s.VS().Object["status"]; has {
		t.Error("the snapshot has a status, want the error on the content alone")
	}
	if s.VS().GetDeletionTimestamp() == nil || s.VSC().GetDeletionTimestamp() == nil {
		t.Error("Deleting set no deletionTimestamp")
	}
}

func TestBuildersShareNothing(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"app": "web"}
	builders := []backuptest.Builder{
		backuptest.Pod{Namespace: "app", Name: "web-0", Labels: labels, Claims: []string{"data"}},
		backuptest.Claim{Namespace: "app", Name: "data", Labels: labels, VolumeLabels: labels},
		backuptest.StorageClass{Default: true},
		backuptest.SnapshotClass{Labels: labels, Default: true},
		backuptest.Snapshot{Namespace: "app", Name: "snap", Claim: "data", Labels: labels},
	}
	first := backuptest.Objects(builders...)
	want := make([]runtime.Object, len(first))
	for i, object := range first {
		want[i] = object.DeepCopyObject()
		accessor := object.(interface{ SetLabels(map[string]string) })
		if labeled, ok := object.(interface{ GetLabels() map[string]string }); ok && labeled.GetLabels() != nil {
			labeled.GetLabels()["app"] = "changed"
		}
		accessor.SetLabels(nil)
	}
	if diff := cmp.Diff(want, backuptest.Objects(builders...)); diff != "" {
		t.Errorf("changing the objects of one call changed the next (-want +got):\n%s", diff)
	}
}

func ExampleObjects() {
	objects := backuptest.Objects(
		backuptest.Pod{Namespace: "app", Name: "db-0", Claims: []string{"data"}},
		backuptest.Claim{Namespace: "app", Name: "data"},
		backuptest.StorageClass{},
		backuptest.SnapshotClass{Policy: "Retain"},
	)
	for _, object := range objects {
		fmt.Println(object.GetObjectKind().GroupVersionKind().Kind)
	}
	// Output:
	// Pod
	// PersistentVolumeClaim
	// PersistentVolume
	// StorageClass
	// VolumeSnapshotClass
}
