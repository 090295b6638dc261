package finalize

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/sheetanchor/sheetanchor/operations"
)

const (
	provisionedBy    = "pv.kubernetes.io/provisioned-by"
	selectedNode     = "volume.kubernetes.io/selected-node"
	betaClass        = "volume.beta.kubernetes.io/storage-class"
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// verdict is what one look at a volume came to: go on if all is empty.
type verdict struct {
	wait string // why it is not time yet
	skip SkipReason
	err  error
}

// goOn reports whether the look found nothing in the way.
func (v verdict) goOn() bool { return v == verdict{} }

// judgeOperation says whether the operation that fills a volume has done so. An unknown operation is no obstacle.
func judgeOperation(v RestoredVolume, list *operations.List) verdict {
	if v.OperationID == "" || list == nil {
		return verdict{}
	}
	op, ok := list.Get(v.OperationID)
	switch phase := op.Status.Phase; {
	case !ok, phase == operations.PhaseCompleted:
		return verdict{}
	case phase.IsTerminal():
		return verdict{skip: SkipOperation}
	}
	return verdict{wait: "operation " + v.OperationID + " has not ended"}
}

// judgeClaim says whether a claim, nil if it is not there, is bound to a persistent volume. classes is called for a claim
// that is not; nil says that the classes are not known.
func judgeClaim(v RestoredVolume, pvc *corev1.PersistentVolumeClaim, classes func() *storageClasses) verdict {
	switch {
	case pvc == nil:
		return verdict{skip: SkipGone}
	case v.ClaimUID != "" && pvc.UID != "" && pvc.UID != v.ClaimUID:
		return verdict{skip: SkipRecreated}
	case pvc.DeletionTimestamp != nil:
		return verdict{skip: SkipGone}
	case pvc.Status.Phase == corev1.ClaimLost:
		return verdict{err: ErrLostClaim}
	case pvc.Status.Phase == corev1.ClaimBound && pvc.Spec.VolumeName != "":
		return verdict{}
	}
	return judgePending(pvc, classes())
}

func judgePending(pvc *corev1.PersistentVolumeClaim, classes *storageClasses) verdict {
	if classes == nil {
		return verdict{wait: "claim is " + string(cmp.Or(pvc.Status.Phase, corev1.ClaimPending)) + ", storage classes are not known"}
	}
	name, dynamic := classes.nameFor(pvc)
	if !dynamic {
		return verdict{skip: SkipStatic}
	}
	class, ok := classes.byName[name]
	switch {
	case !ok:
		return verdict{wait: fmt.Sprintf("claim is not bound, storage class %s is not there", name)}
	case class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && pvc.Annotations[selectedNode] == "":
		return verdict{skip: SkipNoConsumer}
	}
	return verdict{wait: fmt.Sprintf("claim is not bound, storage class %s", name)}
}

// judgePV says whether a persistent volume is that of the claim that names it, and may be given back what it had.
func judgePV(pvc *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) verdict {
	ref := pv.Spec.ClaimRef
	switch {
	case pv.DeletionTimestamp != nil:
		return verdict{skip: SkipGone}
	case pv.Status.Phase == corev1.VolumeReleased, pv.Status.Phase == corev1.VolumeFailed:
		return verdict{err: fmt.Errorf("%w: %s is %s", ErrReleasedVolume, pv.Name, pv.Status.Phase)}
	case ref == nil:
		return verdict{wait: "persistent volume " + pv.Name + " names no claim yet"}
	case ref.Namespace != pvc.Namespace || ref.Name != pvc.Name:
		return verdict{err: fmt.Errorf("%w: %s is of %s/%s", ErrForeignVolume, pv.Name, ref.Namespace, ref.Name)}
	case ref.UID != "" && pvc.UID != "" && ref.UID != pvc.UID:
		return verdict{err: fmt.Errorf("%w: %s is of a claim of the same name with UID %s", ErrForeignVolume, pv.Name, ref.UID)}
	case pv.Annotations[provisionedBy] == "":
		return verdict{skip: SkipStatic}
	}
	return verdict{}
}

// storageClasses are those of the cluster.
type storageClasses struct {
	byName map[string]storagev1.StorageClass
	first  string // the default one; empty: there is none
}

// newStorageClasses finds the default among the classes: the newest, of several of one age the first by name.
func newStorageClasses(list []storagev1.StorageClass) *storageClasses {
	c := &storageClasses{byName: make(map[string]storagev1.StorageClass, len(list))}
	for _, class := range list {
		c.byName[class.Name] = class
		if class.Annotations[defaultClass] != "true" && class.Annotations[betaDefaultClass] != "true" {
			continue
		}
		newest := c.byName[c.first].CreationTimestamp
		newer := class.CreationTimestamp.After(newest.Time)
		if c.first == "" || newer || class.CreationTimestamp.Equal(&newest) && class.Name < c.first {
			c.first = class.Name
		}
	}
	return c
}

// nameFor returns the class of a claim: that which it names, else the default. dynamic is false when it has none, so that
// only a volume that is there can be bound to it.
func (c *storageClasses) nameFor(pvc *corev1.PersistentVolumeClaim) (name string, dynamic bool) {
	if beta, ok := pvc.Annotations[betaClass]; ok {
		return beta, beta != ""
	}
	if pvc.Spec.StorageClassName != nil {
		return *pvc.Spec.StorageClassName, *pvc.Spec.StorageClassName != ""
	}
	return c.first, c.first != ""
}
