package backuptest

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// snapshotStatus is the status that the snapshot-controller writes on a snapshot that has one (or nil), given its content. What is
// set stays, but for readyToUse and error, which follow the content.
func snapshotStatus(status map[string]any, content *unstructured.Unstructured) map[string]any {
	from := statusOf(content)
	next := maps.Clone(status)
	if next == nil {
		next = map[string]any{}
	}
	if next["boundVolumeSnapshotContentName"] == nil {
		next["boundVolumeSnapshotContentName"] = content.GetName()
	}
	if nanos, found := from["creationTime"].(int64); found && next["creationTime"] == nil {
		next["creationTime"] = rfc3339(time.Unix(0, nanos))
	}
	if size, found := from["restoreSize"].(int64); found && next["restoreSize"] == nil {
		next["restoreSize"] = resource.NewQuantity(size, resource.BinarySI).String()
	}
	next["readyToUse"] = from["readyToUse"] == true
	if failure := from["error"]; failure != nil {
		next["error"] = failure
	} else {
		delete(next, "error")
	}
	return next
}

// cutStatus is the status that the sidecar writes on a content after CreateSnapshot answered. An error of before stays until the
// snapshot is ready.
func cutStatus(status map[string]any, taken StoredSnapshot) map[string]any {
	next := maps.Clone(status)
	if next == nil {
		next = map[string]any{}
	}
	if next["snapshotHandle"] == nil {
		next["snapshotHandle"] = taken.Handle
	}
	if next["creationTime"] == nil {
		next["creationTime"] = taken.CutAt.UnixNano()
	}
	if next["restoreSize"] == nil && taken.Size > 0 {
		next["restoreSize"] = taken.Size
	}
	if ready, set := next["readyToUse"].(bool); !set || ready != taken.ReadyToUse {
		next["readyToUse"] = taken.ReadyToUse
		if taken.ReadyToUse {
			delete(next, "error")
		}
	}
	return next
}

// clearedStatus is the status of a content whose physical snapshot has been deleted.
func clearedStatus(status map[string]any) map[string]any {
	next := maps.Clone(status)
	for _, field := range []string{"snapshotHandle", "creationTime", "restoreSize", "readyToUse"} {
		delete(next, field)
	}
	return next
}
