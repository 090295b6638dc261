package csisnapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// refOf names the pod.
func refOf(pod *corev1.Pod) PodRef {
	return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// sortedPods are the pods in the order of their names, so that a plan does not depend on the order of the list.
func sortedPods(pods []corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, len(pods))
	for i := range pods {
		out[i] = &pods[i]
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// ended reports whether the pod has finished for good and so uses no volume any more.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// helpedPods are the pods that are controlled by another pod, by the other's UID: they hold volumes for it, as those do by
// which KubeVirt plugs a disk into a running virtual machine.
func helpedPods(pods []*corev1.Pod) map[types.UID][]*corev1.Pod {
	helpers := map[types.UID][]*corev1.Pod{}
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Pod" && owner.UID != "" && !ended(pod) {
			helpers[owner.UID] = append(helpers[owner.UID], pod)
		}
	}
	return helpers
}

// plannedClaims are the planned claims that the pod mounts, by itself or by its helpers, each once, sorted.
func plannedClaims(volumes map[claimKey]Volume, pod *corev1.Pod, helpers ...*corev1.Pod) []claimKey {
	var claims []claimKey
	for _, by := range append(slices.Clone(helpers), pod) {
		for _, v := range by.Spec.Volumes {
			key := claimKey{namespace: by.Namespace}
			switch {
			case v.PersistentVolumeClaim != nil:
				key.name = v.PersistentVolumeClaim.ClaimName
			case v.Ephemeral != nil:
				key.name = by.Name + "-" + v.Name
			}
			if _, ok := volumes[key]; ok && !slices.Contains(claims, key) {
				claims = append(claims, key)
			}
		}
	}
	slices.SortFunc(claims, func(a, b claimKey) int { return strings.Compare(a.name, b.name) })
	return claims
}

// controllerOf identifies what controls the pod. All ReplicaSets of a Deployment count as that Deployment: the name of
// such a ReplicaSet is the Deployment's with the pod's template hash behind it.
func controllerOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	hash := pod.Labels["pod-template-hash"]
	if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && hash != "" && owner.Kind == "ReplicaSet" {
		return "Deployment/" + pod.Namespace + "/" + name
	}
	if owner.UID != "" {
		return string(owner.UID)
	}
	return owner.Kind + "/" + pod.Namespace + "/" + owner.Name
}

// podHooks asks the user's function for the pod's hooks; its panic is an error.
func podHooks(hooks func(*corev1.Pod) (PodHooks, error), pod *corev1.Pod) (found PodHooks, err error) {
	if hooks == nil {
		return PodHooks{}, nil
	}
	defer func() {
		if r := recover(); r != nil {
			found, err = PodHooks{}, fmt.Errorf("panic: %v", r)
		}
	}()
	return hooks(pod)
}

// batchKey asks the user's function for the pod's key; its panic is an error.
func batchKey(key BatchKey, pod *corev1.Pod) (found string, err error) {
	if key == nil {
		return "", nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return key(pod), nil
}

// cannotRun says why the hooks cannot run in the pod now; empty when they can. All their containers must run: a pod
// whose post hook has no container would stay frozen.
func cannotRun(pod *corev1.Pod, hooks PodHooks) string {
	if pod.Status.Phase != corev1.PodRunning {
		phase := string(pod.Status.Phase)
		if phase == "" {
			phase = "without status"
		}
		return "pod is " + phase
	}
	for _, h := range slices.Concat(hooks.Pre, hooks.Post) {
		if name := containerOf(pod, h); !runs(pod, name) {
			return fmt.Sprintf("container %s does not run", name)
		}
	}
	return ""
}

// containerOf is the container that the hook runs in.
func containerOf(pod *corev1.Pod, h Hook) string {
	if h.Container == "" && len(pod.Spec.Containers) > 0 {
		return pod.Spec.Containers[0].Name
	}
	return h.Container
}

// runs reports whether the container runs now. Init containers count: a restartable one runs beside the others.
func runs(pod *corev1.Pod, container string) bool {
	for _, s := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if s.Name == container {
			return s.State.Running != nil
		}
	}
	return false
}
