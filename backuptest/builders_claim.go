package backuptest

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Claim builds a PersistentVolumeClaim that is bound to a PersistentVolume of a CSI driver, and that volume. With NFS it is a
// volume of no CSI driver; with Unbound or Lost it is a claim alone, with Released a volume alone. Only Namespace and Name are
// needed: a zero field takes the default that its comment names.
type Claim struct {
	Namespace, Name string
	UID             types.UID // UIDOf("PersistentVolumeClaim", Namespace, Name)
	Labels          map[string]string
	Annotations     map[string]string // beside those that the binder sets
	Size            string            // a quantity; "1Gi"
	// Class is the storage class; "fast", as [StorageClass] builds it. NFS volumes have none.
	Class string
	// AccessModes defaults to ReadWriteOnce.
	AccessModes []corev1.PersistentVolumeAccessMode
	// Unbound leaves the claim Pending and without a volume.
	Unbound bool
	// Lost makes the claim one that was bound to a volume that is gone.
	Lost bool
	// Released leaves the volume alone, as one with policy Retain stays behind when its claim is deleted.
	Released bool
	// NFS makes the volume one of an NFS server instead of a CSI driver.
	NFS bool

	Driver       string // DefaultDriver
	VolumeHandle string // "vol-NAMESPACE-NAME"
	VolumeName   string // "pvc-UID"
	VolumeLabels map[string]string
	// ReclaimPolicy defaults to Delete, and to Retain with NFS and Released.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
}

// PVC returns the claim, and nil with Released.
func (c Claim) PVC() *corev1.PersistentVolumeClaim {
	if c.Released {
		return nil
	}
	c = c.filled()
	pvc := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: c.Name, UID: c.UID, Labels: maps.Clone(c.Labels), Annotations: maps.Clone(c.Annotations),
			Finalizers: []string{"kubernetes.io/pvc-protection"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: slices.Clone(c.AccessModes), StorageClassName: new(c.Class), VolumeMode: new(corev1.PersistentVolumeFilesystem),
			Resources: corev1.VolumeResourceRequirements{Requests: storageOf(c.Size)},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	if c.Unbound {
		return pvc
	}
	bound := map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	if !c.NFS {
		bound["pv.kubernetes.io/bound-by-controller"] = "yes"
		bound["volume.kubernetes.io/storage-provisioner"] = c.Driver
	}
	pvc.Annotations = withDefaults(c.Annotations, bound)
	pvc.Spec.VolumeName = c.VolumeName
	pvc.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: slices.Clone(c.AccessModes), Capacity: storageOf(c.Size)}
	if c.Lost {
		pvc.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost}
	}
	return pvc
}

// PV returns the volume that the claim is or was bound to; nil with Unbound and Lost.
func (c Claim) PV() *corev1.PersistentVolume {
	if c.Unbound || c.Lost {
		return nil
	}
	c = c.filled()
	pv := &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name: c.VolumeName, UID: UIDOf("PersistentVolume", "", c.VolumeName), Labels: maps.Clone(c.VolumeLabels),
			Finalizers: []string{"kubernetes.io/pv-protection"},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: slices.Clone(c.AccessModes), StorageClassName: c.Class, VolumeMode: new(corev1.PersistentVolumeFilesystem),
			Capacity:                      storageOf(c.Size),
			PersistentVolumeReclaimPolicy: c.ReclaimPolicy,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID,
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	if c.Released {
		pv.Status.Phase = corev1.VolumeReleased
	}
	if c.NFS {
		pv.Spec.NFS = &corev1.NFSVolumeSource{Server: "nfs.example", Path: "/" + c.Name}
		return pv
	}
	pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": c.Driver}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: c.Driver, VolumeHandle: c.VolumeHandle}
	return pv
}

// Objects returns the claim and its volume, or the one of them that there is. What cannot be built, such as a Size that is no
// quantity, is an error where it is stored.
func (c Claim) Objects() []runtime.Object {
	return built("Claim", c.Namespace, c.Name, c.objects, c.wrong())
}

func storageOf(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: quantityOf(size)}
}

func (c Claim) objects() []runtime.Object {
	var objects []runtime.Object
	if pvc := c.PVC(); pvc != nil {
		objects = append(objects, pvc)
	}
	if pv := c.PV(); pv != nil {
		objects = append(objects, pv)
	}
	return objects
}

func (c Claim) filled() Claim {
	c.UID = orUID(c.UID, "PersistentVolumeClaim", c.Namespace, c.Name)
	c.Size = orString(c.Size, "1Gi")
	c.Driver = orString(c.Driver, DefaultDriver)
	c.VolumeHandle = orString(c.VolumeHandle, dashed("vol", c.Namespace, c.Name))
	c.VolumeName = orString(c.VolumeName, "pvc-"+string(c.UID))
	if len(c.AccessModes) == 0 {
		c.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	if !c.NFS {
		c.Class = orString(c.Class, DefaultStorageClass)
	}
	if c.ReclaimPolicy == "" {
		c.ReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		if c.NFS || c.Released {
			c.ReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}
	}
	return c
}
