package backuptest

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// removeSnapshot does the next step of a snapshot that is being deleted: mark the content, delete it if its policy says so, and
// take the finalizers off. One that was deleted before it got its bound finalizer goes at once, and its content after it.
func (r *controllerRun) removeSnapshot(ctx context.Context, vs *unstructured.Unstructured) verdict {
	if !hasFinalizer(vs, sourceFinalizer) && !hasFinalizer(vs, boundFinalizer) {
		return settled
	}
	if r.holdsMember(ctx, vs) {
		return waiting
	}
	content := r.contentOf(vs)
	deletes := content != nil && policyOf(content) == policyDelete
	if content != nil && r.claims.isRestoring(ctx, vs) {
		if r.snapshotQueue.early(objectKey(vs)) {
			return waiting
		}
		r.event(ctx, vs, snapshotComponent, warningEvent, "SnapshotDeletePending", "Snapshot is being used to restore a PVC")
		return waiting
	}
	if content != nil && !r.markContent(ctx, content) {
		return waiting
	}
	if deletes && !isDeleting(content) && !r.deleteContent(ctx, vs, content) {
		return waiting
	}
	kept := slices.DeleteFunc(slices.Clone(vs.GetFinalizers()), func(f string) bool {
		return f == sourceFinalizer || f == inGroupFinalizer || f == boundFinalizer && !deletes
	})
	if len(kept) == len(vs.GetFinalizers()) {
		return settled
	}
	if _, err := r.releaseClaim(ctx, vs, true); err != nil || r.snapshotRate.spend(ctx, costFinalizer) != nil {
		return waiting
	}
	// The bound finalizer stays until the content is gone, whose end brings the next look.
	_, err := r.patchObject(ctx, r.snapshots, vs, "", func(current *unstructured.Unstructured) map[string]any {
		return finalizersPatch(slices.DeleteFunc(current.GetFinalizers(), func(f string) bool { return !slices.Contains(kept, f) && owned(f) }))
	})
	return afterStep(err)
}

// waitsToDelete reports whether the storage refused to delete and the backoff runs. The first time it forgets the backoff of the polls
// before, so that the deletion starts at once.
func (r *controllerRun) waitsToDelete(content *unstructured.Unstructured) bool {
	name := content.GetName()
	r.memo.Lock()
	tried := r.removing[name]
	r.removing[name] = true
	r.memo.Unlock()
	if tried {
		return r.contentQueue.early(name)
	}
	r.contentQueue.forget(name)
	return false
}

func owned(finalizer string) bool {
	return finalizer == sourceFinalizer || finalizer == boundFinalizer || finalizer == inGroupFinalizer
}

// markContent tells the sidecar that the content may go, and reports whether that is written.
func (r *controllerRun) markContent(ctx context.Context, content *unstructured.Unstructured) bool {
	if hasAnnotation(content, beingDeletedAnnotation) {
		return true
	}
	if r.snapshotRate.spend(ctx, costFinalizer) != nil {
		return false
	}
	_, err := r.patchObject(ctx, r.contents, content, "", func(current *unstructured.Unstructured) map[string]any {
		if hasAnnotation(current, beingDeletedAnnotation) {
			return nil
		}
		return annotationPatch(beingDeletedAnnotation, "yes")
	})
	return err == nil
}

// deleteContent gives the content its deletionTimestamp, and reports whether it has it or is gone.
func (r *controllerRun) deleteContent(ctx context.Context, vs, content *unstructured.Unstructured) bool {
	if r.snapshotRate.spend(ctx, costFinalizer) != nil {
		return false
	}
	opts := metav1.DeleteOptions{}
	if uid := content.GetUID(); uid != "" {
		opts.Preconditions = &metav1.Preconditions{UID: new(uid)}
	}
	err := r.client.Resource(contentsResource).Delete(ctx, content.GetName(), opts)
	if err != nil && !apierrors.IsNotFound(err) {
		r.event(ctx, vs, snapshotComponent, warningEvent, "SnapshotContentObjectDeleteError", "Failed to delete snapshot content API object")
		return false
	}
	current, err := r.client.Resource(contentsResource).Get(ctx, content.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		r.contents.see(content, true, false)
	case err != nil:
		return false
	default:
		r.contents.see(current, false, false)
	}
	return true
}

// mayRemove reports whether the sidecar may take a content's snapshot away: it is being deleted through its snapshot, and no
// CreateSnapshot call is open.
func mayRemove(content *unstructured.Unstructured) bool {
	if isDeleting(content) && staticHandle(content) != "" && !isReserved(content) {
		return true // made by hand and never bound
	}
	return isDeleting(content) && hasAnnotation(content, beingDeletedAnnotation) && !hasAnnotation(content, beingCreatedAnnotation)
}

// removeContent deletes the physical snapshot if the policy says so, and lets the content go.
func (r *controllerRun) removeContent(ctx context.Context, content *unstructured.Unstructured, script Script) verdict {
	handle := specString(content, "status", "snapshotHandle")
	if policyOf(content) == policyDelete && handle != "" && specString(content, "status", "volumeGroupSnapshotHandle") == "" {
		if r.waitsToDelete(content) {
			return waiting
		}
		if err := r.driver.DeleteSnapshot(ctx, handle, script); err != nil {
			if ctx.Err() == nil {
				r.event(ctx, content, csiSnapshotterPrefx+specString(content, "spec", "driver"), warningEvent, "SnapshotDeleteError", "Failed to delete snapshot")
			}
			return waiting
		}
		if r.contentRate.spend(ctx, costContentStatus) != nil {
			return waiting
		}
		var err error
		content, err = r.patchObject(ctx, r.contents, content, "status", func(current *unstructured.Unstructured) map[string]any {
			return statusPatch(statusOf(current), clearedStatus(statusOf(current)))
		})
		if err != nil {
			return waiting
		}
	}
	if !hasFinalizer(content, contentFinalizer) {
		return settled
	}
	if r.contentRate.spend(ctx, costFinalizer) != nil {
		return waiting
	}
	_, err := r.patchObject(ctx, r.contents, content, "", func(current *unstructured.Unstructured) map[string]any {
		return finalizersPatch(slices.DeleteFunc(current.GetFinalizers(), func(f string) bool { return f == contentFinalizer }))
	})
	if err != nil {
		return waiting
	}
	return settled
}
