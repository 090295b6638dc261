package backuptest

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"
)

// FakeInvoker is what every generated fake clientset is: client-go's kubernetes/fake, the snapshot client's versioned/fake of any
// major version, those of your own kinds.
type FakeInvoker interface {
	Invokes(action clienttesting.Action, otherwise runtime.Object) (runtime.Object, error)
	InvokesWatch(action clienttesting.Action) (watch.Interface, error)
}

// FakeClientset is a generated fake clientset, and the scheme of its types: the exported Scheme of the scheme package that was
// generated beside it.
type FakeClientset struct {
	Fake   FakeInvoker
	Scheme *runtime.Scheme
}

// NewFakeClient returns a dynamic client on the objects of generated fake clientsets, so that a [SnapshotController] and a
// [Provisioner] work on the fakes that a test has already, reactors and recorded actions included:
//
//	core, snapshots := kubefake.NewClientset(), snapfake.NewSimpleClientset()
//	client := backuptest.NewFakeClient(
//		backuptest.FakeClientset{Fake: core, Scheme: kubescheme.Scheme},
//		backuptest.FakeClientset{Fake: snapshots, Scheme: snapscheme.Scheme},
//	)
//
// A kind is looked for in the schemes in their order. As the fakes, it gives objects no UIDs and no versions, minds neither
// finalizers nor preconditions, and sends no past with a watch; DeleteCollection and Apply are refused, and so is a kind that no
// scheme has, with an error that names it. It may be used by several goroutines.
func NewFakeClient(clientsets ...FakeClientset) dynamic.Interface {
	return &fakeClient{clientsets: clientsets}
}

type fakeClient struct{ clientsets []FakeClientset }

// Resource finds the clientset and the kind of a resource.
func (c *fakeClient) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	for _, set := range c.clientsets {
		if set.Fake == nil || set.Scheme == nil {
			continue
		}
		for kind := range set.Scheme.KnownTypes(resource.GroupVersion()) {
			gvk := resource.GroupVersion().WithKind(kind)
			if plural, _ := meta.UnsafeGuessKindToResource(gvk); plural == resource {
				return &fakeResource{fake: set.Fake, scheme: set.Scheme, resource: resource, kind: gvk}
			}
		}
	}
	return &fakeResource{resource: resource, wrong: fmt.Errorf("no fake clientset has the resource %s", resource)}
}

// fakeResource is one resource in one namespace, or in all.
type fakeResource struct {
	fake      FakeInvoker
	scheme    *runtime.Scheme
	resource  schema.GroupVersionResource
	kind      schema.GroupVersionKind
	namespace string
	wrong     error // why nothing can be done
}

var errNoFakeAnswer = errors.New("the fake returned neither an object nor an error")

func (r *fakeResource) typed(u *unstructured.Unstructured) (runtime.Object, error) {
	if r.wrong != nil {
		return nil, r.wrong
	}
	object, err := r.scheme.New(r.kind)
	if err != nil {
		return nil, err
	}
	if u == nil {
		return object, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.kind.Kind, u.GetName(), err)
	}
	return object, nil
}

func (r *fakeResource) plain(object runtime.Object) (*unstructured.Unstructured, error) {
	if object == nil {
		return nil, errNoFakeAnswer
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(r.kind)
	return u, nil
}

// invoke has the fake do an action that answers with one object.
func (r *fakeResource) invoke(action clienttesting.Action) (*unstructured.Unstructured, error) {
	otherwise, err := r.typed(nil)
	if err != nil {
		return nil, err
	}
	object, err := r.fake.Invokes(action, otherwise)
	if err != nil {
		return nil, err
	}
	return r.plain(object)
}
