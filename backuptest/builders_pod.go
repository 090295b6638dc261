package backuptest

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Pod builds a pod that uses claims. Only Namespace and Name are needed: a zero field takes the default that its comment
// names.
type Pod struct {
	Namespace, Name string
	UID             types.UID // UIDOf("Pod", Namespace, Name)
	Claims          []string  // the claims it mounts, each as a volume named volume-CLAIM; none
	Labels          map[string]string
	Annotations     map[string]string
	// Owner is the controller of the pod, such as [ControllerOf] returns; nil: none.
	Owner *metav1.OwnerReference
	// Phase defaults to Running.
	Phase corev1.PodPhase
	// Containers defaults to one container "main".
	Containers []string
	// NotRunning names containers that do not run although the pod's phase is Running.
	NotRunning []string
	// Node defaults to "node-1", and to none for a Pending pod.
	Node string
}

// ControllerOf returns a reference to the controller of a pod, as kind "StatefulSet" of API version "apps/v1" sets it. Its UID
// is [UIDOf] of kind, namespace and name, so that pods of one controller have equal references.
func ControllerOf(apiVersion, kind, namespace, name string) *metav1.OwnerReference {
	return &metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: name, UID: UIDOf(kind, namespace, name),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// Object returns the pod.
func (p Pod) Object() *corev1.Pod {
	phase := p.Phase
	if phase == "" {
		phase = corev1.PodRunning
	}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: orUID(p.UID, "Pod", p.Namespace, p.Name),
			Labels: maps.Clone(p.Labels), Annotations: maps.Clone(p.Annotations),
		},
		Status: corev1.PodStatus{Phase: phase},
	}
	if p.Owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*p.Owner.DeepCopy()}
	}
	if phase != corev1.PodPending {
		pod.Spec.NodeName = orString(p.Node, "node-1")
	}
	for _, claim := range p.Claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: "volume-" + claim,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			},
		})
	}
	p.addContainers(pod, phase)
	return pod
}

// Objects returns the pod. A NotRunning container that it has not is an error where it is stored.
func (p Pod) Objects() []runtime.Object {
	return built("Pod", p.Namespace, p.Name, func() []runtime.Object { return []runtime.Object{p.Object()} }, p.wrong())
}

const defaultContainer = "main"

func (p Pod) addContainers(pod *corev1.Pod, phase corev1.PodPhase) {
	names := p.Containers
	if len(names) == 0 {
		names = []string{defaultContainer}
	}
	stopped := map[string]bool{}
	for _, name := range p.NotRunning {
		stopped[name] = true
	}
	for _, name := range names {
		container := corev1.Container{Name: name, Image: "registry.example/app:1"}
		for _, claim := range p.Claims {
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "volume-" + claim, MountPath: "/" + claim})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		running := phase == corev1.PodRunning && !stopped[name]
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Image: container.Image, Ready: running, Started: new(running), State: containerState(phase, running),
		})
	}
}

func containerState(phase corev1.PodPhase, running bool) corev1.ContainerState {
	switch {
	case running:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	case phase == corev1.PodSucceeded:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	case phase == corev1.PodPending:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	default:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}}
	}
}
