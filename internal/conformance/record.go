package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// recorder notes every version of the objects of one namespace, and of the contents that belong to it.
type recorder struct {
	client    dynamic.Interface
	namespace string

	mu      sync.Mutex // guards what follows
	columns map[string]*column
	news    chan struct{} // closed at each change
	failed  error
	stop    context.CancelFunc
	all     sync.WaitGroup
}

// column is what was seen of one object; an object that came again by its name goes on in its column.
type column struct {
	resource string
	versions []*unstructured.Unstructured // nil: gone
}

func (c *column) last() *unstructured.Unstructured { return c.versions[len(c.versions)-1] }

// startRecorder lists and begins to watch, so that nothing that happens after it is missed.
func startRecorder(ctx context.Context, client dynamic.Interface, namespace string, resources ...schema.GroupVersionResource) (*recorder, error) {
	ctx, stop := context.WithCancel(ctx)
	r := &recorder{client: client, namespace: namespace, columns: map[string]*column{}, news: make(chan struct{}), stop: stop}
	for _, resource := range resources {
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			r.close()
			return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		r.all.Go(func() { r.follow(ctx, resource, list.GetResourceVersion()) })
	}
	return r, nil
}

func (r *recorder) close() {
	r.stop()
	r.all.Wait()
}

// follow watches one resource, from where the watch before ended.
func (r *recorder) follow(ctx context.Context, resource schema.GroupVersionResource, version string) {
	for ctx.Err() == nil {
		w, err := r.client.Resource(resource).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			r.fail(ctx, fmt.Errorf("watch %s: %w", resource.Resource, err))
			return
		}
		for event := range w.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Error {
				r.fail(ctx, fmt.Errorf("watch %s: %v", resource.Resource, event.Object))
				w.Stop()
				return
			}
			version = object.GetResourceVersion()
			if event.Type != watch.Bookmark {
				r.note(resource, object, event.Type == watch.Deleted)
			}
		}
		w.Stop()
	}
}

func (r *recorder) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
	r.tell()
}

// tell must be called with the lock.
func (r *recorder) tell() {
	close(r.news)
	r.news = make(chan struct{})
}

func (r *recorder) note(resource schema.GroupVersionResource, object *unstructured.Unstructured, gone bool) {
	key := r.keyOf(resource, object)
	if key == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.columns[key]
	if c == nil {
		c = &column{resource: resource.Resource}
		r.columns[key] = c
	}
	if gone {
		object = nil
	}
	c.versions = append(c.versions, object)
	r.tell()
}

// keyOf names the column of an object; "" is none of ours.
func (r *recorder) keyOf(resource schema.GroupVersionResource, object *unstructured.Unstructured) string {
	switch resource {
	case contents:
		if text(object, "spec", "volumeSnapshotRef", "namespace") != r.namespace {
			return ""
		}
		return "content of " + text(object, "spec", "volumeSnapshotRef", "name")
	case groupContents:
		if text(object, "spec", "volumeGroupSnapshotRef", "namespace") != r.namespace {
			return ""
		}
		return "group content of " + text(object, "spec", "volumeGroupSnapshotRef", "name")
	}
	if object.GetNamespace() != r.namespace {
		return ""
	}
	kind := map[schema.GroupVersionResource]string{snapshots: "snapshot ", groups: "group ", claims: "claim "}[resource]
	return kind + object.GetName()
}

// get returns the last version of an object, nil if it is not there, and whether it ever was.
func (r *recorder) get(key string) (object *unstructured.Unstructured, ever bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.columns[key]; c != nil {
		return c.last(), true
	}
	return nil, false
}

// wait returns once the condition holds.
func (r *recorder) wait(ctx context.Context, holds func() bool) error {
	for {
		r.mu.Lock()
		news, failed := r.news, r.failed
		r.mu.Unlock()
		if failed != nil {
			return failed
		}
		if holds() {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// state describes what is there now, for errors.
func (r *recorder) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for key, c := range r.columns {
		fmt.Fprintf(&b, "\n%s (%d versions): ", key, len(c.versions))
		if last := c.last(); last != nil {
			fmt.Fprintf(&b, "finalizers %v, annotations %v, status %v, deleted %v", last.GetFinalizers(), last.GetAnnotations(), last.Object["status"], last.GetDeletionTimestamp())
		} else {
			b.WriteString("gone")
		}
	}
	return b.String()
}

func text(object *unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(object.Object, fields...)
	return s
}
