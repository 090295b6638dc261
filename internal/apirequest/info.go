package apirequest

import (
	"net/http"
	"strings"
)

// The verbs that are not simply an HTTP method in lower case, as RBAC rules and audit logs write them.
const (
	VerbGet              = "get"
	VerbList             = "list"
	VerbWatch            = "watch"
	VerbCreate           = "create"
	VerbUpdate           = "update"
	VerbPatch            = "patch"
	VerbDelete           = "delete"
	VerbDeleteCollection = "deletecollection"
)

// Info is what one request asks for. The zero Info is a request for nothing.
type Info struct {
	// Verb is the Kubernetes verb: get, list, watch, create, update, patch, delete or deletecollection. For a path that
	// names no resource it is the HTTP method in lower case.
	Verb string
	// Group is the API group, empty for the core group.
	Group string
	// Version is the API version, for example "v1".
	Version string
	// Resource is the plural resource name, empty when the path names none (discovery, /version, /healthz).
	Resource string
	// Subresource is what follows the name, for example "status", empty for the object itself.
	Subresource string
	// Namespace is the namespace in the path, empty for cluster-wide requests and for requests about a namespace object.
	Namespace string
	// Name is the object's name: from the path or, for lists and watches, from a metadata.name field selector. It is
	// empty where the request names no object, which a create never does.
	Name string
	// Path is the URL's path as it came.
	Path string
	// User is the user on whose behalf the request is sent (the Impersonate-User header), empty for the client's own.
	User string
}

// IsResource reports whether the path names a resource.
func (i Info) IsResource() bool { return i.Resource != "" }

// IsWrite reports whether the request changes objects.
func (i Info) IsWrite() bool {
	switch i.Verb {
	case VerbCreate, VerbUpdate, VerbPatch, VerbDelete, VerbDeleteCollection:
		return i.IsResource()
	default:
		return false
	}
}

// ResourcePath is the resource with its subresource, for example "pods" or "pods/status". It is empty for a path that
// names no resource.
func (i Info) ResourcePath() string {
	if i.Subresource == "" {
		return i.Resource
	}
	return i.Resource + "/" + i.Subresource
}

// Key is the name a request is counted under: "verb resource", for example "create volumesnapshots" or
// "update pods/status", and "verb path" for a path that names no resource, for example "get /apis".
func (i Info) Key() string {
	if !i.IsResource() {
		return i.Verb + " " + i.Path
	}
	return i.Verb + " " + i.ResourcePath()
}

// Parse reads req's method, path and query. It never fails: what it does not understand is a request that names no
// resource. A path prefix before /api or /apis, as proxies add, is skipped.
func Parse(req *http.Request) Info {
	info := Info{Verb: strings.ToLower(req.Method), Path: req.URL.Path, User: req.Header.Get("Impersonate-User")}
	if info.Verb == "head" {
		info.Verb = VerbGet
	}
	rest := info.version(segments(req.URL.Path))
	if len(rest) == 0 {
		return info
	}
	watch := false
	if rest[0] == "watch" && len(rest) > 1 {
		watch, rest = true, rest[1:]
	}
	info.object(rest)
	info.Verb = resourceVerb(req, info.Name != "", watch)
	if info.Name == "" {
		info.Name = selectedName(req.URL.Query().Get("fieldSelector"))
	}
	return info
}

func segments(path string) []string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		if part == "api" || part == "apis" {
			return parts[i:]
		}
	}
	return nil
}

// version takes the prefix, group and version off parts and returns what follows.
func (i *Info) version(parts []string) []string {
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		i.Version = parts[1]
		return parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		i.Group, i.Version = parts[1], parts[2]
		return parts[3:]
	default:
		return nil
	}
}

func (i *Info) object(rest []string) {
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		i.Namespace = rest[1]
		rest = rest[2:]
	}
	i.Resource = rest[0]
	if len(rest) > 1 {
		i.Name = rest[1]
	}
	if len(rest) > 2 {
		i.Subresource = strings.Join(rest[2:], "/")
	}
}

func resourceVerb(req *http.Request, named, watch bool) string {
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		if asked := req.URL.Query().Get("watch"); watch || asked == "true" || asked == "1" {
			if !named || watch {
				return VerbWatch
			}
		}
		if named {
			return VerbGet
		}
		return VerbList
	case http.MethodPost:
		return VerbCreate
	case http.MethodPut:
		return VerbUpdate
	case http.MethodDelete:
		if named {
			return VerbDelete
		}
		return VerbDeleteCollection
	default:
		return strings.ToLower(req.Method)
	}
}

// selectedName reads the name out of a field selector that requires metadata.name to be one value.
func selectedName(selector string) string {
	for term := range strings.SplitSeq(selector, ",") {
		if name, ok := strings.CutPrefix(term, "metadata.name="); ok {
			return strings.TrimPrefix(name, "=")
		}
	}
	return ""
}
