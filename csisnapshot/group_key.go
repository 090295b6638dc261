package csisnapshot

import corev1 "k8s.io/api/core/v1"

// BatchKey puts pods of the same key into one batch, frozen together. The empty key puts the pod by itself, which is what a
// nil BatchKey does with every pod. Pods that share a volume share a batch whatever their keys.
type BatchKey func(pod *corev1.Pod) string

// ByLabel is a [BatchKey] that puts together the pods of a namespace that have the same value of the label, such as
// "app.kubernetes.io/instance" for an application. Pods without the label are by themselves.
func ByLabel(label string) BatchKey {
	return func(pod *corev1.Pod) string { return pod.Labels[label] }
}

// vmLabel holds the name of the virtual machine that a pod of KubeVirt's runs.
const vmLabel = "vm.kubevirt.io/name"

// ByVM is a [BatchKey] that puts together the pods of one KubeVirt virtual machine, which has two while it moves to another
// node. The pods that hold disks plugged in while it runs belong to it by any key, as they are controlled by its pod.
func ByVM() BatchKey { return ByLabel(vmLabel) }

// Undivided is a [BatchKey] that makes all pods of a namespace one batch, so that everything is cut while all is frozen.
func Undivided() BatchKey {
	return func(*corev1.Pod) string { return "all" }
}
