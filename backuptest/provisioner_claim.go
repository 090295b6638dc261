package backuptest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// sync gives one claim its volume.
func (r *provisionerRun) sync(ctx context.Context, key string) verdict {
	claim := r.claims.get(key)
	switch {
	case claim == nil:
		return settled
	case isDeleting(claim):
		return r.unprotect(ctx, claim)
	case !hasFinalizer(claim, claimProtection):
		return r.protect(ctx, claim, true)
	case specString(claim, "status", "phase") == string(corev1.ClaimBound):
		return settled
	}
	if volume := specString(claim, "spec", "volumeName"); volume != "" {
		return r.bindToExisting(ctx, claim, volume)
	}
	class, err := r.classOf(ctx, claim)
	if errors.Is(err, errNoClass) {
		return settled
	}
	if err != nil {
		return waiting
	}
	if !r.driver.Serves(specString(class, "provisioner")) {
		return settled
	}
	if specString(class, "volumeBindingMode") == waitForFirstConsumer && !hasAnnotation(claim, selectedNodeAnnotation) {
		return settled
	}
	if r.queue.early(key) {
		return waiting
	}
	if err := r.provision(ctx, claim, class); err != nil {
		if ctx.Err() == nil {
			name := class.GetName()
			r.event(ctx, claim, class, warningEvent, failedReason, fmt.Sprintf("failed to provision volume with StorageClass %q: %v", name, err))
		}
		return waiting
	}
	return settled
}

// errNoClass says that a claim has no storage class, and none is the default.
var errNoClass = errors.New("no storage class")

// classOf is the storage class of a claim, or the default one.
func (r *provisionerRun) classOf(ctx context.Context, claim *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	classes := r.client.Resource(storageClassesResource)
	name, named, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	if named {
		if name == "" {
			return nil, errNoClass
		}
		return classes.Get(ctx, name, metav1.GetOptions{})
	}
	list, err := classes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].GetAnnotations()[defaultStorageAnnotation] == "true" {
			return &list.Items[i], nil
		}
	}
	return nil, errNoClass
}

func (r *provisionerRun) provision(ctx context.Context, claim, class *unstructured.Unstructured) error {
	r.event(ctx, claim, class, normalEvent, startReason, fmt.Sprintf("External provisioner is provisioning volume for claim %q", objectKey(claim)))
	source := restoreSource(claim)
	if source != "" {
		if err := r.checkSource(ctx, claim, class, source); err != nil {
			return fmt.Errorf("error getting handle for DataSource Type VolumeSnapshot by Name %s: %w", source, err)
		}
		if err := r.holdSource(ctx, claim, source, true); err != nil {
			return err
		}
	}
	if wait(ctx, r.opts.Latency) != nil {
		return context.Cause(ctx)
	}
	pv, err := newVolume(claim, class)
	if err != nil {
		return err
	}
	_, err = r.client.Resource(volumesResource).Create(ctx, pv, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if source != "" {
		if err := r.holdSource(ctx, claim, source, false); err != nil {
			return err
		}
	}
	return r.bind(ctx, claim, pv, specString(class, "provisioner"))
}

// restoreSource is the VolumeSnapshot that a claim is to be made from, or "".
func restoreSource(claim *unstructured.Unstructured) string {
	for _, field := range []string{"dataSource", "dataSourceRef"} {
		if specString(claim, "spec", field, "kind") == "VolumeSnapshot" {
			return specString(claim, "spec", field, "name")
		}
	}
	return ""
}

// checkSource says why a snapshot cannot be restored now.
func (r *provisionerRun) checkSource(ctx context.Context, claim, class *unstructured.Unstructured, name string) error {
	vs, err := r.client.Resource(snapshotsResource).Namespace(claim.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("error getting snapshot %s from api server: %w", name, err)
	}
	if isDeleting(vs) && !hasFinalizer(vs, restoreFinalizer) {
		return fmt.Errorf("snapshot %s is being deleted", name)
	}
	bound := boundContentName(vs)
	if bound == "" {
		return fmt.Errorf("snapshot %s not bound", name)
	}
	content, err := r.client.Resource(contentsResource).Get(ctx, bound, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("error getting snapshotcontent %s for snapshot %s from api server", bound, name)
	case !refersTo(content, vs):
		return fmt.Errorf("snapshotcontent %s for snapshot %s is bound to a different snapshot", bound, name)
	case specString(content, "spec", "driver") != specString(class, "provisioner"):
		return fmt.Errorf("snapshotcontent %s for snapshot %s is handled by a different CSI driver than requested by StorageClass %s", bound, name, class.GetName())
	case !isReady(vs):
		return fmt.Errorf("snapshot %s is not Ready", name)
	case specString(content, "status", "snapshotHandle") == "":
		return fmt.Errorf("snapshot handle %s is not available", name)
	}
	return nil
}

// holdSource sets or removes the finalizer that keeps a snapshot while it is restored.
func (r *provisionerRun) holdSource(ctx context.Context, claim *unstructured.Unstructured, name string, hold bool) error {
	client := r.client.Resource(snapshotsResource).Namespace(claim.GetNamespace())
	for range conflictTries {
		vs, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return notFoundIsFine(err)
		}
		if hasFinalizer(vs, restoreFinalizer) == hold {
			return nil
		}
		finalizers := slices.DeleteFunc(vs.GetFinalizers(), func(f string) bool { return f == restoreFinalizer })
		if hold {
			finalizers = append(finalizers, restoreFinalizer)
		}
		patch, err := mergePatch(finalizersPatch(finalizers), vs.GetResourceVersion())
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "csi-provisioner"})
		if !apierrors.IsConflict(err) {
			return notFoundIsFine(err)
		}
	}
	return fmt.Errorf("snapshot %s is a conflict after %d tries", name, conflictTries)
}

// newVolume is the volume made for a claim.
func newVolume(claim, class *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name := "pvc-" + string(claim.GetUID())
	if claim.GetUID() == "" { // a bare fake gives none
		name = dashed("pvc", claim.GetNamespace(), claim.GetName())
	}
	size := specString(claim, "spec", "resources", "requests", "storage")
	if size == "" {
		return nil, errors.New("the claim requests no storage")
	}
	modes, _, _ := unstructured.NestedStringSlice(claim.Object, "spec", "accessModes")
	var accessModes []corev1.PersistentVolumeAccessMode
	for _, mode := range modes {
		accessModes = append(accessModes, corev1.PersistentVolumeAccessMode(mode))
	}
	pv := Claim{
		Namespace: claim.GetNamespace(), Name: claim.GetName(), UID: claim.GetUID(), Size: size, Class: class.GetName(), AccessModes: accessModes,
		Driver: specString(class, "provisioner"), VolumeName: name, VolumeHandle: "handle-" + name,
		ReclaimPolicy: corev1.PersistentVolumeReclaimPolicy(specString(class, "reclaimPolicy")),
	}.PV()
	pv.UID = ""
	pv.Spec.ClaimRef.UID = claim.GetUID()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pv)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: object}, nil
}

// bindToExisting binds a claim that names its volume, once that is there and free.
func (r *provisionerRun) bindToExisting(ctx context.Context, claim *unstructured.Unstructured, name string) verdict {
	pv, err := r.client.Resource(volumesResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return waiting
	}
	owner := specString(pv, "spec", "claimRef", "namespace") + "/" + specString(pv, "spec", "claimRef", "name")
	if owner != "/" && owner != objectKey(claim) {
		return waiting
	}
	ref := map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.GetNamespace(), "name": claim.GetName(), "uid": string(claim.GetUID()),
	}
	if err := r.patch(ctx, volumesResource, pv, map[string]any{"spec": map[string]any{"claimRef": ref}}); err != nil {
		return waiting
	}
	if r.bind(ctx, claim, pv, "") != nil {
		return waiting
	}
	return settled
}
