package backuptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// errGone says that the object of a write is not there any more, or another one is there by its name.
var errGone = errors.New("object is gone")

const conflictTries = 10

// patchObject writes what build wants changed, as a merge patch on the newest version of the object that is known. Build gets that
// version and returns nil for nothing to change; after a conflict it gets the version that the server has. The object as it is
// afterwards is returned, or errGone.
func (r *controllerRun) patchObject(
	ctx context.Context, feed *objectFeed, object *unstructured.Unstructured, subresource string,
	build func(current *unstructured.Unstructured) map[string]any,
) (*unstructured.Unstructured, error) {
	current := feed.get(objectKey(object))
	client := feed.in(object.GetNamespace())
	var err error
	for range conflictTries {
		if current == nil || current.GetUID() != object.GetUID() {
			return nil, errGone
		}
		change := build(current)
		if change == nil {
			return current, nil
		}
		patch, wrong := mergePatch(change, current.GetResourceVersion())
		if wrong != nil {
			return nil, wrong
		}
		var written *unstructured.Unstructured
		written, err = client.Patch(ctx, object.GetName(), types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: "snapshot-controller"}, subresources(subresource)...)
		switch {
		case err == nil:
			feed.wrote(written)
			return written, nil
		case apierrors.IsNotFound(err):
			return nil, errGone
		case !apierrors.IsConflict(err):
			return nil, fmt.Errorf("patch %s %s: %w", feed.resource.Resource, objectKey(object), err)
		}
		if current, err = client.Get(ctx, object.GetName(), metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil, errGone
		} else if err != nil {
			return nil, fmt.Errorf("get %s %s: %w", feed.resource.Resource, objectKey(object), err)
		}
		feed.wrote(current)
	}
	return nil, fmt.Errorf("patch %s %s: still a conflict after %d tries: %w", feed.resource.Resource, objectKey(object), conflictTries, err)
}

// mergePatch adds the version to a change, so that it is refused for any other; a bare fake client has none.
func mergePatch(change map[string]any, version string) ([]byte, error) {
	if version != "" {
		metadata, _ := change["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			change["metadata"] = metadata
		}
		metadata["resourceVersion"] = version
	}
	return json.Marshal(change)
}

func subresources(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

func finalizersPatch(finalizers []string) map[string]any {
	list := make([]any, len(finalizers))
	for i, f := range finalizers {
		list[i] = f
	}
	return map[string]any{"metadata": map[string]any{"finalizers": list}}
}

// annotationPatch sets an annotation, or removes it with value nil.
func annotationPatch(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

// statusPatch changes the status from one to another; what is only in the first is removed.
func statusPatch(from, to map[string]any) map[string]any {
	change := map[string]any{}
	for key := range from {
		if _, kept := to[key]; !kept {
			change[key] = nil
		}
	}
	for key, value := range to {
		if !sameJSON(from[key], value) {
			change[key] = value
		}
	}
	if len(change) == 0 {
		return nil
	}
	return map[string]any{"status": change}
}

func sameJSON(a, b any) bool {
	dataA, errA := json.Marshal(a)
	dataB, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(dataA) == string(dataB)
}

// event records an event as the real controllers do: beside a snapshot, and in namespace default for a content. An event that
// cannot be recorded is lost, as there.
func (r *controllerRun) event(ctx context.Context, object *unstructured.Unstructured, component, kind, reason, message string) {
	r.memo.Lock()
	r.events++
	number := r.events
	r.memo.Unlock()
	recordEvent(ctx, r.client, object, eventText{component: component, kind: kind, reason: reason, message: message, number: number, now: r.now()})
}

const (
	normalEvent         = corev1.EventTypeNormal
	warningEvent        = corev1.EventTypeWarning
	snapshotComponent   = "snapshot-controller"
	csiSnapshotterPrefx = "csi-snapshotter "
)
