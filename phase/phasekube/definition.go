package phasekube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/phase"
)

// definitions is the kind that defines custom resources.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definition is what matters of a CustomResourceDefinition.
type definition struct {
	namespaced  bool
	unready     string // why it is not served yet, or any more; empty if it is
	keepUnknown bool   // nothing is pruned
	webhook     bool   // versions are converted by a webhook
	versions    []version
}

type version struct {
	name            string
	served, storage bool
	status          bool  // status is a subresource
	root            place // nil if the version has no schema
}

// newDefinition reads a definition as the server returns it.
func newDefinition(obj *unstructured.Unstructured) (definition, error) {
	at := place(obj.Object)
	spec, ok := at["spec"].(map[string]any)
	if !ok {
		return definition{}, fmt.Errorf("%w definition %s: it has no spec", phase.ErrInvalid, obj.GetName())
	}
	d := definition{
		namespaced:  place(spec).text("scope") == "Namespaced",
		keepUnknown: place(spec).flag("preserveUnknownFields"),
		unready:     unready(at),
	}
	if conversion, ok := spec["conversion"].(map[string]any); ok {
		d.webhook = place(conversion).text("strategy") == "Webhook"
	}
	versions, _, err := unstructured.NestedSlice(spec, "versions")
	if err != nil {
		return d, fmt.Errorf("%w definition %s: %w", phase.ErrInvalid, obj.GetName(), err)
	}
	for _, v := range versions {
		one, ok := v.(map[string]any)
		if !ok {
			return d, fmt.Errorf("%w definition %s: a version is no object", phase.ErrInvalid, obj.GetName())
		}
		d.versions = append(d.versions, newVersion(one))
	}
	return d, nil
}

func newVersion(in place) version {
	v := version{name: in.text("name"), served: in.flag("served"), storage: in.flag("storage")}
	if sub, ok := in["subresources"].(map[string]any); ok {
		_, v.status = sub["status"]
	}
	if holder, ok := in["schema"].(map[string]any); ok {
		if root, ok := holder["openAPIV3Schema"].(map[string]any); ok {
			v.root = root
		}
	}
	return v
}

// unready says why the server does not serve the definition, by its conditions. A definition without any is not yet served.
func unready(at place) string {
	if at["metadata"] != nil && (&unstructured.Unstructured{Object: at}).GetDeletionTimestamp() != nil {
		return "its definition is being deleted"
	}
	status, _ := at["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if one, ok := c.(map[string]any); ok && place(one).text("type") == "Established" {
			if place(one).text("status") == "True" {
				return ""
			}
			return "its definition is not established: " + place(one).text("message")
		}
	}
	return "its definition is not established"
}
