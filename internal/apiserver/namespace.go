package apiserver

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errImmortal = errors.New("this namespace may not be deleted")

func immortal(name string) bool {
	return name == metav1.NamespaceDefault || name == metav1.NamespaceSystem || name == metav1.NamespacePublic
}

func (r *Resource) isNamespace() bool { return r.builtin && r.Group == "" && r.Kind == "Namespace" }

// admit refuses a new object whose namespace is not there or is being deleted. It needs the lock.
func (s *Server) admit(res *Resource, u *unstructured.Unstructured) error {
	name := u.GetNamespace()
	namespaces := s.table("", "namespaces")
	if namespaces == nil {
		return nil
	}
	o := namespaces.get("", name)
	if o == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	if o.tree().GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(res.groupResource(), u.GetName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", name))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", name),
		Field:   "metadata.namespace",
	})
	return err
}

// terminate begins the deletion of a namespace: everything in it is deleted, and the namespace goes when the last object
// has gone. It needs the lock.
func (s *Server) terminate(t *table, old *object, opts *metav1.DeleteOptions) (*object, error) {
	if old.tree().GetDeletionTimestamp() != nil {
		return old, nil
	}
	u := old.tree().DeepCopy()
	deleted := now()
	u.SetDeletionTimestamp(&deleted)
	u.SetFinalizers(t.res.holders(u.GetFinalizers(), opts))
	if err := unstructured.SetNestedField(u.Object, string(corev1.NamespaceTerminating), "status", "phase"); err != nil {
		return nil, err
	}
	o, err := s.put(t, old, u)
	if err != nil {
		return nil, err
	}
	name := old.tree().GetName()
	background := metav1.DeletePropagationBackground
	for _, content := range s.sorted() {
		if !content.res.Namespaced {
			continue
		}
		for _, object := range cloned(content.within(name)) {
			if _, err := s.end(content, object, &metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
				return nil, err
			}
		}
	}
	return o, s.release(name)
}

// settle does what follows from the deletion of objects of a resource in a namespace, or in all for "". It needs the lock.
func (s *Server) settle(res *Resource, namespace string) error {
	if !res.Namespaced {
		return nil
	}
	names := []string{namespace}
	if t := s.table("", "namespaces"); namespace == "" && t != nil {
		names = names[:0]
		for _, o := range t.objects {
			names = append(names, o.tree().GetName())
		}
	}
	for _, name := range names {
		if err := s.release(name); err != nil {
			return err
		}
	}
	return nil
}

// release tells in the status of a namespace that is being deleted what is left in it, gives up its spec's finalizer
// "kubernetes" once nothing is, and removes it when no finalizer of spec or metadata holds it. It needs the lock.
func (s *Server) release(name string) error {
	t := s.table("", "namespaces")
	if t == nil {
		return nil
	}
	o := t.get("", name)
	if o == nil || o.tree().GetDeletionTimestamp() == nil {
		return nil
	}
	u := o.tree().DeepCopy()
	left := s.contentOf(name)
	if err := left.report(u); err != nil {
		return err
	}
	finalizers, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "finalizers")
	if left.empty() {
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f == string(corev1.FinalizerKubernetes) })
		if err := unstructured.SetNestedStringSlice(u.Object, finalizers, "spec", "finalizers"); err != nil {
			return err
		}
		if len(finalizers) == 0 {
			u.Object["spec"] = map[string]any{}
		}
	}
	var err error
	switch {
	case left.empty() && len(finalizers) == 0 && len(u.GetFinalizers()) == 0:
		_, err = s.remove(t, o, u)
	case !apiequality.Semantic.DeepEqual(o.tree().Object, u.Object):
		_, err = s.put(t, o, u)
	}
	return err
}
