package backuptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// member is one snapshot of a group, as the group's content lists it.
type member struct {
	volume, handle, cut string
	size                int64
	ready               bool
}

// membersOf reads the list from the status of a group's content.
func membersOf(content *unstructured.Unstructured) []member {
	list, _, _ := unstructured.NestedSlice(content.Object, "status", "volumeSnapshotInfoList")
	var members []member
	for _, item := range list {
		fields, _ := item.(map[string]any)
		m := member{}
		m.volume, _ = fields["volumeHandle"].(string)
		m.handle, _ = fields["snapshotHandle"].(string)
		m.ready, _ = fields["readyToUse"].(bool)
		m.size, _ = fields["restoreSize"].(int64)
		nanos, _ := fields["creationTime"].(int64)
		m.cut = fmt.Sprint(nanos)
		members = append(members, m)
	}
	return members
}

// status is that of the member's content.
func (m member) status(group string) map[string]any {
	status := map[string]any{"snapshotHandle": m.handle, "volumeGroupSnapshotHandle": group, "readyToUse": m.ready, "restoreSize": m.size}
	var nanos int64
	if _, err := fmt.Sscan(m.cut, &nanos); err == nil {
		status["creationTime"] = nanos
	}
	return status
}

// syncGroupContent is the sidecar's look at a group's content.
func (r *controllerRun) syncGroupContent(ctx context.Context, name string) verdict {
	content := r.groupContents.get(name)
	if content == nil || !r.driver.Serves(specString(content, "spec", "driver")) {
		return settled
	}
	switch {
	case isDeleting(content):
		if !hasAnnotation(content, groupDeletedAnnotation) || hasAnnotation(content, groupCreatedAnnotation) {
			return settled
		}
		return r.removeGroupContent(ctx, content)
	case !hasFinalizer(content, groupContentFinalizer):
		_, err := r.patchObject(ctx, r.groupContents, content, "", addFinalizer(groupContentFinalizer))
		return afterStep(err)
	case isReady(content):
		return settled
	case r.groupContentQueue.early(name):
		return waiting
	}
	return r.takeGroup(ctx, content)
}

// takeGroup has all members cut, and writes what came of it.
func (r *controllerRun) takeGroup(ctx context.Context, content *unstructured.Unstructured) verdict {
	first := statusOf(content) == nil
	content, err := r.markGroupCreated(ctx, content, true)
	if err != nil {
		return waiting
	}
	taken, failure := r.cutMembers(ctx, content)
	if ctx.Err() != nil {
		return waiting
	}
	if failure != nil {
		r.writeGroupError(ctx, content, first, failure)
		return waiting
	}
	ready := !slices.ContainsFunc(taken, func(s StoredSnapshot) bool { return !s.ReadyToUse })
	content, err = r.patchObject(ctx, r.groupContents, content, "status", func(current *unstructured.Unstructured) map[string]any {
		next := statusOf(current)
		if next == nil {
			next = map[string]any{}
		}
		if next["volumeGroupSnapshotHandle"] == nil {
			next["volumeGroupSnapshotHandle"] = "group-" + specString(content, "spec", "volumeGroupSnapshotRef", "uid")
			next["creationTime"] = rfc3339(taken[0].CutAt)
			next["volumeSnapshotInfoList"] = infoList(taken)
		}
		next["readyToUse"] = ready
		if ready {
			delete(next, "error")
		}
		return statusPatch(statusOf(current), next)
	})
	if err == nil {
		_, err = r.markGroupCreated(ctx, content, false)
	}
	if err != nil || !ready {
		return waiting
	}
	return settled
}

func infoList(taken []StoredSnapshot) []any {
	var list []any
	for _, s := range taken {
		list = append(list, map[string]any{
			"volumeHandle": s.VolumeHandle, "snapshotHandle": s.Handle, "readyToUse": s.ReadyToUse, "restoreSize": s.Size, "creationTime": s.CutAt.UnixNano(),
		})
	}
	return list
}

// cutMembers takes the snapshots of all volumes of a group.
func (r *controllerRun) cutMembers(ctx context.Context, content *unstructured.Unstructured) ([]StoredSnapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.CallTimeout, &DriverError{Code: "DeadlineExceeded", Text: "context deadline exceeded"})
	defer cancel()
	handles, _, _ := unstructured.NestedStringSlice(content.Object, "spec", "source", "volumeHandles")
	var taken []StoredSnapshot
	for _, handle := range handles {
		claim := r.claimWithHandle(ctx, handle)
		stored, err := r.driver.CreateSnapshot(ctx, CreateRequest{
			Name: "groupsnapshot-" + specString(content, "spec", "volumeGroupSnapshotRef", "uid") + "-" + handle, VolumeHandle: handle, Claim: claim,
			Driver: specString(content, "spec", "driver"), Script: r.scriptOf(claim),
		})
		if err != nil {
			return nil, fmt.Errorf("failed to take group snapshot of the volumes [%s]: %w", strings.Join(handles, " "), err)
		}
		taken = append(taken, stored)
	}
	return taken, nil
}

func (r *controllerRun) writeGroupError(ctx context.Context, content *unstructured.Unstructured, first bool, failure error) {
	answer, ok := errors.AsType[*DriverError](failure)
	if !ok {
		answer = &DriverError{Text: failure.Error()}
	}
	if answer.final() {
		var err error
		if content, err = r.markGroupCreated(ctx, content, false); err != nil {
			return
		}
	}
	reason, doing := "GroupSnapshotContentCheckandUpdateFailed", "Failed to check and update group snapshot content"
	if first {
		reason, doing = "GroupSnapshotCreationFailed", "Failed to create group snapshot"
	}
	handles, _, _ := unstructured.NestedStringSlice(content.Object, "spec", "source", "volumeHandles")
	text := fmt.Sprintf("%s: failed to take group snapshot of the volumes %s: %q", doing, handles, answer)
	if specString(content, "status", "error", "message") == text {
		return
	}
	written, err := r.patchObject(ctx, r.groupContents, content, "status", func(*unstructured.Unstructured) map[string]any {
		return map[string]any{"status": map[string]any{"readyToUse": false, "error": map[string]any{"message": text, "time": rfc3339(r.now())}}}
	})
	if err == nil {
		r.event(ctx, written, csiSnapshotterPrefx+specString(content, "spec", "driver"), warningEvent, reason, text)
	}
}

func (r *controllerRun) markGroupCreated(ctx context.Context, content *unstructured.Unstructured, on bool) (*unstructured.Unstructured, error) {
	return r.patchObject(ctx, r.groupContents, content, "", func(current *unstructured.Unstructured) map[string]any {
		switch {
		case hasAnnotation(current, groupCreatedAnnotation) == on:
			return nil
		case on:
			return annotationPatch(groupCreatedAnnotation, "yes")
		default:
			return annotationPatch(groupCreatedAnnotation, nil)
		}
	})
}

// removeGroupContent deletes the physical snapshots if the policy says so, and lets the content go.
func (r *controllerRun) removeGroupContent(ctx context.Context, content *unstructured.Unstructured) verdict {
	if policyOf(content) == policyDelete && specString(content, "status", "volumeGroupSnapshotHandle") != "" {
		if r.groupContentQueue.early(content.GetName()) {
			return waiting
		}
		for _, m := range membersOf(content) {
			if err := r.driver.DeleteSnapshot(ctx, m.handle, r.scriptOf(r.claimWithHandle(ctx, m.volume))); err != nil {
				if ctx.Err() == nil {
					r.event(ctx, content, csiSnapshotterPrefx+specString(content, "spec", "driver"), warningEvent, "GroupSnapshotDeleteError", "Failed to delete group snapshot")
				}
				return waiting
			}
		}
		var err error
		content, err = r.patchObject(ctx, r.groupContents, content, "status", func(current *unstructured.Unstructured) map[string]any {
			next := statusOf(current)
			for _, field := range []string{"volumeGroupSnapshotHandle", "readyToUse", "creationTime", "error"} {
				delete(next, field)
			}
			return statusPatch(statusOf(current), next)
		})
		if err != nil {
			return waiting
		}
	}
	_, err := r.patchObject(ctx, r.groupContents, content, "", func(current *unstructured.Unstructured) map[string]any {
		return finalizersPatch(slices.DeleteFunc(current.GetFinalizers(), func(f string) bool { return f == groupContentFinalizer }))
	})
	if err != nil {
		return waiting
	}
	return settled
}

// claimWithHandle is the claim of the volume with that handle; zero if there is none.
func (r *controllerRun) claimWithHandle(ctx context.Context, handle string) types.NamespacedName {
	list, err := r.client.Resource(volumesResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return types.NamespacedName{}
	}
	for i := range list.Items {
		if pv := &list.Items[i]; specString(pv, "spec", "csi", "volumeHandle") == handle {
			return types.NamespacedName{Namespace: specString(pv, "spec", "claimRef", "namespace"), Name: specString(pv, "spec", "claimRef", "name")}
		}
	}
	return types.NamespacedName{}
}

// syncMember does the next step of a snapshot that belongs to a group, whose content the group made.
func (r *controllerRun) syncMember(ctx context.Context, vs *unstructured.Unstructured) verdict {
	if !hasFinalizer(vs, sourceFinalizer) {
		_, err := r.patchObject(ctx, r.snapshots, vs, "", addFinalizer(sourceFinalizer))
		return afterStep(err)
	}
	content := r.contents.get(boundContentName(vs))
	if content == nil {
		return waiting
	}
	handle := specString(content, "status", "volumeGroupSnapshotHandle")
	next := snapshotStatus(statusOf(vs), content)
	if handle != "" {
		next["volumeGroupSnapshotName"] = groupOf(vs)
	}
	if statusPatch(statusOf(vs), next) == nil {
		return settled
	}
	before := statusOf(vs)
	written, err := r.patchObject(ctx, r.snapshots, vs, "status", func(current *unstructured.Unstructured) map[string]any {
		return statusPatch(statusOf(current), next)
	})
	if err != nil {
		return waiting
	}
	r.tellProgress(ctx, written, before)
	return stepped
}

// holdsMember reports whether the group of a member that is being deleted is still there.
func (r *controllerRun) holdsMember(ctx context.Context, vs *unstructured.Unstructured) bool {
	name := specString(vs, "status", "volumeGroupSnapshotName")
	if name == "" || r.groups == nil || r.groups.get(vs.GetNamespace()+"/"+name) == nil {
		return false
	}
	if !r.snapshotQueue.early(objectKey(vs)) {
		text := fmt.Sprintf("deletion of the individual volume snapshot %s is not allowed as it belongs to group snapshot %s/%s. "+
			"Deleting the group snapshot will trigger the deletion of all the individual volume snapshots that are part of the group.",
			objectKey(vs), vs.GetNamespace(), name)
		r.event(ctx, vs, snapshotComponent, warningEvent, "SnapshotDeletePending", text)
	}
	return true
}
