package phasekube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/phase"
)

const defaultFieldManager = "sheetanchor"

// Object is the phase of one Kubernetes object. Make one with [New] or [NewConfigMap].
type Object[P ~string] struct {
	client      dynamic.ResourceInterface
	definitions dynamic.ResourceInterface
	gvr         schema.GroupVersionResource
	namespaced  bool
	what        string // for messages: "configmaps app/run-1"
	name        string
	fields      Fields
	used        []field
	paths       paths
	sub         []string // subresources of a write
	manager     string
	fault       error // of the options; every call returns it
}

// New returns the phase of the object with this name. The namespace is empty for cluster-wide resources. The object need
// not exist yet.
func New[P ~string](
	client dynamic.Interface, gvr schema.GroupVersionResource, namespace, name string, opts Options,
) *Object[P] {
	o := &Object[P]{
		gvr: gvr, namespaced: namespace != "", name: name, what: gvr.Resource + " " + name, manager: opts.FieldManager,
	}
	if namespace != "" {
		o.what = gvr.Resource + " " + namespace + "/" + name
	}
	if o.manager == "" {
		o.manager = defaultFieldManager
	}
	if opts.StatusSubresource {
		o.sub = []string{"status"}
	}
	if opts.Fields == (Fields{}) {
		opts.Fields = VeleroFields()
	}
	o.fields = opts.Fields
	o.paths, o.used, o.fault = opts.Fields.parse(gvr, opts.StatusSubresource)
	if client == nil {
		o.fault = errors.Join(o.fault, fmt.Errorf("%w client: it is nil", phase.ErrInvalid))
		return o
	}
	if name == "" || gvr.Resource == "" || gvr.Version == "" {
		o.fault = errors.Join(o.fault, fmt.Errorf("%w object: resource is %q, version is %q, name is %q",
			phase.ErrInvalid, gvr.Resource, gvr.Version, name))
	}
	o.definitions = client.Resource(definitions)
	o.client = client.Resource(gvr)
	if namespace != "" {
		o.client = client.Resource(gvr).Namespace(namespace)
	}
	return o
}

// NewConfigMap returns the phase of a ConfigMap, kept in its data: see [ConfigMapFields]. The ConfigMap must exist before
// the phase is read; other keys in it are left alone.
func NewConfigMap[P ~string](client dynamic.Interface, namespace, name string) *Object[P] {
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	return New[P](client, gvr, namespace, name, Options{Fields: ConfigMapFields()})
}

// Get reads the object, without a cache.
func (o *Object[P]) Get(ctx context.Context) (phase.State[P], error) {
	if o.fault != nil {
		return phase.State[P]{}, fmt.Errorf("get %s: %w", o.what, o.fault)
	}
	obj, err := o.client.Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return phase.State[P]{}, fmt.Errorf("get %s: %w", o.what, readError(err))
	}
	state, err := o.state(obj)
	if err != nil {
		return state, fmt.Errorf("get %s: %w", o.what, err)
	}
	return state, nil
}

// Update patches the object, if its resourceVersion is still old.Version. If old.Version is empty, it reads the object and
// compares phase and UID first; with Fields.Conditions it always reads the object first.
func (o *Object[P]) Update(ctx context.Context, old phase.State[P], c phase.Change[P]) (phase.State[P], error) {
	next, err := o.update(ctx, old, c)
	if err != nil {
		return next, fmt.Errorf("update %s: %w", o.what, err)
	}
	return next, nil
}

func (o *Object[P]) update(ctx context.Context, old phase.State[P], c phase.Change[P]) (phase.State[P], error) {
	if o.fault != nil {
		return phase.State[P]{}, o.fault
	}
	var conditions []any
	if old.Version == "" || o.paths.conditions != nil {
		obj, err := o.client.Get(ctx, o.name, metav1.GetOptions{})
		if err != nil {
			return phase.State[P]{}, readError(err)
		}
		if old.Version, err = o.compare(obj, old, c); err != nil {
			return phase.State[P]{}, err
		}
		if o.paths.conditions != nil {
			if conditions, err = o.conditions(obj, c); err != nil {
				return phase.State[P]{}, err
			}
		}
	}
	patch := o.patch(old, c)
	if conditions != nil {
		putAny(patch, o.paths.conditions, conditions)
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return phase.State[P]{}, fmt.Errorf("%w: %w", phase.ErrInvalid, err)
	}
	obj, err := o.client.Patch(ctx, o.name, types.MergePatchType, data, metav1.PatchOptions{
		FieldManager: o.manager, FieldValidation: metav1.FieldValidationStrict,
	}, o.sub...)
	if err != nil {
		return phase.State[P]{}, o.writeError(ctx, err)
	}
	next, err := o.state(obj)
	if err == nil && next.Phase != c.To {
		err = fmt.Errorf("%w: the server dropped the phase %q and has %q: does the resource have the field, "+
			"and is Options.StatusSubresource right?", phase.ErrInvalid, c.To, next.Phase)
	}
	return next, err
}

// compare says whether the object is the expected one, and returns its version. The conflict names who was first.
func (o *Object[P]) compare(obj *unstructured.Unstructured, old phase.State[P], c phase.Change[P]) (string, error) {
	now, err := o.state(obj)
	if err != nil {
		return "", err
	}
	replaced := old.UID != "" && now.UID != old.UID
	if replaced || old.Version != "" && now.Version != old.Version || now.Phase != "" && now.Phase != old.Phase {
		return "", &phase.ConflictError{
			Expected: string(old.Phase), Wanted: string(c.To), Found: string(now.Phase), Owner: now.Owner, Replaced: replaced,
		}
	}
	return now.Version, nil
}

// writeError tells a missing subresource from a missing object: the server answers both in the same words.
func (o *Object[P]) writeError(ctx context.Context, err error) error {
	if apierrors.IsNotFound(err) && len(o.sub) > 0 {
		if _, getErr := o.client.Get(ctx, o.name, metav1.GetOptions{}); getErr == nil {
			return fmt.Errorf("%w: no status subresource: %w", phase.ErrMissingAPI, err)
		}
	}
	return writeError(err)
}
