package backuptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// gcPause is how long the collector waits before it tries again what failed.
const gcPause = time.Second

// GarbageCollector does what Kubernetes' garbage collector does with owner references. It deletes an object all of whose
// owners are absent: not there, there with another UID, or in another namespace, which is the same to it. It drops references
// to absent owners where another owner is left. It ends an object that was deleted with propagation Orphan when its
// dependents no longer name it, and one that was deleted with Foreground when no dependent with blockOwnerDeletion is left,
// which it deletes first. Events are not looked at.
//
// It differs from the real one in time only: it acts as soon as it sees a change, where the real one may take seconds.
//
// A cluster runs none by itself: without one, dependents stay, and what was deleted with Orphan or Foreground stays too, held
// by the finalizer orphan or foregroundDeletion. Make one with [NewGarbageCollector].
type GarbageCollector struct {
	objects   metadata.Interface
	discovery discovery.DiscoveryInterface
}

// NewGarbageCollector makes a collector that reads and writes through a metadata client and finds out what there is through
// a discovery client, for example the one of a clientset. Neither may be nil. To start it call [GarbageCollector.Run].
func NewGarbageCollector(objects metadata.Interface, disco discovery.DiscoveryInterface) (*GarbageCollector, error) {
	var errs []error
	if objects == nil {
		errs = append(errs, errors.New("new garbage collector: the metadata client is nil"))
	}
	if disco == nil {
		errs = append(errs, errors.New("new garbage collector: the discovery client is nil"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &GarbageCollector{objects: objects, discovery: disco}, nil
}

// Run collects until ctx ends, and returns the cause of that. Requests that fail and watches that end are begun again each
// second. All goroutines it starts have ended when it returns. It may be called once at a time. A GarbageCollector that
// [NewGarbageCollector] did not make is an error.
func (g *GarbageCollector) Run(ctx context.Context) error {
	if g.objects == nil || g.discovery == nil {
		return errors.New("run garbage collector: the clients are nil")
	}
	for ctx.Err() == nil {
		if err := g.round(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).V(1).Info("garbage collection begins anew", "err", err)
			if !errors.Is(err, errKindsChanged) {
				_ = wait(ctx, gcPause)
			}
		}
	}
	return context.Cause(ctx)
}

var errKindsChanged = errors.New("there are other kinds now")

// round collects for as long as the cluster serves the same kinds.
func (g *GarbageCollector) round(ctx context.Context) error {
	kinds, err := g.kinds()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	graph := newGCGraph(kinds)
	for _, kind := range kinds {
		wg.Go(func() { graph.follow(ctx, g.objects.Resource(kind.resource), kind, stop) })
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-graph.changed:
		}
		if !graph.synced() {
			continue
		}
		for again := false; ; again = true {
			if again {
				_ = wait(ctx, gcPause)
			}
			err := g.collect(ctx, graph)
			if err == nil || ctx.Err() != nil {
				break
			}
			logr.FromContextOrDiscard(ctx).V(1).Info("garbage collection", "err", err)
		}
	}
}

// gcKind is a kind of object the collector looks after.
type gcKind struct {
	kind       schema.GroupKind
	resource   schema.GroupVersionResource
	namespaced bool
}

// kinds are those that can be listed, watched and deleted, in their preferred versions.
func (g *GarbageCollector) kinds() ([]gcKind, error) {
	lists, err := discovery.ServerPreferredResources(g.discovery)
	if err != nil {
		return nil, fmt.Errorf("discover what to collect: %w", err)
	}
	var kinds []gcKind
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discover what to collect: %w", err)
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if r.Name == "events" || !hasVerbs(r.Verbs, "delete", "list", "watch") {
				continue
			}
			kinds = append(kinds, gcKind{kind: schema.GroupKind{Group: gv.Group, Kind: r.Kind}, resource: gv.WithResource(r.Name), namespaced: r.Namespaced})
		}
	}
	return kinds, nil
}

func hasVerbs(verbs metav1.Verbs, wanted ...string) bool {
	return !slices.ContainsFunc(wanted, func(verb string) bool { return !slices.Contains(verbs, verb) })
}
