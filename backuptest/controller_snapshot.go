package backuptest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What the steps of the snapshot-controller cost in requests on snapshots and contents. Together they are the nine that were
// counted on a real one for a snapshot of an instant driver; a content's finalizer counts with its creation.
const (
	costFinalizer = 1
	costContent   = 3
	costStatus    = 2
)

// snapshotChanged is told of each change of a snapshot.
func (r *controllerRun) snapshotChanged(key string, before, vs *unstructured.Unstructured, gone bool) {
	r.noteSnapshot(vs, gone)
	if before == nil && !gone {
		r.expectIncidents(key, vs)
	}
	r.snapshotQueue.add(key)
}

func (r *controllerRun) noteSnapshot(vs *unstructured.Unstructured, gone bool) {
	r.memo.Lock()
	defer r.memo.Unlock()
	if gone {
		delete(r.fresh, memoKey(vs))
		delete(r.released, memoKey(vs))
		delete(r.muted, memoKey(vs))
		delete(r.readySince, memoKey(vs))
	}
	claim := sourceClaim(vs)
	switch users := r.unready[claim]; {
	case gone || isReady(vs):
		delete(users, memoKey(vs))
		if len(users) == 0 {
			delete(r.unready, claim)
		}
	case users == nil:
		r.unready[claim] = map[string]bool{memoKey(vs): true}
	default:
		users[memoKey(vs)] = true
	}
}

// contentChanged is told of each change of a content.
func (r *controllerRun) contentChanged(key string, before, content *unstructured.Unstructured, gone bool) {
	if gone {
		r.memo.Lock()
		delete(r.sources, key)
		delete(r.removing, key)
		delete(r.trapped, key)
		delete(r.looked, key)
		delete(r.hidden, key)
		delete(r.muted, memoKey(content))
		r.memo.Unlock()
	} else {
		r.snapshotQueue.add(contentKeyPrefix + key)
	}
	if before == nil || gone || sidecarMinds(before) != sidecarMinds(content) {
		r.contentQueue.rush(key) // as the real one, which looks at once whatever its backoff
	} else {
		r.contentQueue.add(key)
	}
	r.snapshotQueue.add(snapshotKeyOf(content))
}

func (r *controllerRun) syncSnapshotKey(ctx context.Context, key string) verdict {
	if name, isContent := strings.CutPrefix(key, contentKeyPrefix); isContent {
		return r.protectContent(ctx, name)
	}
	vs := r.snapshots.get(key)
	if vs == nil {
		return settled
	}
	if isDeleting(vs) {
		return r.removeSnapshot(ctx, vs)
	}
	if r.isMuted(vs) {
		return settled // leaveAlone brings the next look
	}
	if groupOf(vs) != "" {
		return r.syncMember(ctx, vs)
	}
	return r.syncSnapshot(ctx, key, vs)
}

// protectContent adds the content's finalizer.
func (r *controllerRun) protectContent(ctx context.Context, name string) verdict {
	content := r.contents.get(name)
	if content == nil || isDeleting(content) || hasFinalizer(content, contentFinalizer) || !isReserved(content) {
		return settled
	}
	_, err := r.patchObject(ctx, r.contents, content, "", addFinalizer(contentFinalizer))
	return afterStep(err)
}

// syncSnapshot does the next step of a snapshot.
func (r *controllerRun) syncSnapshot(ctx context.Context, key string, vs *unstructured.Unstructured) verdict {
	content := r.contentOf(vs)
	switch {
	case !hasFinalizer(vs, sourceFinalizer):
		if r.snapshotQueue.early(key) {
			return waiting
		}
		return r.pickUp(ctx, vs)
	case content == nil && isReady(vs) && r.contents.get(boundContentName(vs)) != nil:
		return r.failSnapshot(ctx, vs, true, "SnapshotMisbound", "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly")
	case content == nil && isReady(vs) && boundContentName(vs) != "":
		return r.failSnapshot(ctx, vs, true, "SnapshotContentMissing", "VolumeSnapshotContent is missing")
	case content == nil && sourceContent(vs) != "":
		if r.snapshotQueue.early(key) {
			return waiting
		}
		return r.bindStatic(ctx, vs)
	case content == nil:
		if r.snapshotQueue.early(key) {
			return waiting
		}
		return r.makeContent(ctx, vs)
	case boundContentName(vs) == "":
		return r.writeStatus(ctx, vs, content)
	case isReady(content) && !isReady(vs), hasFinalizer(vs, boundFinalizer), policyOf(content) != policyDelete, r.finalizerIsLate(key, vs):
		// The finalizer comes after a ready status that can be written already: at the real rate this is seen.
		return r.writeStatus(ctx, vs, content)
	default:
		if err := r.snapshotRate.spend(ctx, costFinalizer); err != nil {
			return waiting
		}
		_, err := r.patchObject(ctx, r.snapshots, vs, "", addFinalizer(boundFinalizer))
		return afterStep(err)
	}
}

// pickUp checks the class and adds the first finalizer.
func (r *controllerRun) pickUp(ctx context.Context, vs *unstructured.Unstructured) verdict {
	class := specString(vs, "spec", "volumeSnapshotClassName")
	if class == "" && sourceContent(vs) == "" {
		return r.setDefaultClass(ctx, vs)
	}
	if class != "" {
		if _, err := r.classOf(ctx, vs); err != nil {
			if ctx.Err() != nil || errors.Is(err, errTrouble) {
				return waiting
			}
			return r.failSnapshot(ctx, vs, false, "GetSnapshotClassFailed", fmt.Sprintf("Failed to get snapshot class with error %v", err))
		}
	}
	if reason, text := r.wrongStatic(vs); reason != "" {
		return r.failSnapshot(ctx, vs, true, reason, text)
	}
	if err := r.snapshotRate.spend(ctx, costFinalizer); err != nil {
		return waiting
	}
	_, err := r.patchObject(ctx, r.snapshots, vs, "", addFinalizer(sourceFinalizer))
	return afterStep(err)
}

// writeStatus brings the status of a snapshot up to that of its content.
func (r *controllerRun) writeStatus(ctx context.Context, vs, content *unstructured.Unstructured) verdict {
	fresh := r.isFresh(vs)
	if fresh {
		// The real controller writes this with the content as it was created, before any answer of the driver.
		content = content.DeepCopy()
		delete(content.Object, "status")
	}
	if r.scriptOf(r.claimOfSnapshot(vs)).ErrorsOn == ErrorsOnContent {
		content = withError(content, nil)
	} else if failure := r.hiddenError(content); failure != nil {
		content = withError(content, failure)
	}
	want := snapshotStatus(statusOf(vs), content)
	if statusPatch(statusOf(vs), want) == nil {
		if fresh {
			r.setFresh(vs, false)
			return stepped
		}
		if isReady(vs) && !r.releaseClaimOnce(ctx, vs) {
			return waiting
		}
		if hasFinalizer(vs, boundFinalizer) || policyOf(content) != policyDelete || r.finalizerIsLate(objectKey(vs), vs) {
			return settled
		}
		return stepped
	}
	if err := r.snapshotRate.spend(ctx, costStatus); err != nil {
		return waiting
	}
	before := statusOf(vs)
	written, err := r.patchObject(ctx, r.snapshots, vs, "status", func(current *unstructured.Unstructured) map[string]any {
		return statusPatch(statusOf(current), snapshotStatus(statusOf(current), content))
	})
	if err != nil {
		return afterStep(err)
	}
	r.setFresh(vs, false)
	r.tellProgress(ctx, written, before)
	return stepped
}

func (r *controllerRun) tellProgress(ctx context.Context, vs *unstructured.Unstructured, before map[string]any) {
	if before["creationTime"] == nil && statusOf(vs)["creationTime"] != nil {
		r.event(ctx, vs, snapshotComponent, normalEvent, "SnapshotCreated", "Snapshot "+objectKey(vs)+" was successfully created by the CSI driver.")
	}
	if before["readyToUse"] != true && isReady(vs) {
		r.event(ctx, vs, snapshotComponent, normalEvent, "SnapshotReady", "Snapshot "+objectKey(vs)+" is ready to use.")
	}
}

// failSnapshot writes an error on a snapshot, with its event, unless the same text stands there, and has it tried again later.
func (r *controllerRun) failSnapshot(ctx context.Context, vs *unstructured.Unstructured, notReady bool, reason, text string) verdict {
	if specString(vs, "status", "error", "message") == text {
		return waiting
	}
	if err := r.snapshotRate.spend(ctx, costStatus); err != nil {
		return waiting
	}
	failure := map[string]any{"message": text, "time": rfc3339(r.now())}
	written, err := r.patchObject(ctx, r.snapshots, vs, "status", func(*unstructured.Unstructured) map[string]any {
		status := map[string]any{"error": failure}
		if notReady {
			status["readyToUse"] = false
		}
		return map[string]any{"status": status}
	})
	if err == nil {
		r.event(ctx, written, snapshotComponent, warningEvent, reason, text)
	}
	return waiting
}

func (r *controllerRun) contentOf(vs *unstructured.Unstructured) *unstructured.Unstructured {
	name := orString(boundContentName(vs), sourceContent(vs))
	if name == "" {
		name = contentNameFor(vs.GetNamespace(), vs.GetName(), vs.GetUID())
	}
	content := r.contents.get(name)
	if content == nil || !refersTo(content, vs) {
		return nil
	}
	return content
}

func (r *controllerRun) isFresh(vs *unstructured.Unstructured) bool {
	r.memo.Lock()
	defer r.memo.Unlock()
	return r.fresh[memoKey(vs)]
}

func (r *controllerRun) setFresh(vs *unstructured.Unstructured, fresh bool) {
	r.memo.Lock()
	defer r.memo.Unlock()
	if fresh {
		r.fresh[memoKey(vs)] = true
	} else {
		delete(r.fresh, memoKey(vs))
	}
}

func memoKey(vs *unstructured.Unstructured) string { return objectKey(vs) + "/" + string(vs.GetUID()) }

func policyOf(content *unstructured.Unstructured) string {
	return specString(content, "spec", "deletionPolicy")
}

func addFinalizer(finalizer string) func(*unstructured.Unstructured) map[string]any {
	return func(current *unstructured.Unstructured) map[string]any {
		if hasFinalizer(current, finalizer) || isDeleting(current) {
			return nil
		}
		return finalizersPatch(append(current.GetFinalizers(), finalizer))
	}
}

// afterStep looks again at once after a step, and after the backoff when the API server did not take it.
func afterStep(err error) verdict {
	if err == nil {
		return stepped
	}
	return waiting
}
