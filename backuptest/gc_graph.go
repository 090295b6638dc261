package backuptest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// gcObject is an object in the collector's eyes. It is not changed once it is in a graph.
type gcObject struct {
	gcKind
	meta *metav1.PartialObjectMetadata
}

// gcGraph is all objects as the collector saw them last.
type gcGraph struct {
	kinds   map[schema.GroupKind]gcKind
	changed chan struct{} // of capacity one

	mu      sync.Mutex
	objects map[types.UID]gcObject               // guarded by mu
	listed  map[schema.GroupVersionResource]bool // guarded by mu: what has been seen once
}

func newGCGraph(kinds []gcKind) *gcGraph {
	g := &gcGraph{
		kinds: map[schema.GroupKind]gcKind{}, changed: make(chan struct{}, 1),
		objects: map[types.UID]gcObject{}, listed: map[schema.GroupVersionResource]bool{},
	}
	for _, kind := range kinds {
		g.kinds[kind.kind] = kind
	}
	return g
}

func (g *gcGraph) synced() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.listed) == len(g.kinds)
}

// snapshot is all objects in the order of resource, namespace and name.
func (g *gcGraph) snapshot() []gcObject {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.objects))
	g.mu.Unlock()
	slices.SortFunc(all, func(a, b gcObject) int {
		return cmp.Or(cmp.Compare(a.resource.String(), b.resource.String()), cmp.Compare(a.meta.Namespace, b.meta.Namespace), cmp.Compare(a.meta.Name, b.meta.Name))
	})
	return all
}

func (g *gcGraph) tell() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// follow keeps the objects of one kind up to date until ctx ends. A change of what kinds there are ends the round.
func (g *gcGraph) follow(ctx context.Context, client metadata.Getter, kind gcKind, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		_ = g.watch(ctx, client, kind, stop) // which begins anew whatever ended it, but not at once: it may end at once
		_ = wait(ctx, gcPause)
	}
}

func (g *gcGraph) watch(ctx context.Context, client metadata.Getter, kind gcKind, stop context.CancelCauseFunc) error {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	g.replace(kind, list.Items)
	w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	return eachEvent(ctx, w, func(e watch.Event) {
		object, ok := e.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		g.see(kind, object, e.Type == watch.Deleted)
		if kind.kind.Kind == "CustomResourceDefinition" && e.Type != watch.Modified {
			stop(errKindsChanged)
		}
	})
}

func (g *gcGraph) replace(kind gcKind, items []metav1.PartialObjectMetadata) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.objects, func(_ types.UID, o gcObject) bool { return o.resource == kind.resource })
	for i := range items {
		g.objects[items[i].UID] = gcObject{gcKind: kind, meta: &items[i]}
	}
	g.listed[kind.resource] = true
	g.tell()
}

func (g *gcGraph) see(kind gcKind, object *metav1.PartialObjectMetadata, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gone {
		delete(g.objects, object.UID)
	} else {
		g.objects[object.UID] = gcObject{gcKind: kind, meta: object}
	}
	g.tell()
}
