package apiserver

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
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
	// Namespaced says whether objects live in a namespace.
	Namespaced bool
	// Status says whether status is a subresource: then writes of the object leave it, and only writes of the
	// subresource change it.
	Status bool

	builtin     bool     // not a custom resource: typed where the scheme knows the kind, status writes may change metadata
	generation  bool     // metadata.generation counts changes of what is not metadata or status
	conditional bool     // an update must carry a resourceVersion
	phase       string   // status.phase of a new object
	label       bool     // names are DNS labels, not subdomains
	fields      []string // selectable besides metadata.name and metadata.namespace
}

// complete fills in what may be left out and reports what is wrong, naming the field.
func (r Resource) complete() (*Resource, error) {
	if r.Plural == "" {
		r.Plural = strings.ToLower(r.Kind) + "s"
	}
	for name, value := range map[string]string{"Kind": strings.ToLower(r.Kind), "Plural": r.Plural} {
		if msgs := validation.IsDNS1035Label(value); len(msgs) > 0 {
			return nil, fmt.Errorf("resource %q: %s: %s", r.Plural, name, msgs[0])
		}
	}
	if len(r.Versions) == 0 {
		return nil, fmt.Errorf("resource %q: Versions: at least one is required", r.Plural)
	}
	for _, version := range r.Versions {
		if msgs := validation.IsDNS1035Label(version); len(msgs) > 0 {
			return nil, fmt.Errorf("resource %q: Versions: %q: %s", r.Plural, version, msgs[0])
		}
	}
	if !r.builtin {
		if msgs := validation.IsDNS1123Subdomain(r.Group); len(msgs) > 0 {
			return nil, fmt.Errorf("resource %q: Group: %s", r.Plural, msgs[0])
		}
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
func (r *Resource) storage() schema.GroupVersionKind { return r.groupKind().WithVersion(r.Versions[0]) }

func (r *Resource) serves(version string) bool {
	return slices.Contains(r.Versions, version)
}

func (r *Resource) singular() string { return strings.ToLower(r.Kind) }

// selectable reports whether a field selector may use path.
func (r *Resource) selectable(path string) bool {
	return path == "metadata.name" || path == "metadata.namespace" && r.Namespaced || slices.Contains(r.fields, path)
}
