package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

func (s *Server) update(ctx context.Context, c *call) (*http.Response, error) {
	u, err := c.decode()
	if err != nil {
		return nil, err
	}
	if name := u.GetName(); name != c.info.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, c.info.Name))
	}
	if namespace := u.GetNamespace(); c.res.Namespaced && namespace != "" && namespace != c.info.Namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the URL (%s)", namespace, c.info.Namespace))
	}
	if c.res.conditional && u.GetResourceVersion() == "" {
		return nil, c.res.invalid(u, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	return s.change(ctx, c, func(old *object) (*unstructured.Unstructured, error) {
		if uid := u.GetUID(); uid != "" {
			if err := c.allowed(old, &metav1.Preconditions{UID: &uid}); err != nil {
				return nil, err
			}
		}
		return u, nil
	})
}

// change replaces an object by what next makes of it, which is called once, under the lock, and may not touch its
// argument. An unchanged object is not written.
func (s *Server) change(ctx context.Context, c *call, next func(*object) (*unstructured.Unstructured, error)) (*http.Response, error) {
	o, err := s.replace(c, next)
	if err != nil {
		return nil, err
	}
	if err := s.persist(ctx); err != nil {
		return nil, err
	}
	return c.object(http.StatusOK, o)
}

func (s *Server) replace(c *call, next func(*object) (*unstructured.Unstructured, error)) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := c.table.get(c.info.Namespace, c.info.Name)
	if old == nil {
		return nil, apierrors.NewNotFound(c.res.groupResource(), c.info.Name)
	}
	u, err := next(old)
	if err != nil {
		return nil, err
	}
	if rv := u.GetResourceVersion(); rv != "" && rv != old.u.GetResourceVersion() {
		return nil, apierrors.NewConflict(c.res.groupResource(), c.info.Name, errModified)
	}
	c.restrict(old, u)
	if err := c.res.succeed(old, u); err != nil {
		return nil, err
	}
	switch {
	case apiequality.Semantic.DeepEqual(old.u.Object, u.Object):
		return old, nil
	case c.dryRun():
		return newObject(u, old.rv)
	case u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0 && !c.res.isNamespace():
		return s.vanish(c, old, u)
	}
	o, err := s.put(c.table, old, u)
	if err == nil && c.res.isNamespace() {
		err = s.release(o.u.GetName())
	}
	return o, err
}

// vanish removes an object whose last finalizer has gone.
func (s *Server) vanish(c *call, old *object, u *unstructured.Unstructured) (*object, error) {
	o, err := s.remove(c.table, old, u)
	if err == nil && c.res.Namespaced {
		err = s.release(c.info.Namespace)
	}
	return o, err
}

// restrict takes back what a write of this subresource may not change.
func (c *call) restrict(old *object, u *unstructured.Unstructured) {
	if c.info.Subresource == "" {
		if c.res.Status {
			carry(old.u, u, "status")
		}
		return
	}
	kept := u.Object["metadata"]
	if !c.res.builtin {
		kept = runtime.DeepCopyJSONValue(old.u.Object["metadata"])
	}
	status, ok := u.Object["status"]
	u.Object = maps.Clone(old.u.Object)
	u.Object["metadata"] = kept
	delete(u.Object, "status")
	if ok {
		u.Object["status"] = status
	}
}
