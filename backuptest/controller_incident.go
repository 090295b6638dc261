package backuptest

import (
	"context"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// expectIncidents sets the times of a new snapshot's incidents, once for its name.
func (r *controllerRun) expectIncidents(key string, vs *unstructured.Unstructured) {
	incidents := r.scriptOf(sourceClaim(vs)).Incidents
	for i, incident := range incidents {
		id := key + "#" + strconv.Itoa(i)
		r.mu.Lock()
		known := r.happened[id]
		r.happened[id] = true
		r.mu.Unlock()
		if !known {
			r.incidentQueue.addAt(id, time.Now().Add(incident.After))
		}
	}
}

// haveIncident lets the incident of that key happen.
func (r *controllerRun) haveIncident(ctx context.Context, id string) verdict {
	key, number, _ := strings.Cut(id, "#")
	i, err := strconv.Atoi(number)
	vs := r.snapshots.get(key)
	if err != nil || vs == nil {
		return settled
	}
	script := r.scriptOf(sourceClaim(vs))
	if i >= len(script.Incidents) {
		return settled // the script was replaced
	}
	incident := script.Incidents[i]
	feed, object := r.snapshots, vs
	if incident.Content {
		feed, object = r.contents, r.contentOf(vs)
	}
	if object == nil {
		return settled
	}
	if incident.Kind == IncidentStatusRemoved {
		r.leaveAlone(object, incident.Lasts)
		_, err = r.patchObject(ctx, feed, object, "status", func(*unstructured.Unstructured) map[string]any {
			return map[string]any{"status": nil}
		})
		return afterIncident(err)
	}
	if err := r.takeAway(ctx, feed, object); err != nil || incident.Kind == IncidentVanished {
		return afterIncident(err)
	}
	other := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "spec": object.DeepCopy().Object["spec"],
	}}
	other.SetName(object.GetName())
	other.SetNamespace(object.GetNamespace())
	other.SetLabels(object.GetLabels())
	other.SetAnnotations(object.GetAnnotations())
	_, err = feed.in(object.GetNamespace()).Create(ctx, other, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return afterIncident(err)
}

// takeAway removes an object whatever its finalizers.
func (r *controllerRun) takeAway(ctx context.Context, feed *objectFeed, object *unstructured.Unstructured) error {
	client := feed.in(object.GetNamespace())
	opts := metav1.DeleteOptions{}
	if uid := object.GetUID(); uid != "" {
		opts.Preconditions = &metav1.Preconditions{UID: new(uid)}
	}
	if err := client.Delete(ctx, object.GetName(), opts); err != nil {
		return notFoundIsFine(err)
	}
	_, err := client.Patch(ctx, object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return notFoundIsFine(err)
}

func notFoundIsFine(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func afterIncident(err error) verdict {
	if err != nil {
		return waiting
	}
	return settled
}

// leaveAlone has the status of an object not written for a while.
func (r *controllerRun) leaveAlone(object *unstructured.Unstructured, d time.Duration) {
	if d <= 0 {
		return
	}
	until := time.Now().Add(d)
	r.memo.Lock()
	r.muted[memoKey(object)] = until
	r.memo.Unlock()
	if object.GetKind() == "VolumeSnapshotContent" {
		r.contentQueue.addAt(object.GetName(), until)
	} else {
		r.snapshotQueue.addAt(objectKey(object), until)
	}
}

func (r *controllerRun) isMuted(object *unstructured.Unstructured) bool {
	r.memo.Lock()
	defer r.memo.Unlock()
	return time.Now().Before(r.muted[memoKey(object)])
}
