package backuptest

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"
)

var errNotOnFakes = errors.New("not supported on generated fakes")

var _ dynamic.NamespaceableResourceInterface = (*fakeResource)(nil)

func (r *fakeResource) Namespace(namespace string) dynamic.ResourceInterface {
	in := *r
	in.namespace = namespace
	return &in
}

func (r *fakeResource) Create(
	_ context.Context, object *unstructured.Unstructured, _ metav1.CreateOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	typed, err := r.typed(object)
	if err != nil {
		return nil, err
	}
	if sub := strings.Join(subresources, "/"); sub != "" {
		return r.invoke(clienttesting.NewCreateSubresourceAction(r.resource, object.GetName(), sub, r.namespace, typed))
	}
	return r.invoke(clienttesting.NewCreateAction(r.resource, r.namespace, typed))
}

func (r *fakeResource) Update(
	_ context.Context, object *unstructured.Unstructured, _ metav1.UpdateOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	typed, err := r.typed(object)
	if err != nil {
		return nil, err
	}
	if sub := strings.Join(subresources, "/"); sub != "" {
		return r.invoke(clienttesting.NewUpdateSubresourceAction(r.resource, sub, r.namespace, typed))
	}
	return r.invoke(clienttesting.NewUpdateAction(r.resource, r.namespace, typed))
}

func (r *fakeResource) UpdateStatus(
	ctx context.Context, object *unstructured.Unstructured, opts metav1.UpdateOptions,
) (*unstructured.Unstructured, error) {
	return r.Update(ctx, object, opts, "status")
}

func (r *fakeResource) Delete(_ context.Context, name string, opts metav1.DeleteOptions, _ ...string) error {
	otherwise, err := r.typed(nil)
	if err != nil {
		return err
	}
	_, err = r.fake.Invokes(clienttesting.NewDeleteActionWithOptions(r.resource, r.namespace, name, opts), otherwise)
	return err
}

func (r *fakeResource) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	return errNotOnFakes
}

func (r *fakeResource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	return r.invoke(clienttesting.NewGetAction(r.resource, r.namespace, name))
}

func (r *fakeResource) List(_ context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if r.wrong != nil {
		return nil, r.wrong
	}
	otherwise, err := r.scheme.New(r.kind.GroupVersion().WithKind(r.kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	object, err := r.fake.Invokes(clienttesting.NewListAction(r.resource, r.kind, r.namespace, opts), otherwise)
	if err != nil {
		return nil, err
	}
	if object == nil {
		return nil, errNoFakeAnswer
	}
	items, err := meta.ExtractList(object)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(r.kind.GroupVersion().WithKind(r.kind.Kind + "List"))
	if m, err := meta.ListAccessor(object); err == nil {
		list.SetResourceVersion(m.GetResourceVersion())
		list.SetContinue(m.GetContinue())
	}
	for _, item := range items {
		u, err := r.plain(item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *u)
	}
	return list, nil
}

func (r *fakeResource) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if r.wrong != nil {
		return nil, r.wrong
	}
	w, err := r.fake.InvokesWatch(clienttesting.NewWatchAction(r.resource, r.namespace, opts))
	if err != nil {
		return nil, err
	}
	return newPlainWatch(w, func(event watch.Event) (watch.Event, bool) {
		if event.Type == watch.Error {
			return event, true
		}
		u, err := r.plain(event.Object)
		if err != nil {
			return event, false
		}
		event.Object = u
		return event, true
	}), nil
}

func (r *fakeResource) Patch(
	_ context.Context, name string, pt types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	return r.invoke(clienttesting.NewPatchSubresourceAction(r.resource, r.namespace, name, pt, data, subresources...))
}

func (r *fakeResource) Apply(
	context.Context, string, *unstructured.Unstructured, metav1.ApplyOptions, ...string,
) (*unstructured.Unstructured, error) {
	return nil, errNotOnFakes
}

func (r *fakeResource) ApplyStatus(context.Context, string, *unstructured.Unstructured, metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	return nil, errNotOnFakes
}
