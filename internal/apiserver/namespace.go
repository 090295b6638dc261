package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	if o.u.GetDeletionTimestamp() == nil {
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
func (s *Server) terminate(t *table, old *object) (*object, error) {
	o := old
	if old.u.GetDeletionTimestamp() == nil {
		u := old.u.DeepCopy()
		deleted := now()
		u.SetDeletionTimestamp(&deleted)
		if err := unstructured.SetNestedField(u.Object, string(corev1.NamespaceTerminating), "status", "phase"); err != nil {
			return nil, err
		}
		var err error
		if o, err = s.put(t, old, u); err != nil {
			return nil, err
		}
	}
	name := old.u.GetName()
	for _, content := range s.sorted() {
		if !content.res.Namespaced {
			continue
		}
		for _, object := range cloned(content.within(name)) {
			if _, err := s.end(content, object); err != nil {
				return nil, err
			}
		}
	}
	return o, s.release(name)
}

// release removes a namespace that is being deleted once nothing holds it. It needs the lock.
func (s *Server) release(name string) error {
	t := s.table("", "namespaces")
	if t == nil {
		return nil
	}
	o := t.get("", name)
	if o == nil || o.u.GetDeletionTimestamp() == nil || len(o.u.GetFinalizers()) > 0 {
		return nil
	}
	for _, content := range s.tables {
		if content.res.Namespaced && len(content.within(name)) > 0 {
			return nil
		}
	}
	_, err := s.remove(t, o, o.u.DeepCopy())
	return err
}
