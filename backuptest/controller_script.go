package backuptest

import (
	"encoding/json"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sidecarResync is how often the real sidecar looks at all contents, changed or not.
const sidecarResync = 15 * time.Minute

// trap is what a sidecar knew of a content when it missed its deletion.
type trap struct {
	seen  string
	until time.Time
}

// setTrap has the sidecar not look at a content before someone changes it or the resync comes. The real one gets there because it
// ignores its own last change, and takes the object in its cache for an old one.
func (r *controllerRun) setTrap(content *unstructured.Unstructured) {
	since := time.Since(r.started)
	until := r.started.Add(since.Truncate(sidecarResync) + sidecarResync)
	r.memo.Lock()
	r.trapped[content.GetName()] = trap{seen: sidecarMinds(content), until: until}
	r.memo.Unlock()
	r.contentQueue.addAt(content.GetName(), until)
}

func (r *controllerRun) isTrapped(content *unstructured.Unstructured) bool {
	r.memo.Lock()
	t, found := r.trapped[content.GetName()]
	r.memo.Unlock()
	return found && time.Now().Before(t.until) && t.seen == sidecarMinds(content)
}

// looksAgain reports whether the sidecar has looked at the content as it is.
func (r *controllerRun) looksAgain(content *unstructured.Unstructured) bool {
	now := sidecarMinds(content)
	r.memo.Lock()
	defer r.memo.Unlock()
	before, found := r.looked[content.GetName()]
	r.looked[content.GetName()] = now
	return found && before == now
}

// sidecarMinds is what of a content, also of a group's, the sidecar minds when it changes: all but its own writes.
func sidecarMinds(content *unstructured.Unstructured) string {
	object := maps.Clone(content.Object)
	delete(object, "status")
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"resourceVersion", "managedFields", "finalizers"} {
		delete(metadata, field)
	}
	annotations := content.GetAnnotations()
	delete(annotations, beingCreatedAnnotation)
	delete(annotations, groupCreatedAnnotation)
	delete(metadata, "annotations")
	if len(annotations) == 0 {
		annotations = nil
	}
	data, err := json.Marshal([]any{object["spec"], metadata, annotations})
	if err != nil {
		return content.GetResourceVersion() // never: it came as JSON
	}
	return string(data)
}

// finalizerIsLate reports whether a snapshot has to do without its bound finalizer for a while.
func (r *controllerRun) finalizerIsLate(key string, vs *unstructured.Unstructured) bool {
	late := r.scriptOf(r.claimOfSnapshot(vs)).LateFinalizer
	if late <= 0 {
		return false
	}
	if !isReady(vs) {
		return true
	}
	now := time.Now()
	r.memo.Lock()
	since, found := r.readySince[memoKey(vs)]
	if !found {
		since = now
		r.readySince[memoKey(vs)] = now
	}
	r.memo.Unlock()
	if !found {
		r.snapshotQueue.addAt(key, now.Add(late))
	}
	return now.Before(since.Add(late))
}

// hideError keeps a driver's error off its content, for the snapshot alone.
func (r *controllerRun) hideError(content *unstructured.Unstructured, text string) {
	name := content.GetName()
	r.memo.Lock()
	if known := r.hidden[name]; known["message"] != text {
		r.hidden[name] = map[string]any{"message": text, "time": rfc3339(r.now())}
	}
	r.memo.Unlock()
	r.snapshotQueue.add(snapshotKeyOf(content))
}

func (r *controllerRun) hiddenError(content *unstructured.Unstructured) map[string]any {
	if isReady(content) {
		return nil
	}
	r.memo.Lock()
	defer r.memo.Unlock()
	return maps.Clone(r.hidden[content.GetName()])
}

func withError(content *unstructured.Unstructured, failure map[string]any) *unstructured.Unstructured {
	status := statusOf(content)
	if status == nil {
		status = map[string]any{}
	}
	if failure == nil {
		delete(status, "error")
	} else {
		status["error"] = failure
	}
	object := maps.Clone(content.Object)
	object["status"] = status
	return &unstructured.Unstructured{Object: object}
}
