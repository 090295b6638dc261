package backuptest

import (
	"crypto/sha256"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	groupAPIVersion       = "groupsnapshot.storage.k8s.io/v1beta2"
	groupHandleAnnotation = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle"
	inGroupFinalizer      = "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection"
)

// memberName names a member of a group as the snapshot-controller does.
func (s Snapshot) memberName() string {
	volume := orString(s.VolumeHandle, dashed("vol", s.Namespace, s.Claim))
	return fmt.Sprintf("snapshot-%x", sha256.Sum256([]byte(s.groupUID()+volume)))
}

func (s Snapshot) groupUID() string {
	return string(UIDOf("VolumeGroupSnapshot", s.Namespace, s.Group))
}

func (s Snapshot) groupHandle() string { return dashed("group", s.Namespace, s.Group) }

// originateVS tells where a snapshot comes from, if it is not one that somebody made of a claim.
func (s Snapshot) originateVS(vs *unstructured.Unstructured, status map[string]any) {
	if s.Static {
		vs.Object["spec"] = map[string]any{"source": map[string]any{"volumeSnapshotContentName": s.ContentName()}}
	}
	if s.Group == "" {
		return
	}
	unstructured.RemoveNestedField(vs.Object, "spec", "volumeSnapshotClassName")
	vs.SetFinalizers(append(vs.GetFinalizers(), inGroupFinalizer))
	vs.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: groupAPIVersion, Kind: "VolumeGroupSnapshot", Name: s.Group, UID: UIDOf("VolumeGroupSnapshot", s.Namespace, s.Group),
	}})
	if len(status) > 0 {
		status["volumeGroupSnapshotName"] = s.Group
	}
}

// originateVSC is originateVS for the content.
func (s Snapshot) originateVSC(vsc *unstructured.Unstructured, status map[string]any) {
	if s.Static || s.Group != "" {
		unstructured.RemoveNestedField(vsc.Object, "spec", "volumeSnapshotClassName")
	}
	if s.Static {
		_ = unstructured.SetNestedMap(vsc.Object, map[string]any{"snapshotHandle": s.Handle}, "spec", "source") // spec is a map
	}
	if s.Group != "" && s.cut() {
		status["volumeGroupSnapshotHandle"] = s.groupHandle()
	}
}

// annotate sets the annotations of the content that tell what happens to it.
func (s Snapshot) annotate(vsc *unstructured.Unstructured) {
	annotations := map[string]string{}
	if s.State == SnapshotBeingCreated {
		annotations[beingCreatedAnnotation] = "yes"
	}
	if s.Deleting || s.Leftover {
		annotations[beingDeletedAnnotation] = "yes"
	}
	if s.Group != "" {
		annotations[groupHandleAnnotation] = s.groupHandle()
	}
	if len(annotations) > 0 {
		vsc.SetAnnotations(annotations)
	}
}
