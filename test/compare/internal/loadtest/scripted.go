package loadtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// scripted is a dynamic client of an empty cluster, whose watches tell what a workload says. It keeps nothing.
type scripted struct {
	dynamic.NamespaceableResourceInterface // of the methods that nothing here calls

	mu      sync.Mutex
	streams map[string]*stream
	version int
}

func newScripted() *scripted { return &scripted{streams: map[string]*stream{}} }

// stream is the watch of one resource.
type stream struct {
	events chan watch.Event
	ended  chan struct{}
	once   sync.Once
}

func (s *stream) Stop()                          { s.once.Do(func() { close(s.ended) }) }
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// scriptedResource is one resource of the client.
type scriptedResource struct {
	dynamic.NamespaceableResourceInterface

	of  *scripted
	gvr schema.GroupVersionResource
}

func (s *scripted) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return scriptedResource{of: s, gvr: gvr}
}

func (r scriptedResource) Namespace(string) dynamic.ResourceInterface { return r }

func (r scriptedResource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(r.gvr.GroupResource(), name)
}

func (r scriptedResource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion("1")
	return list, nil
}

func (r scriptedResource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	s := &stream{events: make(chan watch.Event), ended: make(chan struct{})}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.streams[r.gvr.Resource] = s
	return s, nil
}

// tell sends an object to the watch of its resource.
func (s *scripted) tell(resource string, object map[string]any) error {
	s.mu.Lock()
	to := s.streams[resource]
	s.version++
	version := s.version
	s.mu.Unlock()
	if to == nil {
		return fmt.Errorf("nobody watches %s", resource)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetResourceVersion(strconv.Itoa(version + 1))
	select {
	case to.events <- watch.Event{Type: watch.Modified, Object: u}:
		return nil
	case <-to.ended:
		return fmt.Errorf("the watch of %s has ended", resource)
	}
}

// pendingSnapshot is the nth snapshot as it is created.
func pendingSnapshot(n int) csisnapshot.Snapshot {
	var names csisnapshot.Names
	claim := csisnapshot.ClaimRef{Namespace: app, Name: fmt.Sprintf("data-%05d", n), UID: types.UID(fmt.Sprintf("c1a1c1a1-0000-4000-8000-%012d", n))}
	vs := names.NewSnapshot(anchorOwner, claim, "csi-snapclass")
	vs.UID = types.UID(fmt.Sprintf("5a5a5a5a-0000-4000-8000-%012d", n))
	vs.ResourceVersion = "1"
	return vs
}

// snapshotObject and contentObject are the nth snapshot and its content as the server sends them while the cut is awaited; the
// round is in them, so that no two are the same.
func snapshotObject(n int) map[string]any {
	vs := pendingSnapshot(n)
	return map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
		"metadata": map[string]any{
			"namespace": vs.Namespace, "name": vs.Name, "uid": string(vs.UID), "creationTimestamp": "2026-12-01T01:02:03Z",
			"labels": anyMap(vs.Labels), "annotations": anyMap(vs.Annotations),
			"finalizers": []any{"snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"},
		},
		"spec":   map[string]any{"source": map[string]any{"persistentVolumeClaimName": vs.Claim}, "volumeSnapshotClassName": "csi-snapclass"},
		"status": map[string]any{"boundVolumeSnapshotContentName": csisnapshot.ContentName(vs.UID), "readyToUse": false},
	}
}

func contentObject(n, round int) map[string]any {
	vs := pendingSnapshot(n)
	return map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
		"metadata": map[string]any{
			"name": csisnapshot.ContentName(vs.UID), "uid": fmt.Sprintf("c0c0c0c0-0000-4000-8000-%012d", n), "creationTimestamp": "2026-12-01T01:02:04Z",
			"annotations": map[string]any{"snapshot.storage.kubernetes.io/volumesnapshot-being-created": "yes", "example.io/round": strconv.Itoa(round)},
			"finalizers":  []any{"snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"},
		},
		"spec": map[string]any{
			"driver": "csi.example.dev", "deletionPolicy": "Delete", "volumeSnapshotClassName": "csi-snapclass",
			"source":            map[string]any{"volumeHandle": fmt.Sprintf("vol-%05d", n)},
			"volumeSnapshotRef": map[string]any{"namespace": vs.Namespace, "name": vs.Name, "uid": string(vs.UID)},
		},
	}
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
