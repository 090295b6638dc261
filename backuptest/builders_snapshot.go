package backuptest

import (
	"maps"
	"time"

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
	// SnapshotBeingCreated is taken by the driver at this moment: the content has its finalizer and the being-created
	// annotation, no status. With Deleting it is one that the real sidecar leaves Terminating until something touches it.
	SnapshotBeingCreated
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
	// Static makes a pair as an administrator makes it for a snapshot that the storage has already: the content's source is
	// the Handle, the snapshot's is the content, named content-NAME, and there is no claim and no class.
	Static bool
	// Group is the name of the VolumeGroupSnapshot that the pair belongs to, which names and marks both objects as its members.
	// Empty: none.
	Group string
	// Leftover leaves the content alone, as one with policy Retain stays behind when its snapshot is deleted.
	Leftover bool
}

// ContentName returns the name of the content.
func (s Snapshot) ContentName() string {
	if s.Static {
		return dashed("content", s.Name)
	}
	return contentNameFor(s.Namespace, s.Name, s.filled().UID)
}

// VS returns the VolumeSnapshot, and nil with Leftover.
func (s Snapshot) VS() *unstructured.Unstructured {
	if s.Leftover {
		return nil
	}
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
	s.originateVS(vs, status)
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
		size := quantityOf(s.Size)
		status["snapshotHandle"] = s.Handle
		status["creationTime"] = s.CutAt.UnixNano()
		status["restoreSize"] = size.Value()
		status["readyToUse"] = s.State == SnapshotReady
	}
	s.annotate(vsc)
	s.originateVSC(vsc, status)
	s.finish(vsc, status, s.ContentError)
	return vsc
}

// Objects returns the snapshot, unless it is gone, and its content where the state has one. What cannot be built, such as an
// unknown State, is an error where it is stored.
func (s Snapshot) Objects() []runtime.Object {
	return built("Snapshot", s.Namespace, s.Name, s.objects, s.wrong())
}

func (s Snapshot) objects() []runtime.Object {
	var objects []runtime.Object
	for _, u := range []*unstructured.Unstructured{s.VS(), s.VSC()} {
		if u != nil {
			objects = append(objects, u)
		}
	}
	return objects
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
	if s.Leftover {
		s.Policy = orString(s.Policy, "Retain")
	}
	if s.Group != "" && s.Name == "" {
		s.Name = s.memberName()
	}
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
