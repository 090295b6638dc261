package snapv6

import (
	"context"
	"errors"

	v1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	"github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/sealed"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// New adapts a client/v6 clientset, also a generated fake. It sends no request. Of a nil clientset it makes a nil client, which
// the functions of package csisnapshot refuse.
func New(clients versioned.Interface) csisnapshot.Client {
	if c, ok := clients.(*versioned.Clientset); clients == nil || ok && c == nil {
		return nil
	}
	api := clients.SnapshotV1()
	return &client{
		snapshots: adapter[csisnapshot.Snapshot, v1.VolumeSnapshot, v1.VolumeSnapshotList]{
			at: func(namespace string) typed[v1.VolumeSnapshot, v1.VolumeSnapshotList] {
				return api.VolumeSnapshots(namespace)
			},
			decode: decodeSnapshot, encode: encodeSnapshot,
			items: func(l *v1.VolumeSnapshotList) (metav1.ListMeta, []v1.VolumeSnapshot) { return l.ListMeta, l.Items },
		},
		contents: adapter[csisnapshot.Content, v1.VolumeSnapshotContent, v1.VolumeSnapshotContentList]{
			at: func(string) typed[v1.VolumeSnapshotContent, v1.VolumeSnapshotContentList] {
				return api.VolumeSnapshotContents()
			},
			decode: decodeContent, encode: encodeContent,
			items: func(l *v1.VolumeSnapshotContentList) (metav1.ListMeta, []v1.VolumeSnapshotContent) {
				return l.ListMeta, l.Items
			},
		},
		classes: adapter[csisnapshot.Class, v1.VolumeSnapshotClass, v1.VolumeSnapshotClassList]{
			at: func(string) typed[v1.VolumeSnapshotClass, v1.VolumeSnapshotClassList] {
				return api.VolumeSnapshotClasses()
			},
			decode: decodeClass, encode: encodeClass,
			items: func(l *v1.VolumeSnapshotClassList) (metav1.ListMeta, []v1.VolumeSnapshotClass) {
				return l.ListMeta, l.Items
			},
		},
	}
}

type client struct {
	snapshots csisnapshot.Resource[csisnapshot.Snapshot]
	contents  csisnapshot.Resource[csisnapshot.Content]
	classes   csisnapshot.Resource[csisnapshot.Class]
}

func (c *client) Snapshots() csisnapshot.Resource[csisnapshot.Snapshot] { return c.snapshots }
func (c *client) Contents() csisnapshot.Resource[csisnapshot.Content]   { return c.contents }
func (c *client) Classes() csisnapshot.Resource[csisnapshot.Class]      { return c.classes }
func (c *client) Sealed(sealed.Mark)                                    {}

// typed is what the generated clients of all kinds have in common. O is the object, L its list.
type typed[O, L any] interface {
	Create(ctx context.Context, object *O, opts metav1.CreateOptions) (*O, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*O, error)
	List(ctx context.Context, opts metav1.ListOptions) (*L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*O, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// errNoAnswer is what a fake that answers with neither an object nor an error is taken to mean.
var errNoAnswer = errors.New("the client returned neither an object nor an error")

// adapter is one kind; P is its plain struct.
type adapter[P, O, L any] struct {
	at     func(namespace string) typed[O, L]
	decode func(*O) P
	encode func(P) (namespace string, object *O)
	items  func(*L) (metav1.ListMeta, []O)
}

func (a adapter[P, O, L]) one(object *O, err error) (P, error) {
	switch {
	case err != nil:
		return *new(P), err
	case object == nil:
		return *new(P), errNoAnswer
	default:
		return a.decode(object), nil
	}
}

func (a adapter[P, O, L]) Get(ctx context.Context, namespace, name string) (P, error) {
	return a.one(a.at(namespace).Get(ctx, name, metav1.GetOptions{}))
}

func (a adapter[P, O, L]) List(ctx context.Context, namespace string, o csisnapshot.ListOptions) (csisnapshot.Page[P], error) {
	list, err := a.at(namespace).List(ctx, metav1.ListOptions{LabelSelector: o.Selector, Limit: o.Limit, Continue: o.Continue})
	if err != nil {
		return csisnapshot.Page[P]{}, err
	}
	meta, items := a.items(list)
	page := csisnapshot.Page[P]{ResourceVersion: meta.ResourceVersion, Continue: meta.Continue, Items: make([]P, 0, len(items))}
	for i := range items {
		page.Items = append(page.Items, a.decode(&items[i]))
	}
	return page, nil
}

func (a adapter[P, O, L]) Watch(ctx context.Context, namespace string, o csisnapshot.WatchOptions) (*csisnapshot.Watch[P], error) {
	w, err := a.at(namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: o.Selector, ResourceVersion: o.ResourceVersion, AllowWatchBookmarks: true,
	})
	if err != nil {
		return nil, err
	}
	return csisnapshot.NewWatch(w, a.event), nil
}

func (a adapter[P, O, L]) event(e watch.Event) csisnapshot.Event[P] {
	object, ok := any(e.Object).(*O)
	if e.Type == watch.Error || !ok {
		return csisnapshot.Event[P]{Type: watch.Error, Err: apierrors.FromObject(e.Object)}
	}
	out := csisnapshot.Event[P]{Type: e.Type}
	if m, ok := e.Object.(metav1.Object); ok {
		out.ResourceVersion = m.GetResourceVersion()
	}
	if e.Type != watch.Bookmark {
		out.Object = a.decode(object)
	}
	return out
}

func (a adapter[P, O, L]) Create(ctx context.Context, plain P) (P, error) {
	namespace, object := a.encode(plain)
	return a.one(a.at(namespace).Create(ctx, object, metav1.CreateOptions{}))
}

func (a adapter[P, O, L]) Patch(ctx context.Context, namespace, name string, mergePatch []byte) (P, error) {
	return a.one(a.at(namespace).Patch(ctx, name, types.MergePatchType, mergePatch, metav1.PatchOptions{}))
}

func (a adapter[P, O, L]) Delete(ctx context.Context, namespace, name string, only csisnapshot.Preconditions) error {
	return a.at(namespace).Delete(ctx, name, only.Options())
}
