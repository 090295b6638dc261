package backuptest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// bind makes a volume and a claim each other's.
func (r *provisionerRun) bind(ctx context.Context, claim, pv *unstructured.Unstructured, driver string) error {
	if err := r.patch(ctx, volumesResource, pv, map[string]any{"status": map[string]any{"phase": string(corev1.VolumeBound)}}, "status"); err != nil {
		return err
	}
	annotations := map[string]any{bindCompletedAnnotation: "yes"}
	if driver != "" {
		annotations[boundByAnnotation], annotations[provisionerAnnotation] = "yes", driver
	}
	change := map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"volumeName": pv.GetName()}}
	if err := r.patch(ctx, claimsResource, claim, change); err != nil {
		return err
	}
	status := map[string]any{"phase": string(corev1.ClaimBound)}
	if spec, found, _ := unstructured.NestedMap(pv.Object, "spec"); found {
		status["capacity"], status["accessModes"] = spec["capacity"], spec["accessModes"]
	}
	return r.patch(ctx, claimsResource, claim, map[string]any{"status": status}, "status")
}

// protect sets or removes the finalizer that keeps a claim while pods use it. The real API server sets it at creation.
func (r *provisionerRun) protect(ctx context.Context, claim *unstructured.Unstructured, on bool) verdict {
	finalizers := slices.DeleteFunc(claim.GetFinalizers(), func(f string) bool { return f == claimProtection })
	if on {
		finalizers = append(finalizers, claimProtection)
	}
	patch, err := mergePatch(finalizersPatch(finalizers), claim.GetResourceVersion())
	if err != nil {
		return waiting
	}
	_, err = r.client.Resource(claimsResource).Namespace(claim.GetNamespace()).Patch(ctx, claim.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "csi-provisioner"})
	if notFoundIsFine(err) != nil {
		return waiting
	}
	return settled // its event brings the next look
}

// unprotect lets a deleted claim go once no pod uses it.
func (r *provisionerRun) unprotect(ctx context.Context, claim *unstructured.Unstructured) verdict {
	if !hasFinalizer(claim, claimProtection) {
		return settled
	}
	pods, err := r.client.Resource(podsResource).Namespace(claim.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return waiting
	}
	for i := range pods.Items {
		if mounts(&pods.Items[i], claim.GetName()) {
			return waiting
		}
	}
	return r.protect(ctx, claim, false)
}

// mounts reports whether a pod that is not over uses a claim.
func mounts(pod *unstructured.Unstructured, claim string) bool {
	phase := corev1.PodPhase(specString(pod, "status", "phase"))
	if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return false
	}
	list, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	return slices.ContainsFunc(list, func(v any) bool {
		volume, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName")
		return name == claim
	})
}

func (r *provisionerRun) patch(
	ctx context.Context, resource schema.GroupVersionResource, object *unstructured.Unstructured, change map[string]any, sub ...string,
) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = r.client.Resource(resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: "csi-provisioner"}, sub...)
	return err
}

// event records an event on a claim, each text once. One that cannot be recorded is lost.
func (r *provisionerRun) event(ctx context.Context, claim, class *unstructured.Unstructured, kind, reason, message string) {
	id := string(claim.GetUID()) + "/" + objectKey(claim) + "/" + message
	r.mu.Lock()
	told := r.told[id]
	r.told[id] = true
	number := len(r.told)
	r.mu.Unlock()
	if told {
		return
	}
	recordEvent(ctx, r.client, claim, eventText{
		component: fmt.Sprintf("%s_provisioner", specString(class, "provisioner")), kind: kind, reason: reason, message: message, number: number,
	})
}
