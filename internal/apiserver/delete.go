package apiserver

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
)

func (s *Server) delete(ctx context.Context, c *call) (*http.Response, error) {
	opts, err := c.deleteOptions()
	if err != nil {
		return nil, err
	}
	o, gone, err := s.deleteOne(c, c.info.Namespace, c.info.Name, opts)
	if err != nil {
		return nil, err
	}
	if err := s.persist(ctx); err != nil {
		return nil, err
	}
	if !gone {
		return c.object(http.StatusOK, o)
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Name: o.u.GetName(), Group: c.res.Group, Kind: c.res.Plural, UID: o.u.GetUID()},
	}
	return answer(c.req, http.StatusOK, encode(&status)), nil
}

func (s *Server) deleteOne(c *call, namespace, name string, opts *metav1.DeleteOptions) (o *object, gone bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := c.table.get(namespace, name)
	if old == nil {
		return nil, false, apierrors.NewNotFound(c.res.groupResource(), name)
	}
	if err := c.allowed(old, opts.Preconditions); err != nil {
		return nil, false, err
	}
	if c.dryRun() || len(opts.DryRun) > 0 {
		return old, len(old.u.GetFinalizers()) == 0, nil
	}
	if c.res.isNamespace() {
		o, err = s.terminate(c.table, old)
	} else {
		o, err = s.end(c.table, old)
	}
	if err != nil {
		return nil, false, err
	}
	if c.res.Namespaced {
		err = s.release(namespace)
	}
	return o, c.table.get(namespace, name) == nil, err
}

// end deletes an object: at once, or, while it has finalizers, by giving it a deletion time. It needs the lock.
func (s *Server) end(t *table, old *object) (*object, error) {
	if len(old.u.GetFinalizers()) == 0 {
		return s.remove(t, old, old.u.DeepCopy())
	}
	if old.u.GetDeletionTimestamp() != nil {
		return old, nil
	}
	u := old.u.DeepCopy()
	deleted, grace := now(), int64(0)
	u.SetDeletionTimestamp(&deleted)
	u.SetDeletionGracePeriodSeconds(&grace)
	if generation := u.GetGeneration(); generation > 0 {
		u.SetGeneration(generation + 1)
	}
	return s.put(t, old, u)
}

func (s *Server) deleteCollection(ctx context.Context, c *call) (*http.Response, error) {
	opts, err := c.deleteOptions()
	if err != nil {
		return nil, err
	}
	sel, err := c.selector()
	if err != nil {
		return nil, err
	}
	deleted, err := s.deleteMany(c, sel, opts)
	if err != nil {
		return nil, err
	}
	if err := s.persist(ctx); err != nil {
		return nil, err
	}
	return c.page(deleted, page{})
}

func (s *Server) deleteMany(c *call, sel *selector, opts *metav1.DeleteOptions) ([]*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var deleted []*object
	for _, old := range cloned(c.table.within(c.info.Namespace)) {
		if !sel.matches(old) || c.allowed(old, opts.Preconditions) != nil {
			continue
		}
		o := old
		if !c.dryRun() && len(opts.DryRun) == 0 {
			var err error
			if o, err = s.end(c.table, old); err != nil {
				return nil, err
			}
		}
		deleted = append(deleted, o)
	}
	if c.res.Namespaced {
		return deleted, s.release(c.info.Namespace)
	}
	return deleted, nil
}

// allowed compares an object with the preconditions of a request.
func (c *call) allowed(o *object, want *metav1.Preconditions) error {
	if want == nil {
		return nil
	}
	if uid := o.u.GetUID(); want.UID != nil && *want.UID != uid {
		return c.unmet(o, "UID", string(*want.UID), string(uid))
	}
	if rv := o.u.GetResourceVersion(); want.ResourceVersion != nil && *want.ResourceVersion != rv {
		return c.unmet(o, "ResourceVersion", *want.ResourceVersion, rv)
	}
	return nil
}

// unmet is the Conflict for a precondition, in the real server's words.
func (c *call) unmet(o *object, what, want, got string) error {
	return apierrors.NewConflict(c.res.groupResource(), o.u.GetName(),
		fmt.Errorf("%s: %s in precondition: %s, %s in object meta: %s", "Precondition failed", what, want, what, got))
}

// deleteOptions reads the body of a delete, which may be empty.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	opts := &metav1.DeleteOptions{}
	if len(c.body) == 0 {
		return opts, nil
	}
	var err error
	if c.media == mediaProtobuf {
		var decoded runtime.Object
		decoded, _, err = scheme.Codecs.UniversalDeserializer().Decode(c.body, nil, opts)
		if got, ok := decoded.(*metav1.DeleteOptions); ok {
			opts = got
		}
	} else {
		err = utiljson.Unmarshal(c.body, opts)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the delete options cannot be decoded: " + err.Error())
	}
	return opts, nil
}
