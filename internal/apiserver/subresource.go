package apiserver

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// subresource is a part of an object with verbs of its own.
type subresource struct {
	name, kind string
	verbs      metav1.Verbs
}

const (
	subStatus   = "status"
	subFinalize = "finalize" // of a namespace: its spec's finalizers
	subExec     = "exec"     // of a pod: a command in a container
)

// verbs are what may be done with objects.
func (r *Resource) verbs() metav1.Verbs {
	if r.virtual {
		return metav1.Verbs{"create"}
	}
	return metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

func (r *Resource) subresources() []subresource {
	var list []subresource
	if r.isPod() {
		list = append(list, subresource{subExec, "PodExecOptions", metav1.Verbs{"create", "get"}})
	}
	if r.isNamespace() {
		list = append(list, subresource{subFinalize, r.Kind, metav1.Verbs{"update"}})
	}
	if r.Status {
		list = append(list, subresource{subStatus, r.Kind, metav1.Verbs{"get", "patch", "update"}})
	}
	return list
}

func (r *Resource) isPod() bool { return r.builtin && r.Group == "" && r.Kind == "Pod" }

// has reports whether the resource has a subresource, "" being the object itself.
func (r *Resource) has(name string) bool {
	return name == "" || slices.ContainsFunc(r.subresources(), func(sub subresource) bool { return sub.name == name })
}

// can reports whether a verb may be used on a subresource, "" being the object itself.
func (r *Resource) can(verb, name string) bool {
	if name == "" {
		return slices.Contains(r.verbs(), verb)
	}
	return slices.ContainsFunc(r.subresources(), func(sub subresource) bool {
		return sub.name == name && slices.Contains(sub.verbs, verb)
	})
}

// exec answers what would start a command in a container. The streams of one need a connection, which an answer of an
// http.RoundTripper is not; all that can be had is the refusal of a request that asks for no upgrade.
func (s *Server) exec(c *call) (*http.Response, error) {
	s.mu.Lock()
	o := c.table.get(c.info.Namespace, c.info.Name)
	s.mu.Unlock()
	if o == nil {
		return nil, apierrors.NewNotFound(c.res.groupResource(), c.info.Name)
	}
	return nil, apierrors.NewBadRequest("Upgrade request required")
}

// allNamespaces reports whether a verb may be used on a namespaced resource without a namespace.
func allNamespaces(verb string) bool {
	return verb == apirequest.VerbList || verb == apirequest.VerbWatch
}
