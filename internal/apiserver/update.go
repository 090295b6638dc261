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
	if rv := u.GetResourceVersion(); rv != "" && rv != old.tree().GetResourceVersion() {
		return nil, apierrors.NewConflict(c.res.groupResource(), c.info.Name, errModified)
	}
	c.restrict(old, u)
	if err := c.res.succeed(old, u); err != nil {
		return nil, err
	}
	if c.res.isDefinition() && c.info.Subresource == "" {
		if _, faults := define(u); len(faults) > 0 {
			return nil, c.res.invalid(u, faults)
		}
	}
	switch {
	case apiequality.Semantic.DeepEqual(old.tree().Object, u.Object):
		return old, nil
	case c.dryRun():
		return newObject(u, old.rv)
	case endsBy(old.tree(), u) && !c.res.isNamespace():
		return s.vanish(c, old, u)
	}
	if c.res.isDefinition() && c.info.Subresource == "" && u.GetDeletionTimestamp() == nil {
		if err := s.establish(u); err != nil {
			return nil, err
		}
	}
	o, err := s.put(c.table, old, u)
	if err == nil && c.res.isNamespace() {
		err = s.release(o.tree().GetName())
	}
	return o, err
}

// vanish removes an object whose last finalizer has gone.
func (s *Server) vanish(c *call, old *object, u *unstructured.Unstructured) (*object, error) {
	o, err := s.remove(c.table, old, u)
	if err == nil {
		err = s.settle(c.res, c.info.Namespace)
	}
	return o, err
}

// restrict takes back what a write of this subresource may not change.
func (c *call) restrict(old *object, u *unstructured.Unstructured) {
	switch c.info.Subresource {
	case "":
		if c.res.Status {
			carry(old.tree(), u, "status")
		}
		if c.res.isNamespace() {
			carry(old.tree(), u, "spec")
		}
		return
	case subFinalize:
		finalizers, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "finalizers")
		u.Object = old.tree().DeepCopy().Object
		u.Object["spec"] = map[string]any{}
		if len(finalizers) > 0 {
			u.Object["spec"] = map[string]any{"finalizers": toAny(finalizers)}
		}
		return
	}
	kept := u.Object["metadata"]
	if !c.res.builtin {
		kept = runtime.DeepCopyJSONValue(old.tree().Object["metadata"])
	}
	status, ok := u.Object["status"]
	u.Object = maps.Clone(old.tree().Object)
	u.Object["metadata"] = kept
	delete(u.Object, "status")
	if ok {
		u.Object["status"] = status
	}
}

func toAny(list []string) []any {
	out := make([]any, 0, len(list))
	for _, s := range list {
		out = append(out, s)
	}
	return out
}
