package apiserver

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// defaultGrace is how many seconds a pod has to end that does not say.
const defaultGrace = 30

// ending is what becomes of an object when it is deleted: its next state, which may be the one it has, and whether it is
// gone then. A pod on a node gets a deletion time in the future and stays until its node deletes it without grace; what
// has finalizers, its own or those of the wanted propagation, stays until they are taken away.
func (r *Resource) ending(old *unstructured.Unstructured, opts *metav1.DeleteOptions) (u *unstructured.Unstructured, gone bool) {
	u = old.DeepCopy()
	grace := r.grace(u, opts)
	if u.GetDeletionTimestamp() != nil { // it is ending already: its time can only be made shorter
		left := orZero(u.GetDeletionGracePeriodSeconds())
		switch {
		case left == 0:
			grace = 0
		case opts.GracePeriodSeconds == nil || grace >= left:
			return u, false
		case grace > 0:
			u.SetDeletionTimestamp(new(sooner(u.GetDeletionTimestamp().Add(time.Duration(grace-left) * time.Second))))
			u.SetDeletionGracePeriodSeconds(&grace)
			return u, false
		}
	}
	u.SetFinalizers(r.holders(u.GetFinalizers(), opts))
	if grace == 0 && len(u.GetFinalizers()) == 0 {
		return u, true
	}
	at := metav1.Time{Time: now().Add(time.Duration(grace) * time.Second)}
	switch set := u.GetDeletionTimestamp(); {
	case set == nil:
		if generation := u.GetGeneration(); generation > 0 {
			u.SetGeneration(generation + 1)
		}
		u.SetDeletionTimestamp(&at)
	case set.After(at.Time):
		u.SetDeletionTimestamp(&at)
	}
	u.SetDeletionGracePeriodSeconds(&grace)
	return u, false
}

// sooner is t, but not in the past.
func sooner(t time.Time) metav1.Time {
	if n := now(); t.Before(n.Time) {
		return n
	}
	return metav1.Time{Time: t}
}

// grace is how many seconds an object may take to end: none but for a pod that is on a node and has not ended by itself.
func (r *Resource) grace(u *unstructured.Unstructured, opts *metav1.DeleteOptions) int64 {
	if !r.graceful {
		return 0
	}
	if node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName"); node == "" {
		return 0
	}
	if phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	grace, found, _ := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds")
	if !found {
		grace = defaultGrace
	}
	if opts.GracePeriodSeconds != nil {
		grace = *opts.GracePeriodSeconds
	}
	if grace < 0 {
		return 1
	}
	return grace
}

// holders are the finalizers of an object whose dependents are to be dealt with as opts say: orphan and foregroundDeletion
// are added or taken away, for a garbage collector to act on them.
func (r *Resource) holders(finalizers []string, opts *metav1.DeleteOptions) []string {
	orphan := slices.Contains(finalizers, metav1.FinalizerOrphanDependents) || r.orphans
	foreground := slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
	asked := oldPolicy(opts)
	switch {
	case asked != nil:
		orphan, foreground = *asked, false
	case opts.PropagationPolicy != nil:
		orphan = *opts.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *opts.PropagationPolicy == metav1.DeletePropagationForeground
	}
	kept := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents && !orphan || f == metav1.FinalizerDeleteDependents && !foreground
	})
	if orphan && !slices.Contains(kept, metav1.FinalizerOrphanDependents) {
		kept = append(kept, metav1.FinalizerOrphanDependents)
	}
	if foreground && !slices.Contains(kept, metav1.FinalizerDeleteDependents) {
		kept = append(kept, metav1.FinalizerDeleteDependents)
	}
	return kept
}

// oldPolicy is what clients sent before there were propagation policies, and some still do.
func oldPolicy(opts *metav1.DeleteOptions) *bool { return opts.OrphanDependents } //nolint:staticcheck // deprecated, not gone

// endsBy reports whether a write that makes an object u, which was old, ends it: its deletion was asked for, and nothing
// holds it any more.
func endsBy(old, u *unstructured.Unstructured) bool {
	grace := old.GetDeletionGracePeriodSeconds()
	return old.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}
