package backuptest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// errTrouble says that the API server did not answer what the real controller reads from its cache: no reason to say anything.
var errTrouble = errors.New("no answer from the API server")

// setDefaultClass names the default class of the volume's driver in the snapshot.
func (r *controllerRun) setDefaultClass(ctx context.Context, vs *unstructured.Unstructured) verdict {
	name, err := r.defaultClass(ctx, vs)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, errTrouble) {
			return waiting
		}
		return r.failSnapshot(ctx, vs, false, "SetDefaultSnapshotClassFailed", fmt.Sprintf("Failed to set default snapshot class with error %v", err))
	}
	_, err = r.patchObject(ctx, r.snapshots, vs, "", func(*unstructured.Unstructured) map[string]any {
		return map[string]any{"spec": map[string]any{"volumeSnapshotClassName": name}}
	})
	return afterStep(err)
}

func (r *controllerRun) defaultClass(ctx context.Context, vs *unstructured.Unstructured) (string, error) {
	pv, err := r.volumeOf(ctx, vs)
	if err != nil {
		return "", err
	}
	driver := specString(pv, "spec", "csi", "driver")
	if driver == "" {
		return "", fmt.Errorf("snapshotting non-CSI volumes is not supported, snapshot:%s", objectKey(vs))
	}
	classes, err := r.client.Resource(classesResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("%w: %w", errTrouble, err)
	}
	var defaults []string
	for _, class := range classes.Items {
		if class.GetAnnotations()[isDefaultClassAnnotation] == "true" && specString(&class, "driver") == driver {
			defaults = append(defaults, class.GetName())
		}
	}
	switch len(defaults) {
	case 0:
		return "", errors.New("cannot find default snapshot class")
	case 1:
		return defaults[0], nil
	default:
		return "", fmt.Errorf("%d default snapshot classes were found", len(defaults))
	}
}

// makeContent protects the claim and creates the content.
func (r *controllerRun) makeContent(ctx context.Context, vs *unstructured.Unstructured) verdict {
	content, pv, err := r.buildContent(ctx, vs)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, errTrouble) {
			return waiting
		}
		return r.failSnapshot(ctx, vs, true, "SnapshotContentCreationFailed", fmt.Sprintf("Failed to create snapshot content with error %v", err))
	}
	if err := r.snapshotRate.spend(ctx, costContent); err != nil {
		return waiting
	}
	r.setSource(content.GetName(), contentSource{claim: sourceClaim(vs), driver: specString(pv, "spec", "csi", "driver")})
	created, err := r.client.Resource(contentsResource).Create(ctx, content, metav1.CreateOptions{FieldManager: "snapshot-controller"})
	if apierrors.IsAlreadyExists(err) {
		return r.meetContent(ctx, content.GetName())
	}
	if err != nil {
		return waiting
	}
	r.setFresh(vs, true)
	r.contents.see(created, false, false)
	r.event(ctx, vs, snapshotComponent, normalEvent, "CreatingSnapshot", "Waiting for a snapshot "+objectKey(vs)+" to be created by the CSI driver.")
	return stepped
}

// meetContent reads a content that exists though no watch has told of it.
func (r *controllerRun) meetContent(ctx context.Context, name string) verdict {
	content, err := r.client.Resource(contentsResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return waiting
	}
	r.contents.see(content, false, true)
	return waiting
}

func (r *controllerRun) buildContent(ctx context.Context, vs *unstructured.Unstructured) (content, pv *unstructured.Unstructured, err error) {
	if err := r.protectClaim(ctx, vs); err != nil {
		return nil, nil, err
	}
	class, err := r.classOf(ctx, vs)
	if err == nil {
		pv, err = r.volumeOf(ctx, vs)
	}
	if errors.Is(err, errTrouble) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("failed to get input parameters to create snapshot %s: %q", vs.GetName(), err.Error())
	}
	handle := specString(pv, "spec", "csi", "volumeHandle")
	if handle == "" {
		return nil, nil, fmt.Errorf("cannot find CSI PersistentVolumeSource for volume %s", pv.GetName())
	}
	content = newContent(contentSpec{
		Name: contentNameFor(vs.GetNamespace(), vs.GetName(), vs.GetUID()), Namespace: vs.GetNamespace(), Snapshot: vs.GetName(),
		SnapshotUID: vs.GetUID(), Class: class.GetName(), Driver: specString(class, "driver"),
		Policy: orString(specString(class, "deletionPolicy"), policyDelete), VolumeHandle: handle,
	})
	if mode := specString(pv, "spec", "volumeMode"); mode != "" {
		_ = unstructured.SetNestedField(content.Object, mode, "spec", "sourceVolumeMode")
	}
	return content, pv, nil
}

func (r *controllerRun) classOf(ctx context.Context, vs *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name := specString(vs, "spec", "volumeSnapshotClassName")
	class, err := r.client.Resource(classesResource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// The real controller's lister has the singular in its text, the API server the plural.
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: snapshotGroup, Resource: "volumesnapshotclass"}, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTrouble, err)
	}
	return class, nil
}

func (r *controllerRun) claimOf(ctx context.Context, claim types.NamespacedName) (*unstructured.Unstructured, error) {
	pvc, err := r.client.Resource(claimsResource).Namespace(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// The real controller's lister names the kind, not the resource.
		return nil, fmt.Errorf("failed to retrieve PVC %s from the lister: %q", claim.Name, fmt.Sprintf("persistentvolumeclaim %q not found", claim.Name))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTrouble, err)
	}
	return pvc, nil
}

// volumeOf returns the volume that the snapshot's claim is bound to.
func (r *controllerRun) volumeOf(ctx context.Context, vs *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return r.volumeOfClaim(ctx, sourceClaim(vs))
}

func (r *controllerRun) volumeOfClaim(ctx context.Context, claim types.NamespacedName) (*unstructured.Unstructured, error) {
	pvc, err := r.claimOf(ctx, claim)
	if err != nil {
		return nil, err
	}
	if specString(pvc, "status", "phase") != "Bound" {
		return nil, fmt.Errorf("the PVC %s is not yet bound to a PV, will not attempt to take a snapshot", pvc.GetName())
	}
	name := specString(pvc, "spec", "volumeName")
	pv, err := r.client.Resource(volumesResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to retrieve PV %s from the API server: %q", name, err.Error())
	}
	if specString(pv, "spec", "claimRef", "namespace") != pvc.GetNamespace() || specString(pv, "spec", "claimRef", "name") != pvc.GetName() {
		return nil, errors.New("claim in dataSource not bound or invalid")
	}
	return pv, nil
}

// protectClaim adds the claim's finalizer.
func (r *controllerRun) protectClaim(ctx context.Context, vs *unstructured.Unstructured) error {
	failed := func(name, text string) error {
		return fmt.Errorf("snapshot controller failed to update %s on API server: %s", name, text)
	}
	for range conflictTries {
		pvc, err := r.claimOf(ctx, sourceClaim(vs))
		switch {
		case errors.Is(err, errTrouble):
			return err
		case err != nil:
			return failed(vs.GetName(), "cannot get claim from snapshot")
		case hasFinalizer(pvc, claimFinalizer):
			return nil
		case isDeleting(pvc):
			return failed(pvc.GetName(), "cannot add finalizer on claim because it is being deleted")
		}
		err = r.patchClaim(ctx, pvc, append(pvc.GetFinalizers(), claimFinalizer))
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return failed(pvc.GetName(), err.Error())
		}
		return nil
	}
	return fmt.Errorf("%w: claim %s is a conflict after %d tries", errTrouble, sourceClaim(vs), conflictTries)
}

// releaseClaimOnce looks whether the claim of a ready snapshot is not needed any more, until it is not, and reports whether that could
// be found out. As long as another seems to need it, that one looks: what is known of it may be older than it is.
func (r *controllerRun) releaseClaimOnce(ctx context.Context, vs *unstructured.Unstructured) bool {
	r.memo.Lock()
	done := r.released[memoKey(vs)]
	r.memo.Unlock()
	if done {
		return true
	}
	free, err := r.releaseClaim(ctx, vs, false)
	if err != nil {
		return false
	}
	r.memo.Lock()
	defer r.memo.Unlock()
	if free {
		r.released[memoKey(vs)] = true
	}
	return true
}

// releaseClaim removes the claim's finalizer unless a snapshot of it is not ready; with except, other than vs. It reports whether the
// claim is free.
func (r *controllerRun) releaseClaim(ctx context.Context, vs *unstructured.Unstructured, except bool) (free bool, err error) {
	claim := sourceClaim(vs)
	if claim.Name == "" {
		return true, nil
	}
	for range conflictTries {
		pvc, err := r.client.Resource(claimsResource).Namespace(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		case !hasFinalizer(pvc, claimFinalizer):
			return true, nil
		case r.claimInUse(claim, vs, except):
			return false, nil
		}
		kept := slices.DeleteFunc(pvc.GetFinalizers(), func(f string) bool { return f == claimFinalizer })
		if err := r.patchClaim(ctx, pvc, kept); !apierrors.IsConflict(err) {
			return err == nil, err
		}
	}
	return false, fmt.Errorf("release claim %s: still a conflict after %d tries", claim, conflictTries)
}

func (r *controllerRun) claimInUse(claim types.NamespacedName, vs *unstructured.Unstructured, except bool) bool {
	r.memo.Lock()
	defer r.memo.Unlock()
	users := r.unready[claim]
	if except && users[memoKey(vs)] {
		return len(users) > 1
	}
	return len(users) > 0
}

func (r *controllerRun) patchClaim(ctx context.Context, pvc *unstructured.Unstructured, finalizers []string) error {
	patch, err := mergePatch(finalizersPatch(finalizers), pvc.GetResourceVersion())
	if err != nil {
		return err
	}
	_, err = r.client.Resource(claimsResource).Namespace(pvc.GetNamespace()).Patch(ctx, pvc.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "snapshot-controller"})
	return err
}
