package csisnapshot

import (
	"context"

	"github.com/sheetanchor/sheetanchor/internal/sealed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Client reads and writes the snapshot objects of one cluster as plain structs. [NewDynamic] and snapv6.New make one;
// the interface is sealed, so methods may be added to it. Every method is safe for concurrent use if the client below is.
type Client interface {
	// Snapshots is the namespaced VolumeSnapshot resource.
	Snapshots() Resource[Snapshot]
	// Contents is the cluster-scoped VolumeSnapshotContent resource.
	Contents() Resource[Content]
	// Classes is the cluster-scoped VolumeSnapshotClass resource.
	Classes() Resource[Class]
	// Sealed keeps other modules from implementing Client.
	Sealed(sealed.Mark)
}

// Resource is one kind of object. Namespace is empty for cluster-scoped kinds. The errors are the API server's,
// unwrapped, so that the functions of k8s.io/apimachinery/pkg/api/errors hold.
type Resource[T any] interface {
	// Get reads one object.
	Get(ctx context.Context, namespace, name string) (T, error)
	// List reads one page. An empty selector takes every object.
	List(ctx context.Context, namespace string, opts ListOptions) (Page[T], error)
	// Watch opens a watch that the caller stops.
	Watch(ctx context.Context, namespace string, opts WatchOptions) (*Watch[T], error)
	// Create writes a new object. Only what a user may set is sent: metadata without UID and version, and the spec.
	Create(ctx context.Context, object T) (T, error)
	// Patch applies a JSON merge patch.
	Patch(ctx context.Context, namespace, name string, mergePatch []byte) (T, error)
	// Delete removes the object if it is as it was read; otherwise the error is a conflict. A nil error means only that
	// the server accepted the request.
	Delete(ctx context.Context, namespace, name string, only Preconditions) error
}

// Preconditions are what an object must still have for a request to be done. Empty fields are not compared.
type Preconditions struct {
	UID             types.UID
	ResourceVersion string
}

// Options are the preconditions as those of a delete.
func (p Preconditions) Options() metav1.DeleteOptions {
	if p == (Preconditions{}) {
		return metav1.DeleteOptions{}
	}
	opts := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}
	if p.UID != "" {
		opts.Preconditions.UID = &p.UID
	}
	if p.ResourceVersion != "" {
		opts.Preconditions.ResourceVersion = &p.ResourceVersion
	}
	return opts
}

// ListOptions narrows a list.
type ListOptions struct {
	Selector string // a label selector; empty takes everything
	Limit    int64  // objects a page; zero is the server's own limit
	Continue string // the token of the page before; empty for the first page
}

// Page is one page of a list.
type Page[T any] struct {
	Items           []T
	ResourceVersion string // empty on fakes that have none
	Continue        string // empty on the last page
}

// WatchOptions says where a watch starts.
type WatchOptions struct {
	Selector        string // a label selector; empty takes everything
	ResourceVersion string // events after this version; empty starts now on fakes, with everything on servers
}

// Event is one event of a [Watch].
type Event[T any] struct {
	Type            watch.EventType
	Object          T      // zero for bookmarks and errors
	ResourceVersion string // of the object or bookmark
	Err             error  // for watch.Error: the server's status as an error
}

// Watch is an open watch. It starts no goroutine of its own: the consumer ranges over the channel of the watch below
// and decodes what it takes from there.
type Watch[T any] struct {
	watch  watch.Interface
	decode func(watch.Event) Event[T]
}

// NewWatch wraps an open watch; decode turns its events into plain structs. It is for adapters.
func NewWatch[T any](w watch.Interface, decode func(watch.Event) Event[T]) *Watch[T] {
	return &Watch[T]{watch: w, decode: decode}
}

// ResultChan is the channel of the watch below. It is closed when the watch ends.
func (w *Watch[T]) ResultChan() <-chan watch.Event { return w.watch.ResultChan() }

// Decode turns an event taken from [Watch.ResultChan] into a plain one.
func (w *Watch[T]) Decode(e watch.Event) Event[T] { return w.decode(e) }

// Stop ends the watch. It may be called more than once.
func (w *Watch[T]) Stop() { w.watch.Stop() }

// listPages reads every page of a list, pageSize objects at a time, and calls fn for each object. Each page is read by call,
// which gives every request a time of its own: a list of many pages may take as long as they do.
func listPages[T any](
	ctx context.Context, call func(context.Context, func(context.Context) error) error, r Resource[T], namespace, selector string, fn func(T),
) error {
	opts := ListOptions{Selector: selector, Limit: pageSize}
	for {
		var page Page[T]
		err := call(ctx, func(ctx context.Context) (err error) {
			page, err = r.List(ctx, namespace, opts)
			return err
		})
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			fn(item)
		}
		if page.Continue == "" {
			return nil
		}
		opts.Continue = page.Continue
	}
}

// pageSize is the page of every list that is read whole.
const pageSize = 500
