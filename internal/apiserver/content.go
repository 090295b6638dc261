package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// content is what is left in a namespace: how many objects of each resource, and how many of them each finalizer holds.
type content struct {
	resources, finalizers map[string]int
}

func (c content) empty() bool { return len(c.resources) == 0 }

// contentOf counts what is in a namespace. It needs the lock.
func (s *Server) contentOf(namespace string) content {
	left := content{resources: map[string]int{}, finalizers: map[string]int{}}
	for _, t := range s.tables {
		if !t.res.Namespaced {
			continue
		}
		for _, o := range t.within(namespace) {
			left.resources[t.res.Plural+"."+t.res.Group]++
			for _, finalizer := range o.tree().GetFinalizers() {
				left.finalizers[finalizer]++
			}
		}
	}
	return left
}

// report writes what is left into the conditions of a namespace, as the real namespace controller words them.
func (c content) report(namespace *unstructured.Unstructured) error {
	remaining, holding := "All content successfully removed", "All content-preserving finalizers finished"
	if len(c.resources) > 0 {
		remaining = "Some resources are remaining: " + counted(c.resources, "%s has %d resource instances")
	}
	if len(c.finalizers) > 0 {
		holding = "Some content in the namespace has finalizers remaining: " + counted(c.finalizers, "%s in %d resource instances")
	}
	var status corev1.NamespaceStatus
	if raw, ok := namespace.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status); err != nil {
			return err
		}
	}
	if len(status.Conditions) == 0 && c.empty() {
		return nil // nothing was ever left: it is gone before anybody looks
	}
	set := func(kind corev1.NamespaceConditionType, failed bool, whenTrue, whenFalse, message string) {
		status.Conditions = withCondition(status.Conditions, kind, failed, map[bool]string{true: whenTrue, false: whenFalse}[failed], message)
	}
	set(corev1.NamespaceDeletionDiscoveryFailure, false, "", "ResourcesDiscovered", "All resources successfully discovered")
	set(corev1.NamespaceDeletionGVParsingFailure, false, "", "ParsedGroupVersions", "All legacy kube types successfully parsed")
	set(corev1.NamespaceDeletionContentFailure, false, "", "ContentDeleted", "All content successfully deleted, may be waiting on finalization")
	set(corev1.NamespaceContentRemaining, len(c.resources) > 0, "SomeResourcesRemain", "ContentRemoved", remaining)
	set(corev1.NamespaceFinalizersRemaining, len(c.finalizers) > 0, "SomeFinalizersRemain", "ContentHasNoFinalizers", holding)
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	namespace.Object["status"] = raw
	return nil
}

func counted(counts map[string]int, format string) string {
	parts := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf(format, name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

func withCondition(list []corev1.NamespaceCondition, kind corev1.NamespaceConditionType, failed bool, reason, message string) []corev1.NamespaceCondition {
	status := corev1.ConditionFalse
	if failed {
		status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(list, func(c corev1.NamespaceCondition) bool { return c.Type == kind })
	if i < 0 {
		return append(list, corev1.NamespaceCondition{Type: kind, Status: status, LastTransitionTime: now(), Reason: reason, Message: message})
	}
	if list[i].Status != status {
		list[i].LastTransitionTime = now()
	}
	list[i].Status, list[i].Reason, list[i].Message = status, reason, message
	return list
}
