package csisnapshot

import (
	"context"

	"github.com/sheetanchor/sheetanchor/internal/sealed"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// snapshotGroup is the group and version of the snapshot API.
var snapshotGroup = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}

// NewDynamic adapts a dynamic client. It sends no request. A field of an unexpected type counts as absent. Of a nil client it
// makes a nil one, which [New], [NewWaiter] and [NewAction] refuse.
func NewDynamic(client dynamic.Interface) Client {
	if c, ok := client.(*dynamic.DynamicClient); client == nil || ok && c == nil {
		return nil
	}
	return &dynamicClient{
		snapshots: dynamicResource[Snapshot]{
			client: client, gvr: snapshotGroup.WithResource(snapshotsResource), kind: KindSnapshot,
			decode: decodeSnapshot, encode: encodeSnapshot,
		},
		contents: dynamicResource[Content]{
			client: client, gvr: snapshotGroup.WithResource(contentsResource), kind: KindContent,
			decode: decodeContent, encode: encodeContent,
		},
		classes: dynamicResource[Class]{
			client: client, gvr: snapshotGroup.WithResource("volumesnapshotclasses"), kind: "VolumeSnapshotClass",
			decode: decodeClass, encode: encodeClass,
		},
	}
}

type dynamicClient struct {
	snapshots dynamicResource[Snapshot]
	contents  dynamicResource[Content]
	classes   dynamicResource[Class]
}

func (c *dynamicClient) Snapshots() Resource[Snapshot] { return c.snapshots }
func (c *dynamicClient) Contents() Resource[Content]   { return c.contents }
func (c *dynamicClient) Classes() Resource[Class]      { return c.classes }
func (c *dynamicClient) Sealed(sealed.Mark)            {}

// dynamicResource is one kind on a dynamic client.
type dynamicResource[T any] struct {
	client dynamic.Interface
	gvr    schema.GroupVersionResource
	kind   string
	decode func(Meta, fields) T
	encode func(T) (Meta, fields)
}

func (r dynamicResource[T]) at(namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return r.client.Resource(r.gvr)
	}
	return r.client.Resource(r.gvr).Namespace(namespace)
}

func (r dynamicResource[T]) plain(u *unstructured.Unstructured) T {
	return r.decode(decodeMeta(u), fields(u.Object))
}

// one turns the answer to a request for one object into a plain one.
func (r dynamicResource[T]) one(u *unstructured.Unstructured, err error) (T, error) {
	if err != nil {
		return *new(T), err
	}
	return r.plain(u), nil
}

func (r dynamicResource[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return r.one(r.at(namespace).Get(ctx, name, metav1.GetOptions{}))
}

func (r dynamicResource[T]) List(ctx context.Context, namespace string, o ListOptions) (Page[T], error) {
	list, err := r.at(namespace).List(ctx, metav1.ListOptions{LabelSelector: o.Selector, Limit: o.Limit, Continue: o.Continue})
	if err != nil {
		return Page[T]{}, err
	}
	page := Page[T]{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), Items: make([]T, 0, len(list.Items))}
	for i := range list.Items {
		page.Items = append(page.Items, r.plain(&list.Items[i]))
	}
	return page, nil
}

func (r dynamicResource[T]) Watch(ctx context.Context, namespace string, o WatchOptions) (*Watch[T], error) {
	w, err := r.at(namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: o.Selector, ResourceVersion: o.ResourceVersion, AllowWatchBookmarks: true,
	})
	if err != nil {
		return nil, err
	}
	return NewWatch(w, r.event), nil
}

func (r dynamicResource[T]) event(e watch.Event) Event[T] {
	u, ok := e.Object.(*unstructured.Unstructured)
	switch {
	case e.Type == watch.Error || !ok:
		return Event[T]{Type: watch.Error, Err: apierrors.FromObject(e.Object)}
	case e.Type == watch.Bookmark:
		return Event[T]{Type: e.Type, ResourceVersion: u.GetResourceVersion()}
	default:
		return Event[T]{Type: e.Type, ResourceVersion: u.GetResourceVersion(), Object: r.plain(u)}
	}
}

func (r dynamicResource[T]) Create(ctx context.Context, object T) (T, error) {
	meta, body := r.encode(object)
	u := &unstructured.Unstructured{Object: body}
	u.SetGroupVersionKind(snapshotGroup.WithKind(r.kind))
	u.SetNamespace(meta.Namespace)
	u.SetName(meta.Name)
	u.SetLabels(meta.Labels)
	u.SetAnnotations(meta.Annotations)
	return r.one(r.at(meta.Namespace).Create(ctx, u, metav1.CreateOptions{}))
}

func (r dynamicResource[T]) Patch(ctx context.Context, namespace, name string, mergePatch []byte) (T, error) {
	return r.one(r.at(namespace).Patch(ctx, name, types.MergePatchType, mergePatch, metav1.PatchOptions{}))
}

func (r dynamicResource[T]) Delete(ctx context.Context, namespace, name string, only Preconditions) error {
	return r.at(namespace).Delete(ctx, name, only.Options())
}
