package phasekube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
	client  dynamic.ResourceInterface
	what    string // for messages: "configmaps app/run-1"
	name    string
	paths   paths
	sub     []string // subresources of a write
	manager string
	fault   error // of the options; every call returns it
}

// New returns the phase of the object with this name. The namespace is empty for cluster-wide resources. The object need
// not exist yet.
func New[P ~string](
	client dynamic.Interface, gvr schema.GroupVersionResource, namespace, name string, opts Options,
) *Object[P] {
	o := &Object[P]{name: name, what: gvr.Resource + " " + name, manager: opts.FieldManager}
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
	o.paths, o.fault = opts.Fields.parse(opts.StatusSubresource)
	if client == nil {
		o.fault = errors.Join(o.fault, fmt.Errorf("%w client: it is nil", phase.ErrInvalid))
		return o
	}
	if name == "" || gvr.Resource == "" {
		o.fault = errors.Join(o.fault, fmt.Errorf("%w object: resource is %q, name is %q", phase.ErrInvalid, gvr.Resource, name))
	}
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
// compares the phase first.
func (o *Object[P]) Update(ctx context.Context, old phase.State[P], c phase.Change[P]) (phase.State[P], error) {
	if o.fault != nil {
		return phase.State[P]{}, fmt.Errorf("update %s: %w", o.what, o.fault)
	}
	if old.Version == "" {
		now, err := o.Get(ctx)
		if err != nil {
			return phase.State[P]{}, err
		}
		if now.Phase != "" && now.Phase != old.Phase {
			return phase.State[P]{}, fmt.Errorf("update %s: %w: phase is %q, not %q", o.what, phase.ErrConflict, now.Phase, old.Phase)
		}
		old.Version = now.Version
	}
	data, err := json.Marshal(o.patch(old, c))
	if err != nil {
		return phase.State[P]{}, fmt.Errorf("update %s: %w: %w", o.what, phase.ErrInvalid, err)
	}
	obj, err := o.client.Patch(ctx, o.name, types.MergePatchType, data, metav1.PatchOptions{
		FieldManager: o.manager, FieldValidation: metav1.FieldValidationStrict,
	}, o.sub...)
	if err != nil {
		return phase.State[P]{}, fmt.Errorf("update %s: %w", o.what, o.writeError(ctx, err))
	}
	next, err := o.state(obj)
	switch {
	case err != nil:
		return next, fmt.Errorf("update %s: %w", o.what, err)
	case next.Phase != c.To:
		return next, fmt.Errorf("update %s: %w: the server dropped the phase %q and has %q: does the resource have the field, "+
			"and is Options.StatusSubresource right?", o.what, phase.ErrInvalid, c.To, next.Phase)
	}
	return next, nil
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

// state reads the fields.
func (o *Object[P]) state(obj *unstructured.Unstructured) (phase.State[P], error) {
	var faults []error
	text := func(path []string) string {
		if path == nil {
			return ""
		}
		s, _, err := unstructured.NestedString(obj.Object, path...)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w object: %w", phase.ErrInvalid, err))
		}
		return s
	}
	when := func(path []string) time.Time {
		s := text(path)
		if s == "" {
			return time.Time{}
		}
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w object: %w", phase.ErrInvalid, err))
		}
		return t.UTC()
	}
	state := phase.State[P]{
		Phase: P(text(o.paths.phase)), UID: string(obj.GetUID()), Version: obj.GetResourceVersion(),
		Owner: text(o.paths.owner), Reason: text(o.paths.reason), Message: text(o.paths.message),
		Started: when(o.paths.started), Completed: when(o.paths.completed),
	}
	if o.paths.reason == nil {
		state.Reason, state.Message = phase.SplitReason(state.Message)
	}
	return state, errors.Join(faults...)
}

// patch is the merge patch that makes the object what c.Result says. Empty reasons and messages are removed.
func (o *Object[P]) patch(old phase.State[P], c phase.Change[P]) map[string]any {
	next := c.Result(old)
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": old.Version}}
	if o.paths.reason == nil {
		next.Message = phase.JoinReason(next.Reason, next.Message)
	}
	put(patch, o.paths.phase, string(next.Phase))
	put(patch, o.paths.reason, next.Reason)
	put(patch, o.paths.message, next.Message)
	if c.Owner != "" {
		put(patch, o.paths.owner, c.Owner)
	}
	if !c.Started.IsZero() {
		put(patch, o.paths.started, c.Started.UTC().Format(time.RFC3339))
	}
	if c.Terminal {
		put(patch, o.paths.completed, c.At.UTC().Format(time.RFC3339))
	}
	return patch
}

// put sets a value in nested maps; an empty one is null, which removes it.
func put(in map[string]any, path []string, value string) {
	if path == nil {
		return
	}
	for _, name := range path[:len(path)-1] {
		inner, ok := in[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			in[name] = inner
		}
		in = inner
	}
	if value == "" {
		in[path[len(path)-1]] = nil
		return
	}
	in[path[len(path)-1]] = value
}
