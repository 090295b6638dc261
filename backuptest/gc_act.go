package backuptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// collect does once what the objects call for. What another change has overtaken is left to the next time.
func (g *GarbageCollector) collect(ctx context.Context, graph *gcGraph) error {
	family := newGCFamily(graph.snapshot())
	var errs []error
	for _, o := range family.objects {
		var err error
		switch {
		case o.deleting() && o.heldBy(metav1.FinalizerOrphanDependents):
			err = g.orphan(ctx, family, o)
		case o.inForeground():
			err = g.foreground(ctx, family, o)
		case !o.deleting():
			err = g.judge(ctx, graph, family, o)
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%s %s/%s: %w", o.resource.Resource, o.meta.Namespace, o.meta.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (g *GarbageCollector) client(o gcObject) metadata.ResourceInterface {
	if !o.namespaced {
		return g.objects.Resource(o.resource)
	}
	return g.objects.Resource(o.resource).Namespace(o.meta.Namespace)
}

// orphan takes an object out of the owners of its dependents and then lets it go.
func (g *GarbageCollector) orphan(ctx context.Context, family gcFamily, o gcObject) error {
	for _, dependent := range family.dependents[o.meta.UID] {
		if err := g.disown(ctx, dependent, o.meta.UID); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return g.release(ctx, o, metav1.FinalizerOrphanDependents)
}

// foreground lets an object go when no dependent holds it any more. Those that do are deleted as their owners call for.
func (g *GarbageCollector) foreground(ctx context.Context, family gcFamily, o gcObject) error {
	if len(family.blocking(o.meta.UID)) > 0 {
		return nil
	}
	return g.release(ctx, o, metav1.FinalizerDeleteDependents)
}

// judge deletes an object that no owner keeps, and drops its references to owners that are not there.
func (g *GarbageCollector) judge(ctx context.Context, graph *gcGraph, family gcFamily, o gcObject) error {
	of, err := g.owners(ctx, graph, o)
	if err != nil {
		return err
	}
	if policy, ends := family.end(o, of); ends {
		return g.client(o).Delete(ctx, o.meta.Name, metav1.DeleteOptions{
			PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &o.meta.UID, ResourceVersion: &o.meta.ResourceVersion},
		})
	}
	if gone := slices.Concat(of.absent, of.leaving); len(gone) > 0 {
		return g.disown(ctx, o, gone...)
	}
	return nil
}

// owners finds out what an object's owners are to it. An owner that was not seen is asked for where the object says it is.
func (g *GarbageCollector) owners(ctx context.Context, graph *gcGraph, o gcObject) (owners, error) {
	var of owners
	for _, ref := range o.meta.OwnerReferences {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			return of, fmt.Errorf("owner %s: %w", ref.Name, err)
		}
		kind, known := graph.kinds[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}]
		if !known || kind.namespaced && !o.namespaced {
			of.solid++ // whose absence cannot be known
			continue
		}
		owner, err := g.owner(ctx, graph, gcObject{gcKind: kind, meta: &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.meta.Namespace, Name: ref.Name, UID: ref.UID},
		}})
		switch {
		case err != nil:
			return of, err
		case owner == nil:
			of.absent = append(of.absent, ref.UID)
		case owner.inForeground():
			of.leaving = append(of.leaving, ref.UID)
		default:
			of.solid++
		}
	}
	return of, nil
}

// owner returns the object that is wanted by kind, namespace, name and UID, or nil.
func (g *GarbageCollector) owner(ctx context.Context, graph *gcGraph, wanted gcObject) (*gcObject, error) {
	if !wanted.namespaced {
		wanted.meta.Namespace = ""
	}
	graph.mu.Lock()
	seen, ok := graph.objects[wanted.meta.UID]
	graph.mu.Unlock()
	if ok && seen.resource == wanted.resource && seen.meta.Namespace == wanted.meta.Namespace && seen.meta.Name == wanted.meta.Name {
		return &seen, nil
	}
	got, err := g.client(wanted).Get(ctx, wanted.meta.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && got.UID != wanted.meta.UID {
		return nil, nil //nolint:nilnil // that it is not there is the answer
	}
	return &gcObject{gcKind: wanted.gcKind, meta: got}, err
}

// disown takes owners out of an object's references.
func (g *GarbageCollector) disown(ctx context.Context, o gcObject, owners ...types.UID) error {
	return g.patch(ctx, o, map[string]any{"ownerReferences": o.without(owners...)})
}

// release takes a finalizer from an object.
func (g *GarbageCollector) release(ctx context.Context, o gcObject, finalizer string) error {
	left := slices.DeleteFunc(slices.Clone(o.meta.Finalizers), func(f string) bool { return f == finalizer })
	return g.patch(ctx, o, map[string]any{"finalizers": left})
}

// patch changes the metadata of an object unless it has changed meanwhile.
func (g *GarbageCollector) patch(ctx context.Context, o gcObject, meta map[string]any) error {
	meta["uid"], meta["resourceVersion"] = o.meta.UID, o.meta.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return err
	}
	_, err = g.client(o).Patch(ctx, o.meta.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}
