package backuptest

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/internal/apiserver"
)

// Options configure a [Cluster]. The zero Options are an empty cluster in memory that has the snapshot APIs.
type Options struct {
	// File keeps the cluster's objects, if it is not empty: [Start] reads it when it exists, and it is replaced by a
	// rename after each change, before the change is answered. It survives the end of the process, not a loss of power.
	// One cluster at a time may use a file.
	File string
	// Objects are stored as [Cluster.Add] stores them, but one that the File has already is left as it is.
	Objects []runtime.Object
	// Resources are kinds of your own, served beside the built-in ones as custom resources are: any field is kept.
	Resources []Resource
	// NoSnapshotCRDs makes a cluster without the snapshot.storage.k8s.io and groupsnapshot.storage.k8s.io APIs.
	NoSnapshotCRDs bool
	// NoWatchList makes the server refuse watches that ask for initial events (422), as servers without the WatchList
	// feature do; client-go then lists first.
	NoWatchList bool
	// BookmarkEvery is how often a watch that allows bookmarks gets one. Zero means only at the end of the initial events
	// it asked for.
	BookmarkEvery time.Duration
	// Latency is how long every request waits before the server sees it.
	Latency time.Duration
}

// Resource is a kind of custom resource.
type Resource struct {
	// Group is the API group, which may not be empty.
	Group string
	// Version is the one served version, for example "v1".
	Version string
	// Kind is the kind of one object, for example "Backup".
	Kind string
	// Plural is the name in paths. Empty means Kind in lower case with an s.
	Plural string
	// Namespaced says whether objects live in a namespace.
	Namespaced bool
	// Status says whether status is a subresource.
	Status bool
}

// server makes the API server, or says which fields are wrong.
func (o Options) server() (*apiserver.Server, error) {
	var errs []error
	if o.Latency < 0 {
		errs = append(errs, fmt.Errorf("Options.Latency: %v is negative", o.Latency))
	}
	if o.BookmarkEvery < 0 {
		errs = append(errs, fmt.Errorf("Options.BookmarkEvery: %v is negative", o.BookmarkEvery))
	}
	resources := apiserver.Builtin()
	if !o.NoSnapshotCRDs {
		resources = append(resources, apiserver.Snapshots()...)
	}
	for i, r := range o.Resources {
		resource := apiserver.Resource{
			Group: r.Group, Versions: []string{r.Version}, Kind: r.Kind, Plural: r.Plural, Namespaced: r.Namespaced, Status: r.Status,
		}
		errs = append(errs, within(fmt.Sprintf("Options.Resources[%d]", i), resource.Wrong()))
		resources = append(resources, resource)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return apiserver.New(apiserver.Options{
		Resources: resources, File: o.File, RefuseWatchList: o.NoWatchList, BookmarkEvery: o.BookmarkEvery,
	})
}
