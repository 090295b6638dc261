package backuptest

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// DefaultStorageClass is the storage class that [Claim] and [StorageClass] use when none is named.
	DefaultStorageClass = "fast"
	// DefaultSnapshotClass is the snapshot class that [Snapshot] and [SnapshotClass] use when none is named.
	DefaultSnapshotClass = "csi-snapclass"
)

// StorageClass builds a StorageClass. The zero value is "fast" of [DefaultDriver] with policy Delete.
type StorageClass struct {
	Name   string // DefaultStorageClass
	Driver string // DefaultDriver
	// ReclaimPolicy defaults to Delete.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	// Default marks it as the cluster's default class.
	Default bool
	// WaitForFirstConsumer makes a volume only when a pod that uses the claim is scheduled. Else at once.
	WaitForFirstConsumer bool
}

// Object returns the storage class.
func (c StorageClass) Object() *storagev1.StorageClass {
	policy := c.ReclaimPolicy
	if policy == "" {
		policy = corev1.PersistentVolumeReclaimDelete
	}
	name := orString(c.Name, DefaultStorageClass)
	class := &storagev1.StorageClass{
		TypeMeta:      metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:    metav1.ObjectMeta{Name: name, UID: UIDOf("StorageClass", "", name)},
		Provisioner:   orString(c.Driver, DefaultDriver),
		ReclaimPolicy: &policy, VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}
	if c.WaitForFirstConsumer {
		class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	}
	if c.Default {
		class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	return class
}

// Objects returns the storage class.
func (c StorageClass) Objects() []runtime.Object { return []runtime.Object{c.Object()} }

// SnapshotClass builds a VolumeSnapshotClass. The zero value is "csi-snapclass" of [DefaultDriver] with policy Delete, which is
// not a default class.
type SnapshotClass struct {
	Name   string // DefaultSnapshotClass
	Driver string // DefaultDriver
	Policy string // "Delete"; or "Retain"
	// Default marks it as the default class of its driver.
	Default     bool
	Labels      map[string]string
	Annotations map[string]string
}

// Object returns the snapshot class.
func (c SnapshotClass) Object() *unstructured.Unstructured {
	name := orString(c.Name, DefaultSnapshotClass)
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion":     snapshotAPIVersion,
		"kind":           "VolumeSnapshotClass",
		"driver":         orString(c.Driver, DefaultDriver),
		"deletionPolicy": orString(c.Policy, "Delete"),
	}}
	class.SetName(name)
	class.SetUID(UIDOf("VolumeSnapshotClass", "", name))
	class.SetLabels(maps.Clone(c.Labels))
	annotations := map[string]string{}
	if c.Default {
		annotations[isDefaultClassAnnotation] = "true"
	}
	if a := withDefaults(c.Annotations, annotations); len(a) > 0 {
		class.SetAnnotations(a)
	}
	return class
}

// Objects returns the snapshot class. An unknown Policy is an error where it is stored.
func (c SnapshotClass) Objects() []runtime.Object {
	return built("SnapshotClass", "", c.Name, func() []runtime.Object { return []runtime.Object{c.Object()} }, wrongPolicy(c.Policy))
}
