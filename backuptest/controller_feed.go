package backuptest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	feedPause    = 50 * time.Millisecond // before a list or watch that failed is tried again; it doubles
	feedPauseMax = 5 * time.Second
	feedPage     = 500
)

// objectFeed holds all objects of one resource as they were seen last, and tells of each change. It lists, opens a watch, and
// lists again, because a fake client's watch has no past: what happened between list and watch would be lost. Where it may not
// watch it lists every few seconds. It does not use
// client-go's informers, which wait on such a client for a bookmark that never comes.
type objectFeed struct {
	client   dynamic.NamespaceableResourceInterface
	resource schema.GroupVersionResource
	changed  func(key string, before, object *unstructured.Unstructured, gone bool)
	tried    chan struct{} // closed when the first list has ended, well or not
	synced   chan struct{} // closed when everything has been seen once

	mu   sync.Mutex // guards held, whose objects are never changed, and left
	held map[string]*unstructured.Unstructured
	left map[string]*unstructured.Unstructured // the metadata that tells the last version of what is gone
}

func newObjectFeed(
	client dynamic.Interface, resource schema.GroupVersionResource, changed func(key string, before, object *unstructured.Unstructured, gone bool),
) *objectFeed {
	return &objectFeed{
		client: client.Resource(resource), resource: resource, changed: changed, tried: make(chan struct{}), synced: make(chan struct{}),
		held: map[string]*unstructured.Unstructured{}, left: map[string]*unstructured.Unstructured{},
	}
}

// run follows the resource until ctx ends.
func (f *objectFeed) run(ctx context.Context, resync time.Duration) {
	pause := feedPause
	for ctx.Err() == nil {
		start := time.Now()
		err := f.follow(ctx, resync)
		logr.FromContextOrDiscard(ctx).V(1).Info("watch ended", "resource", f.resource.Resource, "err", err)
		if time.Since(start) > feedPauseMax {
			pause = feedPause
		}
		if wait(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, feedPauseMax)
	}
}

// follow lists and watches until the watch ends or one of them fails.
func (f *objectFeed) follow(ctx context.Context, resync time.Duration) error {
	version, err := f.list(ctx)
	if err == nil {
		closeOnce(f.synced)
	}
	closeOnce(f.tried)
	if err != nil {
		return err
	}
	w, err := f.client.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer w.Stop()
	if _, err := f.list(ctx); err != nil {
		return err
	}
	ticker := time.NewTicker(resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if _, err := f.list(ctx); err != nil {
				return err
			}
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if event.Type == watch.Error {
				return apierrors.FromObject(event.Object)
			}
			if object, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Bookmark {
				f.see(object, event.Type == watch.Deleted, false)
			}
		}
	}
}

// closeOnce is for the one goroutine that closes done.
func closeOnce(done chan struct{}) {
	select {
	case <-done:
	default:
		close(done)
	}
}

// list reads all objects and tells of each, and of those that are gone.
func (f *objectFeed) list(ctx context.Context) (version string, err error) {
	before := f.keys()
	found := map[string]bool{}
	opts := metav1.ListOptions{Limit: feedPage}
	for {
		page, err := f.client.List(ctx, opts)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			object := &page.Items[i]
			found[objectKey(object)] = true
			f.see(object, false, true)
		}
		version = page.GetResourceVersion()
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			break
		}
	}
	for _, key := range before {
		if object := f.get(key); object != nil && !found[key] {
			f.see(object, true, true)
		}
	}
	return version, nil
}

// see takes note of an object that was read, unless a newer one is known, and tells of it; of the version that is known already only
// with again.
func (f *objectFeed) see(object *unstructured.Unstructured, gone, again bool) {
	key := objectKey(object)
	if before, news := f.note(key, object, gone, again); news {
		f.changed(key, before, object, gone)
	}
}

// note reports whether that is news, and the version that was known before, if it was of the same object.
func (f *objectFeed) note(key string, object *unstructured.Unstructured, gone, again bool) (before *unstructured.Unstructured, news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, held := f.held[key]
	if held && last.GetUID() == object.GetUID() {
		before = last
	}
	if gone {
		if before == nil {
			return nil, false
		}
		delete(f.held, key)
		f.left[key] = justVersion(object)
		return before, true
	}
	if !held {
		last = f.left[key] // an answer may have been on its way while the object went
	}
	if last != nil {
		if order, known := compareVersions(object, last); known && (order < 0 || order == 0 && (!again || !held)) {
			return nil, false
		}
	}
	delete(f.left, key)
	f.held[key] = object
	return before, true
}

// justVersion is what compareVersions needs of an object.
func justVersion(object *unstructured.Unstructured) *unstructured.Unstructured {
	version := &unstructured.Unstructured{}
	version.SetResourceVersion(object.GetResourceVersion())
	return version
}

// wrote takes note of the answer to a write of our own. An object that has gone meanwhile stays gone.
func (f *objectFeed) wrote(object *unstructured.Unstructured) {
	key := objectKey(object)
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return // the server removed it with this write, and the watch says so
	}
	if f.get(key) != nil {
		f.see(object, false, false)
	}
}

// get returns the object as it was seen last, or nil. It must not be changed.
func (f *objectFeed) get(key string) *unstructured.Unstructured {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[key]
}

// all returns all objects, in no order. They must not be changed.
func (f *objectFeed) all() []*unstructured.Unstructured {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.held))
}

func (f *objectFeed) keys() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := make([]string, 0, len(f.held))
	for key := range f.held {
		keys = append(keys, key)
	}
	return keys
}

// in returns the resource in the namespace of an object, or the resource itself for one without.
func (f *objectFeed) in(namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return f.client
	}
	return f.client.Namespace(namespace)
}

// objectKey is NAMESPACE/NAME, or NAME.
func objectKey(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

// compareVersions compares resource versions as the API server makes them. Without any, known is false and a later arrival is newer.
func compareVersions(a, b *unstructured.Unstructured) (order int, known bool) {
	va, errA := strconv.ParseUint(a.GetResourceVersion(), 10, 64)
	vb, errB := strconv.ParseUint(b.GetResourceVersion(), 10, 64)
	return cmp.Compare(va, vb), errA == nil && errB == nil
}
