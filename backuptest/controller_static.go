package backuptest

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// What the steps of contents made by hand cost in requests.
const (
	costBind   = 1
	costLookUp = 1
)

// wrongStatic says what is wrong with the content that a snapshot asks for. A content that is not there is not wrong: it may come.
func (r *controllerRun) wrongStatic(vs *unstructured.Unstructured) (reason, text string) {
	content := r.contents.get(sourceContent(vs))
	switch {
	case content == nil:
		return "", ""
	case staticHandle(content) == "":
		return "SnapshotContentMismatch", "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one"
	case snapshotKeyOf(content) != objectKey(vs), isReserved(content) && !refersTo(content, vs):
		return "SnapshotContentMisbound", fmt.Sprintf("VolumeSnapshotContent [%s] is bound to a different snapshot", content.GetName())
	default:
		return "", ""
	}
}

// bindStatic writes the UID of a snapshot into the content that it asks for.
func (r *controllerRun) bindStatic(ctx context.Context, vs *unstructured.Unstructured) verdict {
	content := r.contents.get(sourceContent(vs))
	if content == nil {
		return r.failSnapshot(ctx, vs, true, "SnapshotContentMissing", "VolumeSnapshotContent is missing")
	}
	if reason, text := r.wrongStatic(vs); reason != "" {
		return r.failSnapshot(ctx, vs, true, reason, text)
	}
	if r.snapshotRate.spend(ctx, costBind) != nil {
		return waiting
	}
	_, err := r.patchObject(ctx, r.contents, content, "", func(*unstructured.Unstructured) map[string]any {
		spec := map[string]any{"volumeSnapshotRef": map[string]any{"uid": string(vs.GetUID())}}
		if class := specString(vs, "spec", "volumeSnapshotClassName"); class != "" {
			spec["volumeSnapshotClassName"] = class
		}
		return map[string]any{"spec": spec}
	})
	return afterStep(err)
}

// lookUp asks the driver for a content made by hand, as with ListSnapshots.
func (r *controllerRun) lookUp(ctx context.Context, content *unstructured.Unstructured) verdict {
	handle := orString(staticHandle(content), specString(content, "status", "snapshotHandle"))
	taken, found := r.driver.Snapshot(handle)
	if !found {
		failure := fmt.Sprintf("can not find snapshot for snapshotID %s", handle)
		text := fmt.Sprintf("Failed to check and update snapshot content: failed to list snapshot for content %s: %q", content.GetName(), failure)
		r.writeContentError(ctx, content, "SnapshotContentCheckandUpdateFailed", text)
		return waiting
	}
	if r.contentRate.spend(ctx, costLookUp) != nil {
		return waiting
	}
	content, err := r.patchObject(ctx, r.contents, content, "status", func(current *unstructured.Unstructured) map[string]any {
		return statusPatch(statusOf(current), cutStatus(statusOf(current), taken))
	})
	if err != nil || !isReady(content) {
		return waiting
	}
	return settled
}

// claimOfSnapshot is the claim whose script holds for a snapshot.
func (r *controllerRun) claimOfSnapshot(vs *unstructured.Unstructured) (claim types.NamespacedName) {
	if claim = sourceClaim(vs); claim.Name != "" {
		return claim
	}
	if content := r.contents.get(sourceContent(vs)); content != nil {
		stored, _ := r.driver.Snapshot(staticHandle(content))
		return stored.Claim
	}
	return claim
}
