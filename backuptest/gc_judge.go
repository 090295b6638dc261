package backuptest

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// gcFamily is who depends on whom.
type gcFamily struct {
	objects    []gcObject
	dependents map[types.UID][]gcObject // by owner
}

func newGCFamily(objects []gcObject) gcFamily {
	f := gcFamily{objects: objects, dependents: map[types.UID][]gcObject{}}
	for _, o := range objects {
		for _, owner := range o.meta.OwnerReferences {
			f.dependents[owner.UID] = append(f.dependents[owner.UID], o)
		}
	}
	return f
}

func (o gcObject) deleting() bool { return o.meta.DeletionTimestamp != nil }

func (o gcObject) heldBy(finalizer string) bool { return slices.Contains(o.meta.Finalizers, finalizer) }

// inForeground reports whether the object is deleted and waits for its dependents.
func (o gcObject) inForeground() bool {
	return o.deleting() && o.heldBy(metav1.FinalizerDeleteDependents)
}

// blocks reports whether a dependent holds an owner that is deleted in the foreground.
func (o gcObject) blocks(owner types.UID) bool {
	return slices.ContainsFunc(o.meta.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

// blocking are the dependents that hold an owner.
func (f gcFamily) blocking(owner types.UID) []gcObject {
	var list []gcObject
	for _, dependent := range f.dependents[owner] {
		if dependent.blocks(owner) {
			list = append(list, dependent)
		}
	}
	return list
}

// without is what is left of an object's owners when some are taken away.
func (o gcObject) without(gone ...types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(o.meta.OwnerReferences), func(ref metav1.OwnerReference) bool { return slices.Contains(gone, ref.UID) })
}

// owners are an object's owners by what they are to it.
type owners struct {
	solid           int
	absent, leaving []types.UID // leaving: deleted in the foreground
}

// end is how an object without a solid owner is deleted, and false if it is not.
func (f gcFamily) end(o gcObject, of owners) (metav1.DeletionPropagation, bool) {
	switch {
	case len(o.meta.OwnerReferences) == 0 || of.solid > 0:
		return "", false
	case len(of.leaving) > 0 && len(f.dependents[o.meta.UID]) > 0:
		return metav1.DeletePropagationForeground, true
	case o.heldBy(metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan, true
	case o.heldBy(metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground, true
	default:
		return metav1.DeletePropagationBackground, true
	}
}
