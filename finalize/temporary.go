package finalize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Temporary says where the temporary objects of an owner are. Every field but Timeout is required.
type Temporary struct {
	// Label is the key of the label that says whose an object is, Owner its value, usually the owner's UID.
	Label, Owner string
	// Resources are the kinds to look at.
	Resources []schema.GroupVersionResource
	// Namespaces are where to look, the empty one for resources of the cluster or of all namespaces.
	Namespaces []string
	// Timeout is when waiting for objects to go has ended, counted from the first call in this process. Zero or less: 10
	// minutes.
	Timeout time.Duration
}

func (t Temporary) faults() (missing []string) {
	for field, absent := range map[string]bool{"Label": t.Label == "", "Owner": t.Owner == "", "Resources": len(t.Resources) == 0, "Namespaces": len(t.Namespaces) == 0} {
		if absent {
			missing = append(missing, field)
		}
	}
	return missing
}

// RemoveTemporary returns the hook "remove-temporary", which deletes the temporary objects of an owner and comes back until
// they are gone. An object is the owner's by its label, read in the object itself, and is deleted only with the UID that was
// read, so that what another has made under its name meanwhile stays. Gone is no error, nor is a kind that the cluster does
// not have. Errors of the report, by object: a refused deletion, and an object that has not gone by the timeout, with its
// finalizers. It needs list and delete on the resources. The hook is retried twice. [New] refuses it when client is
// nil or a required field is empty.
func RemoveTemporary(client dynamic.Interface, what Temporary, after ...string) Hook {
	if what.Timeout <= 0 {
		what.Timeout = defaultItemTimeout
	}
	var began time.Time
	h := Hook{Name: "remove-temporary", After: after, Retries: 2, Run: func(ctx context.Context) error {
		if began.IsZero() {
			began = time.Now()
		}
		var faults []error
		again := false
		var left []unstructured.Unstructured
		for _, resource := range what.Resources {
			for _, namespace := range what.Namespaces {
				some, err := removeIn(ctx, client, resource, namespace, what)
				left = append(left, some...)
				faults = append(faults, err)
				again = again || err != nil && !isRefusal(err)
			}
		}
		passed := time.Since(began)
		switch {
		case len(left) == 0 && !again:
		case len(left) == 0 && passed < what.Timeout:
			faults = append(faults, Later(min(max(passed/10, minPause), maxPause, what.Timeout-passed), errors.Join(faults...).Error()))
		case passed < what.Timeout:
			why := fmt.Sprintf("%d objects are there still, %s %s", len(left), left[0].GetKind(), name(left[0]))
			faults = append(faults, Later(min(max(passed/10, minPause), maxPause, what.Timeout-passed), why))
		default:
			for _, o := range left {
				faults = append(faults, Permanent(Item(o.GetNamespace(), o.GetName(), fmt.Errorf("%s has not gone in %v, finalizers %v", o.GetKind(), what.Timeout, o.GetFinalizers()))))
			}
		}
		return errors.Join(faults...)
	}}
	for _, field := range what.faults() {
		h = h.refuse("what."+field, "is empty")
	}
	return h.need("client", client)
}

func name(o unstructured.Unstructured) string {
	return cmp.Or(o.GetNamespace(), "cluster") + "/" + o.GetName()
}

// removeIn asks for the deletion of the owner's objects of one kind and returns those that are there still.
func removeIn(ctx context.Context, clients dynamic.Interface, resource schema.GroupVersionResource, namespace string, what Temporary) (left []unstructured.Unstructured, err error) {
	client := clients.Resource(resource).Namespace(namespace)
	selector := labels.SelectorFromSet(labels.Set{what.Label: what.Owner}).String()
	all, err := pages(ctx, func(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		opts.LabelSelector = selector
		return client.List(ctx, opts)
	}, func(l *unstructured.UnstructuredList) []unstructured.Unstructured { return l.Items })
	if apierrors.IsNotFound(err) { // the kind
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
	}
	var faults []error
	for _, o := range all {
		if o.GetLabels()[what.Label] != what.Owner {
			continue
		}
		if o.GetDeletionTimestamp() == nil {
			err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: new(o.GetUID())}, PropagationPolicy: new(metav1.DeletePropagationBackground),
			})
			switch {
			case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another one by now
			case err != nil:
				faults = append(faults, Item(o.GetNamespace(), o.GetName(), fmt.Errorf("delete %s: %w", o.GetKind(), err)))
				continue
			}
		}
		left = append(left, o)
	}
	return left, errors.Join(faults...)
}
