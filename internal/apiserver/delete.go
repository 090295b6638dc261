package apiserver

import (
	"context"
	"fmt"
	"net/http"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
)

func (s *Server) delete(ctx context.Context, c *call) (*http.Response, error) {
	opts, err := c.deleteOptions()
	if err != nil {
		return nil, err
	}
	o, gone, err := s.deleteOne(c, opts)
	if err != nil {
		return nil, err
	}
	if err := s.persist(ctx); err != nil {
		return nil, err
	}
	if !gone {
		code := http.StatusOK
		if orphan := oldPolicy(opts); orphan != nil && !*orphan {
			code = http.StatusAccepted
		}
		return c.object(code, o)
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Name: o.tree().GetName(), Group: c.res.Group, Kind: c.res.Plural, UID: o.tree().GetUID()},
	}
	return answer(c.req, http.StatusOK, encode(&status)), nil
}

func (s *Server) deleteOne(c *call, opts *metav1.DeleteOptions) (o *object, gone bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, name := c.info.Namespace, c.info.Name
	if c.res.isNamespace() && immortal(name) {
		return nil, false, apierrors.NewForbidden(c.res.groupResource(), name, errImmortal)
	}
	old := c.table.get(namespace, name)
	if old == nil {
		return nil, false, apierrors.NewNotFound(c.res.groupResource(), name)
	}
	if err := c.allowed(old, opts.Preconditions); err != nil {
		return nil, false, err
	}
	if len(opts.DryRun) > 0 {
		u, gone := c.res.ending(old.tree(), opts)
		o, err := newObject(u, old.rv)
		return o, gone && !c.res.isNamespace(), err
	}
	if c.res.isNamespace() {
		o, err = s.terminate(c.table, old, opts)
	} else {
		o, err = s.end(c.table, old, opts)
	}
	if err != nil {
		return nil, false, err
	}
	if err := s.settle(c.res, namespace); err != nil {
		return nil, false, err
	}
	return o, c.table.get(namespace, name) == nil, nil
}

// end deletes an object, at once or in time. It needs the lock.
func (s *Server) end(t *table, old *object, opts *metav1.DeleteOptions) (*object, error) {
	now := old.tree()
	from := now
	if t.res.isDefinition() && from.GetDeletionTimestamp() == nil {
		from = doomed(from)
	}
	u, gone := t.res.ending(from, opts)
	switch {
	case gone:
		return s.remove(t, old, u)
	case from != now:
		o, err := s.put(t, old, u)
		if err == nil {
			err = s.drain(o)
		}
		return o, err
	case apiequality.Semantic.DeepEqual(now.Object, u.Object):
		return old, nil
	default:
		return s.put(t, old, u)
	}
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
		if len(opts.DryRun) == 0 {
			var err error
			if o, err = s.end(c.table, old, opts); err != nil {
				return nil, err
			}
		}
		deleted = append(deleted, o)
	}
	return deleted, s.settle(c.res, c.info.Namespace)
}

// allowed compares an object with the preconditions of a request.
func (c *call) allowed(o *object, want *metav1.Preconditions) error {
	if want == nil {
		return nil
	}
	if uid := o.tree().GetUID(); want.UID != nil && *want.UID != uid {
		return c.unmet(o, "UID", string(*want.UID), string(uid))
	}
	if rv := o.tree().GetResourceVersion(); want.ResourceVersion != nil && *want.ResourceVersion != rv {
		return c.unmet(o, "ResourceVersion", *want.ResourceVersion, rv)
	}
	return nil
}

// unmet is the Conflict for a precondition, in the real server's words.
func (c *call) unmet(o *object, what, want, got string) error {
	return apierrors.NewConflict(c.res.groupResource(), o.tree().GetName(),
		fmt.Errorf("%s: %s in precondition: %s, %s in object meta: %s", "Precondition failed", what, want, what, got))
}

// deleteOptions reads the options of a delete from its body or, if that is empty, from its query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	opts := &metav1.DeleteOptions{}
	var err error
	switch {
	case len(c.body) == 0:
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&c.query, opts, nil)
	case c.media == mediaProtobuf:
		var decoded runtime.Object
		decoded, _, err = scheme.Codecs.UniversalDeserializer().Decode(c.body, nil, opts)
		if got, ok := decoded.(*metav1.DeleteOptions); ok {
			opts = got
		}
	default:
		err = utiljson.Unmarshal(c.body, opts)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the delete options cannot be decoded: " + err.Error())
	}
	if c.dryRun() {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	if faults := metav1validation.ValidateDeleteOptions(opts); len(faults) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", faults)
	}
	return opts, nil
}
