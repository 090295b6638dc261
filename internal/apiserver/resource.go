package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sheetanchor/sheetanchor/internal/apischema"
)

// Resource is a kind of object the server serves.
type Resource struct {
	// Group is the API group, empty for the core group.
	Group string
	// Versions are the served versions. Objects are stored as the first, and differ between versions in apiVersion only.
	Versions []string
	// Kind is the kind of one object, for example "VolumeSnapshot".
	Kind string
	// Plural is the name in paths, for example "volumesnapshots".
	Plural string
	// Short are the short names that discovery lists.
	Short []string
	// Categories are the groups of resources, such as "all", that discovery lists.
	Categories []string
	// Namespaced says whether objects live in a namespace.
	Namespaced bool
	// Status says whether status is a subresource: then writes of the object leave it, and only writes of the
	// subresource change it.
	Status bool

	builtin     bool     // not a custom resource: typed where the scheme knows the kind, status writes may change metadata
	virtual     bool     // can be created only, and is answered without being stored
	generation  bool     // metadata.generation counts changes of what is not metadata or status
	conditional bool     // an update must carry a resourceVersion
	phase       string   // status.phase of a new object
	label       bool     // names are DNS labels, not subdomains
	rbac        bool     // names are path segments, which may hold a colon
	graceful    bool     // objects may take time to end (pods)
	orphans     bool     // dependents are orphaned unless a delete asks for something else
	fields      []string // selectable besides metadata.name and metadata.namespace

	stored     string // the version objects are kept in, "" for the first
	name, list string // singular name and kind of a list, "" for the usual ones
	// schemas are those of a CustomResourceDefinition, by version. A version without one keeps any field.
	schemas map[string]*apischema.Schema
}

// Wrong returns every fault of the resource, joined, each with the name of its field, or nil.
func (r Resource) Wrong() error {
	var errs []error
	check := func(name, value string, msgs []string) {
		if len(msgs) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: %s", name, value, msgs[0]))
		}
	}
	check("Kind", r.Kind, validation.IsDNS1035Label(strings.ToLower(r.Kind)))
	if r.Plural != "" {
		check("Plural", r.Plural, validation.IsDNS1035Label(r.Plural))
	}
	if len(r.Versions) == 0 {
		check("Version", "", []string{"at least one is required"})
	}
	for _, version := range r.Versions {
		check("Version", version, validation.IsDNS1035Label(version))
	}
	if !r.builtin {
		check("Group", r.Group, validation.IsDNS1123Subdomain(r.Group))
	}
	return errors.Join(errs...)
}

// complete fills in what may be left out and reports what is wrong, naming the fields.
func (r Resource) complete() (*Resource, error) {
	if r.Plural == "" {
		r.Plural = strings.ToLower(r.Kind) + "s"
	}
	if err := r.Wrong(); err != nil {
		return nil, fmt.Errorf("resource %q: %w", r.Plural, err)
	}
	if !r.builtin {
		r.generation, r.conditional = true, true
	}
	return &r, nil
}

func (r *Resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Plural}
}

func (r *Resource) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// storage is the kind in the version that objects are kept in.
func (r *Resource) storage() schema.GroupVersionKind {
	if r.stored != "" {
		return r.groupKind().WithVersion(r.stored)
	}
	return r.groupKind().WithVersion(r.Versions[0])
}

func (r *Resource) serves(version string) bool {
	return slices.Contains(r.Versions, version)
}

func (r *Resource) singular() string {
	if r.name != "" {
		return r.name
	}
	return strings.ToLower(r.Kind)
}

// listKind is the kind of a list of objects.
func (r *Resource) listKind() string {
	if r.list != "" {
		return r.list
	}
	return r.Kind + "List"
}

// selectable reports whether a field selector may use path.
func (r *Resource) selectable(path string) bool {
	return path == "metadata.name" || path == "metadata.namespace" && (r.Namespaced || r.builtin && len(r.fields) == 0) || slices.Contains(r.fields, path)
}

// notSelectable is what the real server says of a field that no selector may use.
func (r *Resource) notSelectable(path string) string {
	if r.builtin && len(r.fields) == 0 {
		return fmt.Sprintf("%q is not a known field selector: only %q, %q", path, "metadata.name", "metadata.namespace")
	}
	return "field label not supported: " + path
}
