package backuptest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	groupGroup             = "groupsnapshot.storage.k8s.io"
	groupBoundFinalizer    = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection"
	groupContentFinalizer  = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection"
	groupCreatedAnnotation = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created"
	groupDeletedAnnotation = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted"
	groupOwnerVersion      = groupGroup + "/v1" // whatever version is used
	groupKind              = "VolumeGroupSnapshot"
)

var (
	groupsResource        = schema.GroupVersionResource{Group: groupGroup, Version: "v1beta2", Resource: "volumegroupsnapshots"}
	groupContentsResource = schema.GroupVersionResource{Group: groupGroup, Version: "v1beta2", Resource: "volumegroupsnapshotcontents"}
	groupClassesResource  = schema.GroupVersionResource{Group: groupGroup, Version: "v1beta2", Resource: "volumegroupsnapshotclasses"}
)

// groupChanged is told of each change of a group.
func (r *controllerRun) groupChanged(key string, _, _ *unstructured.Unstructured, _ bool) {
	r.groupQueue.rush(key)
}

// groupContentChanged is told of each change of a group's content.
func (r *controllerRun) groupContentChanged(key string, before, content *unstructured.Unstructured, gone bool) {
	if before == nil || gone || sidecarMinds(before) != sidecarMinds(content) {
		r.groupContentQueue.rush(key)
	} else {
		r.groupContentQueue.add(key)
	}
	r.groupQueue.rush(specString(content, "spec", "volumeGroupSnapshotRef", "namespace") + "/" + specString(content, "spec", "volumeGroupSnapshotRef", "name"))
}

// syncGroup is the snapshot-controller's look at a group: the next step of it.
func (r *controllerRun) syncGroup(ctx context.Context, key string) verdict {
	group := r.groups.get(key)
	if group == nil {
		return settled
	}
	content := r.groupContents.get(groupContentName(group))
	if isDeleting(group) {
		return r.removeGroup(ctx, group, content)
	}
	if content == nil {
		if r.groupQueue.early(key) {
			return waiting
		}
		return r.makeGroupContent(ctx, group)
	}
	if specString(group, "status", "boundVolumeGroupSnapshotContentName") != "" && !hasFinalizer(group, groupBoundFinalizer) {
		_, err := r.patchObject(ctx, r.groups, group, "", addFinalizer(groupBoundFinalizer))
		return afterStep(err)
	}
	if !isReady(group) && len(membersOf(content)) > 0 {
		if err := r.makeMembers(ctx, group, content); err != nil {
			return waiting
		}
	}
	return r.writeGroupStatus(ctx, group, content)
}

func groupContentName(group *unstructured.Unstructured) string {
	return "groupsnapcontent-" + string(group.GetUID())
}

// makeGroupContent finds the claims and creates the content.
func (r *controllerRun) makeGroupContent(ctx context.Context, group *unstructured.Unstructured) verdict {
	class, handles, err := r.groupSource(ctx, group)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, errTrouble) {
			return waiting
		}
		text := fmt.Sprintf("failed to create group snapshot content with error failed to get input parameters to create group snapshot %s: %q",
			group.GetName(), err.Error())
		return r.failGroup(ctx, group, "GroupSnapshotContentCreationFailed", text)
	}
	content := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": groupContentsResource.GroupVersion().String(), "kind": "VolumeGroupSnapshotContent",
		"metadata": map[string]any{"name": groupContentName(group)},
		"spec": map[string]any{
			"deletionPolicy": specString(class, "deletionPolicy"), "driver": specString(class, "driver"),
			"volumeGroupSnapshotClassName": class.GetName(), "source": map[string]any{"volumeHandles": handles},
			"volumeGroupSnapshotRef": map[string]any{
				"apiVersion": group.GetAPIVersion(), "kind": groupKind, "namespace": group.GetNamespace(), "name": group.GetName(), "uid": string(group.GetUID()),
			},
		},
	}}
	created, err := r.client.Resource(groupContentsResource).Create(ctx, content, metav1.CreateOptions{FieldManager: "snapshot-controller"})
	if err != nil {
		return waiting
	}
	r.event(ctx, group, snapshotComponent, normalEvent, "CreatingGroupSnapshot", "Waiting for a group snapshot "+objectKey(group)+" to be created by the CSI driver.")
	verdict := r.writeGroupStatus(ctx, group, created) // before any answer of the driver
	r.groupContents.see(created, false, false)
	return verdict
}

// groupSource is the class of a group and the handles of the volumes that its selector finds.
func (r *controllerRun) groupSource(ctx context.Context, group *unstructured.Unstructured) (*unstructured.Unstructured, []any, error) {
	class, err := r.client.Resource(groupClassesResource).Get(ctx, specString(group, "spec", "volumeGroupSnapshotClassName"), metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	matched, _, _ := unstructured.NestedStringMap(group.Object, "spec", "source", "selector", "matchLabels")
	list, err := r.client.Resource(claimsResource).Namespace(group.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: labels.Set(matched).String()})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errTrouble, err)
	}
	var handles []any
	for i := range list.Items {
		pv, err := r.volumeOfClaim(ctx, types.NamespacedName{Namespace: group.GetNamespace(), Name: list.Items[i].GetName()})
		if err != nil {
			return nil, nil, err
		}
		handles = append(handles, specString(pv, "spec", "csi", "volumeHandle"))
	}
	if len(handles) == 0 {
		return nil, nil, errors.New("label selector has not matched any claim")
	}
	return class, handles, nil
}

// writeGroupStatus brings the status of a group up to that of its content.
func (r *controllerRun) writeGroupStatus(ctx context.Context, group, content *unstructured.Unstructured) verdict {
	before := statusOf(group)
	next := map[string]any{"boundVolumeGroupSnapshotContentName": content.GetName(), "readyToUse": isReady(content)}
	for _, field := range []string{"creationTime", "error"} {
		if value := statusOf(content)[field]; value != nil {
			next[field] = value
		}
	}
	if statusPatch(before, next) == nil {
		return settled
	}
	written, err := r.patchObject(ctx, r.groups, group, "status", func(current *unstructured.Unstructured) map[string]any {
		return statusPatch(statusOf(current), next)
	})
	if err != nil {
		return waiting
	}
	if before["creationTime"] == nil && next["creationTime"] != nil {
		r.event(ctx, written, snapshotComponent, normalEvent, "GroupSnapshotCreated", "GroupSnapshot "+objectKey(group)+" was successfully created by the CSI driver.")
	}
	if before["readyToUse"] != true && isReady(written) {
		r.event(ctx, written, snapshotComponent, normalEvent, "GroupSnapshotReady", "GroupSnapshot "+objectKey(group)+" is ready to use.")
	}
	return stepped
}

func (r *controllerRun) failGroup(ctx context.Context, group *unstructured.Unstructured, reason, text string) verdict {
	if specString(group, "status", "error", "message") == text {
		return waiting
	}
	written, err := r.patchObject(ctx, r.groups, group, "status", func(*unstructured.Unstructured) map[string]any {
		return map[string]any{"status": map[string]any{"readyToUse": false, "error": map[string]any{"message": text, "time": rfc3339(r.now())}}}
	})
	if err == nil {
		r.event(ctx, written, snapshotComponent, warningEvent, reason, text)
	}
	return waiting
}

// removeGroup does the next step of a group that is being deleted: mark and delete its content, delete its members, and let it go.
func (r *controllerRun) removeGroup(ctx context.Context, group, content *unstructured.Unstructured) verdict {
	if !hasFinalizer(group, groupBoundFinalizer) {
		return settled
	}
	deletes := content != nil && policyOf(content) == policyDelete
	if content != nil {
		_, err := r.patchObject(ctx, r.groupContents, content, "", func(current *unstructured.Unstructured) map[string]any {
			if hasAnnotation(current, groupDeletedAnnotation) {
				return nil
			}
			return annotationPatch(groupDeletedAnnotation, "yes")
		})
		if err != nil {
			return waiting
		}
	}
	if deletes && !isDeleting(content) {
		err := r.client.Resource(groupContentsResource).Delete(ctx, content.GetName(), metav1.DeleteOptions{})
		if notFoundIsFine(err) != nil {
			return waiting
		}
	}
	for _, vs := range r.snapshots.all() {
		if vs.GetNamespace() == group.GetNamespace() && groupOf(vs) == group.GetName() && !isDeleting(vs) {
			err := r.snapshots.in(vs.GetNamespace()).Delete(ctx, vs.GetName(), metav1.DeleteOptions{})
			if notFoundIsFine(err) != nil {
				return waiting
			}
		}
	}
	if deletes {
		return settled // the content's end brings the next look
	}
	_, err := r.patchObject(ctx, r.groups, group, "", func(current *unstructured.Unstructured) map[string]any {
		return finalizersPatch(slices.DeleteFunc(current.GetFinalizers(), func(f string) bool { return f == groupBoundFinalizer }))
	})
	if err != nil {
		return waiting
	}
	return settled
}
