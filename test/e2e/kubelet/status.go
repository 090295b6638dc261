package kubelet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PhaseAnnotation on a pod asks for a phase other than Running: Pending, Succeeded or Failed.
const PhaseAnnotation = "e2e.sheetanchor.io/phase"

// address is the IP of every pod and of the node.
const address = "127.0.0.1"

// wantedPhase is the phase a pod gets: Running, or what its annotation says.
func wantedPhase(pod *corev1.Pod) (corev1.PodPhase, error) {
	switch phase := corev1.PodPhase(pod.Annotations[PhaseAnnotation]); phase {
	case "", corev1.PodRunning:
		return corev1.PodRunning, nil
	case corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed:
		return phase, nil
	default:
		return "", fmt.Errorf("pod %s/%s: annotation %s: %q: want Running, Pending, Succeeded or Failed",
			pod.Namespace, pod.Name, PhaseAnnotation, phase)
	}
}

// settled reports whether the pod's status says what phase asks for, or has ended for good.
func settled(pod *corev1.Pod, phase corev1.PodPhase) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		return true
	case phase:
		return pod.Status.StartTime != nil && len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers)
	default:
		return false
	}
}

// newStatus is the status of a pod in a phase.
func newStatus(pod *corev1.Pod, phase corev1.PodPhase, now metav1.Time) corev1.PodStatus {
	started := pod.Status.StartTime
	if started == nil {
		started = &now
	}
	return corev1.PodStatus{
		Phase:                 phase,
		StartTime:             started,
		HostIP:                address,
		HostIPs:               []corev1.HostIP{{IP: address}},
		PodIP:                 address,
		PodIPs:                []corev1.PodIP{{IP: address}},
		QOSClass:              pod.Status.QOSClass,
		Conditions:            conditions(phase, now),
		InitContainerStatuses: initStatuses(pod, phase, now),
		ContainerStatuses:     containerStatuses(pod.Spec.Containers, stateIn(phase, now)),
	}
}

func conditions(phase corev1.PodPhase, now metav1.Time) []corev1.PodCondition {
	ready, reason := corev1.ConditionTrue, ""
	switch phase {
	case corev1.PodRunning:
	case corev1.PodSucceeded:
		ready, reason = corev1.ConditionFalse, "PodCompleted"
	default:
		ready, reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	return []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.ContainersReady, Status: ready, Reason: reason, LastTransitionTime: now},
		{Type: corev1.PodReady, Status: ready, Reason: reason, LastTransitionTime: now},
	}
}

// initStatuses are those of init containers: ended, but for sidecars, which are as the other containers.
func initStatuses(pod *corev1.Pod, phase corev1.PodPhase, now metav1.Time) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range pod.Spec.InitContainers {
		if isSidecar(c) {
			out = append(out, containerStatuses([]corev1.Container{c}, stateIn(phase, now))...)
			continue
		}
		done := containerStatuses([]corev1.Container{c}, terminated(0, "Completed", now))
		done[0].Ready = true // a kubelet says so of an init container that has done its work
		out = append(out, done...)
	}
	return out
}

func isSidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func containerStatuses(containers []corev1.Container, state corev1.ContainerState) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, 0, len(containers))
	for _, c := range containers {
		out = append(out, corev1.ContainerStatus{
			Name:        c.Name,
			Image:       c.Image,
			ImageID:     c.Image,
			ContainerID: "stub://" + c.Name,
			Ready:       state.Running != nil,
			Started:     new(state.Running != nil),
			State:       state,
		})
	}
	return out
}

func stateIn(phase corev1.PodPhase, now metav1.Time) corev1.ContainerState {
	switch phase {
	case corev1.PodRunning:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	case corev1.PodSucceeded:
		return terminated(0, "Completed", now)
	case corev1.PodFailed:
		return terminated(1, "Error", now)
	default:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	}
}

func terminated(code int32, reason string, now metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: now, FinishedAt: now,
	}}
}

// running reports whether a container of the pod runs, by the pod's phase.
func running(pod *corev1.Pod, container string) bool {
	if phase, err := wantedPhase(pod); err != nil || phase != corev1.PodRunning {
		return false
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return true
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if c.Name == container && isSidecar(c) {
			return true
		}
	}
	return false
}
