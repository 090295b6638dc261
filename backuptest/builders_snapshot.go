package backuptest

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// SnapshotState says how far a [Snapshot] has come. The states follow each other in the order of the constants.
type SnapshotState uint8

const (
	// SnapshotReady is a finished snapshot: content and snapshot have their times, sizes and readyToUse true. It is the zero
	// value.
	SnapshotReady SnapshotState = iota
	// SnapshotCreated is a snapshot no controller has seen: no finalizer, no status, no content.
	SnapshotCreated
	// SnapshotPickedUp has its first finalizer, and its content exists with neither status nor finalizer.
	SnapshotPickedUp
	// SnapshotCutUnseen is cut on the content, while the snapshot has no status yet.
	SnapshotCutUnseen
	// SnapshotBound names its content and says readyToUse false, and the content has no status.
	SnapshotBound
	// SnapshotCut has handle, times and sizes on both sides, and readyToUse false.
	SnapshotCut
)

// Snapshot builds a VolumeSnapshot and its VolumeSnapshotContent as the real controllers leave them in a state, so that a test
// can begin in the middle. Only Namespace, Name and Claim are needed: a zero field takes the default that its comment names.
type Snapshot struct {
	Namespace, Name string
	Claim           string // the source claim, without namespace
	State           SnapshotState
	UID             types.UID // UIDOf("VolumeSnapshot", Namespace, Name)
	Labels          map[string]string
	Annotations     map[string]string
	Class           string    // DefaultSnapshotClass
	Driver          string    // DefaultDriver
	Policy          string    // of the content: "Delete"; or "Retain"
	VolumeHandle    string    // "vol-NAMESPACE-CLAIM", as Claim builds it
	Handle          string    // "snap-NAMESPACE-NAME", from a cut state on
	Size            string    // of the restored volume, a quantity: "1Gi"
	CutAt           time.Time // 2026-01-01 00:00:00 UTC
	// Error stands as status.error on the snapshot and ContentError on the content, with any state that has a status there, and
	// makes one where there is none.
	Error, ContentError string
	// Deleting gives both objects a deletionTimestamp and the content the being-deleted annotation.
	Deleting bool
}

// ContentName returns the name of the content.
func (s Snapshot) ContentName() string { return contentNameFor(s.Namespace, s.Name, s.filled().UID) }

// VS returns the VolumeSnapshot.
func (s Snapshot) VS() *unstructured.Unstructured {
	s = s.filled()
	vs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": snapshotAPIVersion,
		"kind":       "VolumeSnapshot",
		"spec": map[string]any{
			"source":                  map[string]any{"persistentVolumeClaimName": s.Claim},
			"volumeSnapshotClassName": s.Class,
		},
	}}
	vs.SetNamespace(s.Namespace)
	vs.SetName(s.Name)
	vs.SetUID(s.UID)
	vs.SetLabels(maps.Clone(s.Labels))
	vs.SetAnnotations(maps.Clone(s.Annotations))
	if s.State != SnapshotCreated {
		vs.SetFinalizers([]string{sourceFinalizer})
	}
	status := map[string]any{}
	if s.bound() {
		status["boundVolumeSnapshotContentName"] = s.ContentName()
		status["readyToUse"] = s.State == SnapshotReady
		if s.Policy == policyDelete {
			vs.SetFinalizers([]string{sourceFinalizer, boundFinalizer})
		}
	}
	if s.bound() && s.cut() {
		status["creationTime"] = rfc3339(s.CutAt)
		status["restoreSize"] = s.Size
	}
	s.finish(vs, status, s.Error)
	return vs
}

// VSC returns the VolumeSnapshotContent, and nil for [SnapshotCreated].
func (s Snapshot) VSC() *unstructured.Unstructured {
	if s.State == SnapshotCreated {
		return nil
	}
	s = s.filled()
	vsc := newContent(contentSpec{
		Name: s.ContentName(), Namespace: s.Namespace, Snapshot: s.Name, SnapshotUID: s.UID,
		Class: s.Class, Driver: s.Driver, Policy: s.Policy, VolumeHandle: s.VolumeHandle,
	})
	vsc.SetUID(UIDOf("VolumeSnapshotContent", "", s.ContentName()))
	if s.State != SnapshotPickedUp {
		vsc.SetFinalizers([]string{contentFinalizer})
	}
	status := map[string]any{}
	if s.cut() {
		size := resource.MustParse(s.Size)
		status["snapshotHandle"] = s.Handle
		status["creationTime"] = s.CutAt.UnixNano()
		status["restoreSize"] = size.Value()
		status["readyToUse"] = s.State == SnapshotReady
	}
	if s.Deleting {
		vsc.SetAnnotations(map[string]string{beingDeletedAnnotation: "yes"})
	}
	s.finish(vsc, status, s.ContentError)
	return vsc
}

// Objects returns the snapshot and, where the state has one, its content.
func (s Snapshot) Objects() []runtime.Object {
	if s.State == SnapshotCreated {
		return []runtime.Object{s.VS()}
	}
	return []runtime.Object{s.VS(), s.VSC()}
}

func (s Snapshot) finish(object *unstructured.Unstructured, status map[string]any, text string) {
	if text != "" {
		status["error"] = map[string]any{"message": text, "time": rfc3339(s.CutAt)}
		if _, set := status["readyToUse"]; !set {
			status["readyToUse"] = false
		}
	}
	if len(status) > 0 {
		object.Object["status"] = status
	}
	if s.Deleting {
		object.SetDeletionTimestamp(new(metav1.NewTime(s.CutAt)))
	}
}

func (s Snapshot) bound() bool {
	return s.State == SnapshotReady || s.State == SnapshotBound || s.State == SnapshotCut
}

func (s Snapshot) cut() bool {
	return s.State == SnapshotReady || s.State == SnapshotCut || s.State == SnapshotCutUnseen
}

func (s Snapshot) filled() Snapshot {
	s.UID = orUID(s.UID, "VolumeSnapshot", s.Namespace, s.Name)
	s.Class = orString(s.Class, DefaultSnapshotClass)
	s.Driver = orString(s.Driver, DefaultDriver)
	s.Policy = orString(s.Policy, policyDelete)
	s.VolumeHandle = orString(s.VolumeHandle, dashed("vol", s.Namespace, s.Claim))
	s.Handle = orString(s.Handle, dashed("snap", s.Namespace, s.Name))
	s.Size = orString(s.Size, "1Gi")
	if s.CutAt.IsZero() {
		s.CutAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return s
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
