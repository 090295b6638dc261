package backuptest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// What the sidecar's writes cost in requests: four for a snapshot, two for a poll that finds nothing new.
const (
	costAnnotation    = 1
	costContentStatus = 2
)

// contentSource is where a content's snapshot comes from.
type contentSource struct {
	claim  types.NamespacedName
	driver string // of the volume; empty if unknown
}

// syncContent is the sidecar's look at a content.
func (r *controllerRun) syncContent(ctx context.Context, name string) verdict {
	content := r.contents.get(name)
	if content == nil || !r.driver.Serves(specString(content, "spec", "driver")) || specString(content, "spec", "source", "volumeHandle")+staticHandle(content) == "" {
		return settled
	}
	if r.isMuted(content) || r.isTrapped(content) {
		return settled
	}
	if r.looksAgain(content) {
		r.contentQueue.cool(name) // told of a change that the look before has seen already
	}
	source, known := r.sourceOf(ctx, content)
	if !known {
		return waiting
	}
	script := r.scriptOf(source.claim)
	if script.Silent || source.driver != "" && source.driver != specString(content, "spec", "driver") {
		return settled
	}
	member := hasAnnotation(content, groupHandleAnnotation)
	switch {
	case mayRemove(content):
		return r.removeContent(ctx, content, script)
	case member && !isReady(content) && (statusOf(content) == nil || r.contentQueue.early(name)):
		return waiting // its group says what it is
	case member && !isReady(content):
		return r.lookUp(ctx, content)
	case isReady(content):
		_, err := r.patchObject(ctx, r.contents, content, "", beingCreated(false))
		if err != nil {
			return waiting
		}
		return settled
	case r.contentQueue.early(name):
		return waiting
	case staticHandle(content) != "":
		return r.lookUp(ctx, content)
	}
	return r.askDriver(ctx, content, source.claim, script)
}

// askDriver calls CreateSnapshot, for the first time or again to learn how the snapshot does, and writes the answer.
func (r *controllerRun) askDriver(ctx context.Context, content *unstructured.Unstructured, claim types.NamespacedName, script Script) verdict {
	first := statusOf(content) == nil
	if r.contentRate.spend(ctx, costAnnotation) != nil {
		return waiting
	}
	content, err := r.patchObject(ctx, r.contents, content, "", beingCreated(true))
	if err != nil {
		return waiting
	}
	taken, err := r.callDriver(ctx, content, claim, script)
	if err != nil {
		if ctx.Err() != nil {
			return waiting
		}
		r.writeDriverError(ctx, content, script, first, err)
		return waiting
	}
	if statusPatch(statusOf(content), cutStatus(statusOf(content), taken)) != nil && r.contentRate.spend(ctx, costContentStatus) != nil {
		return waiting
	}
	content, err = r.patchObject(ctx, r.contents, content, "status", func(current *unstructured.Unstructured) map[string]any {
		return statusPatch(statusOf(current), cutStatus(statusOf(current), taken))
	})
	if err != nil || r.contentRate.spend(ctx, costAnnotation) != nil {
		return waiting
	}
	content, err = r.patchObject(ctx, r.contents, content, "", beingCreated(false))
	switch {
	case err != nil:
		return waiting
	case isReady(content) && isDeleting(content) && !script.SeesDeletion:
		r.setTrap(content)
		return settled
	case isReady(content) || isDeleting(content):
		return stepped
	default:
		return waiting
	}
}

func (r *controllerRun) callDriver(ctx context.Context, content *unstructured.Unstructured, claim types.NamespacedName, script Script) (StoredSnapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.CallTimeout, &DriverError{Code: "DeadlineExceeded", Text: "context deadline exceeded"})
	defer cancel()
	return r.driver.CreateSnapshot(ctx, CreateRequest{
		Name: physicalName(content), VolumeHandle: specString(content, "spec", "source", "volumeHandle"), Claim: claim,
		Driver: specString(content, "spec", "driver"), Script: script,
	})
}

// physicalName is the name in the CreateSnapshot call, the same for all calls for a snapshot.
func physicalName(content *unstructured.Unstructured) string {
	// A bare fake client gives no UID.
	return "snapshot-" + orString(specString(content, "spec", "volumeSnapshotRef", "uid"), content.GetName())
}

// writeDriverError writes the text of the driver's error, unless it stands there. After an error that leaves open whether the
// snapshot is being made, the annotation stays.
func (r *controllerRun) writeDriverError(ctx context.Context, content *unstructured.Unstructured, script Script, first bool, failure error) {
	answer, ok := errors.AsType[*DriverError](failure)
	if !ok {
		answer = &DriverError{Text: failure.Error()}
	}
	if answer.final() {
		if r.contentRate.spend(ctx, costAnnotation) != nil {
			return
		}
		var err error
		if content, err = r.patchObject(ctx, r.contents, content, "", beingCreated(false)); err != nil {
			return
		}
	}
	reason, doing := "SnapshotContentCheckandUpdateFailed", "Failed to check and update snapshot content"
	if first {
		reason, doing = "SnapshotCreationFailed", "Failed to create snapshot"
	}
	text := fmt.Sprintf("%s: failed to take snapshot of the volume %s: %q", doing, specString(content, "spec", "source", "volumeHandle"), answer)
	if script.ErrorsOn == ErrorsOnSnapshot {
		r.hideError(content, text)
		text = ""
	}
	r.writeContentError(ctx, content, reason, text)
}

// writeContentError says on a content that it is not ready and why, unless that stands there.
func (r *controllerRun) writeContentError(ctx context.Context, content *unstructured.Unstructured, reason, text string) {
	if statusOf(content) != nil && specString(content, "status", "error", "message") == text || r.contentRate.spend(ctx, costContentStatus) != nil {
		return
	}
	status := map[string]any{"readyToUse": false}
	if text != "" {
		status["error"] = map[string]any{"message": text, "time": rfc3339(r.now())}
	}
	written, err := r.patchObject(ctx, r.contents, content, "status", func(*unstructured.Unstructured) map[string]any {
		return map[string]any{"status": status}
	})
	if err == nil && text != "" {
		r.event(ctx, written, csiSnapshotterPrefx+specString(content, "spec", "driver"), warningEvent, reason, text)
	}
}

// sourceOf finds the claim and the driver of a content's volume, which only the snapshot names, and
// the storage once it has been asked. Known is false if ctx ended before that was found out.
func (r *controllerRun) sourceOf(ctx context.Context, content *unstructured.Unstructured) (source contentSource, known bool) {
	r.memo.Lock()
	source, known = r.sources[content.GetName()]
	r.memo.Unlock()
	if known {
		return source, true
	}
	if handle := staticHandle(content); handle != "" {
		stored, _ := r.driver.Snapshot(handle)
		return contentSource{claim: stored.Claim}, true
	}
	vs := r.snapshots.get(snapshotKeyOf(content))
	if vs == nil || !refersTo(content, vs) {
		return contentSource{claim: r.driver.claimOf(physicalName(content))}, true
	}
	source.claim = sourceClaim(vs)
	pv, err := r.volumeOf(ctx, vs)
	if err != nil {
		return source, ctx.Err() == nil
	}
	source.driver = specString(pv, "spec", "csi", "driver")
	r.setSource(content.GetName(), source)
	return source, true
}

func (r *controllerRun) setSource(content string, source contentSource) {
	r.memo.Lock()
	defer r.memo.Unlock()
	r.sources[content] = source
}

func (r *controllerRun) scriptOf(claim types.NamespacedName) Script {
	r.mu.Lock()
	defer r.mu.Unlock()
	return scriptFor(r.scripts, claim)
}

// beingCreated sets or removes the annotation that says that a CreateSnapshot call has not been answered.
func beingCreated(running bool) func(*unstructured.Unstructured) map[string]any {
	return func(current *unstructured.Unstructured) map[string]any {
		switch {
		case hasAnnotation(current, beingCreatedAnnotation) == running:
			return nil
		case running:
			return annotationPatch(beingCreatedAnnotation, "yes")
		default:
			return annotationPatch(beingCreatedAnnotation, nil)
		}
	}
}

// final reports whether the call is certainly over: after the other codes the storage may still be making the snapshot.
func (e *DriverError) final() bool {
	return !slices.Contains([]string{"Canceled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted"}, e.Code)
}
