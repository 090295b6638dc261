package backuptest

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	snapshotGroup      = "snapshot.storage.k8s.io"
	snapshotAPIVersion = snapshotGroup + "/v1"

	sourceFinalizer  = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
	boundFinalizer   = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
	contentFinalizer = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
	claimFinalizer   = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

	beingCreatedAnnotation   = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
	beingDeletedAnnotation   = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	isDefaultClassAnnotation = "snapshot.storage.kubernetes.io/is-default-class"

	policyDelete = "Delete"
)

var (
	snapshotsResource = schema.GroupVersionResource{Group: snapshotGroup, Version: "v1", Resource: "volumesnapshots"}
	contentsResource  = schema.GroupVersionResource{Group: snapshotGroup, Version: "v1", Resource: "volumesnapshotcontents"}
	classesResource   = schema.GroupVersionResource{Group: snapshotGroup, Version: "v1", Resource: "volumesnapshotclasses"}
	claimsResource    = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	volumesResource   = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
	eventsResource    = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// contentSpec is what the snapshot-controller knows when it makes a content.
type contentSpec struct {
	Name, Namespace, Snapshot           string
	SnapshotUID                         types.UID
	Class, Driver, Policy, VolumeHandle string
}

func newContent(spec contentSpec) *unstructured.Unstructured {
	ref := map[string]any{
		"apiVersion": snapshotAPIVersion, "kind": "VolumeSnapshot", "namespace": spec.Namespace, "name": spec.Snapshot,
	}
	if spec.SnapshotUID != "" {
		ref["uid"] = string(spec.SnapshotUID)
	}
	content := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": snapshotAPIVersion,
		"kind":       "VolumeSnapshotContent",
		"spec": map[string]any{
			"deletionPolicy":          spec.Policy,
			"driver":                  spec.Driver,
			"source":                  map[string]any{"volumeHandle": spec.VolumeHandle},
			"volumeSnapshotClassName": spec.Class,
			"volumeSnapshotRef":       ref,
		},
	}}
	content.SetName(spec.Name)
	return content
}

// contentNameFor names the content of a snapshot as the snapshot-controller does. A bare fake client gives objects no UID:
// then the name is made of namespace and name, so that two such snapshots have two contents.
func contentNameFor(namespace, name string, uid types.UID) string {
	if uid == "" {
		return dashed("snapcontent", namespace, name)
	}
	return "snapcontent-" + string(uid)
}

func specString(object *unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(object.Object, fields...)
	return s
}

// boundContentName is status.boundVolumeSnapshotContentName.
func boundContentName(vs *unstructured.Unstructured) string {
	return specString(vs, "status", "boundVolumeSnapshotContentName")
}

func isReady(object *unstructured.Unstructured) bool {
	ready, _, _ := unstructured.NestedBool(object.Object, "status", "readyToUse")
	return ready
}

func statusOf(object *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	return status
}

func sourceClaim(vs *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: vs.GetNamespace(), Name: specString(vs, "spec", "source", "persistentVolumeClaimName")}
}

// sourceContent is the content made by hand that a snapshot asks for.
func sourceContent(vs *unstructured.Unstructured) string {
	return specString(vs, "spec", "source", "volumeSnapshotContentName")
}

func staticHandle(content *unstructured.Unstructured) string {
	return specString(content, "spec", "source", "snapshotHandle")
}

// isReserved reports whether a content belongs to one snapshot. A content made by hand does so only once it has that one's UID.
func isReserved(content *unstructured.Unstructured) bool {
	if specString(content, "spec", "source", "volumeHandle") != "" {
		return true
	}
	return staticHandle(content) != "" && specString(content, "spec", "volumeSnapshotRef", "uid") != ""
}

// snapshotKeyOf is the key of the snapshot that a content was made for.
func snapshotKeyOf(content *unstructured.Unstructured) string {
	return specString(content, "spec", "volumeSnapshotRef", "namespace") + "/" + specString(content, "spec", "volumeSnapshotRef", "name")
}

// refersTo reports whether a content was made for that very snapshot.
func refersTo(content, vs *unstructured.Unstructured) bool {
	return snapshotKeyOf(content) == objectKey(vs) && specString(content, "spec", "volumeSnapshotRef", "uid") == string(vs.GetUID())
}

func hasFinalizer(object *unstructured.Unstructured, finalizer string) bool {
	return slices.Contains(object.GetFinalizers(), finalizer)
}

func isDeleting(object *unstructured.Unstructured) bool { return object.GetDeletionTimestamp() != nil }

func hasAnnotation(object *unstructured.Unstructured, name string) bool {
	_, found := object.GetAnnotations()[name]
	return found
}
