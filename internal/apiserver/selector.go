package apiserver

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selector is what a list or watch is limited to.
type selector struct {
	labels labels.Selector
	fields fields.Selector
}

// selector reads the call's selectors. A field that cannot be selected by is an error that names it.
func (c *call) selector() (*selector, error) {
	byLabel, err := labels.Parse(c.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(c.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range byField.Requirements() {
		if !c.res.selectable(requirement.Field) {
			return nil, apierrors.NewBadRequest(c.res.notSelectable(requirement.Field))
		}
	}
	return &selector{labels: byLabel, fields: byField}, nil
}

func (s *selector) everything() bool { return s.labels.Empty() && s.fields.Empty() }

func (s *selector) matches(o *object) bool {
	return (s.labels.Empty() || s.labels.Matches(labels.Set(o.tree().GetLabels()))) && (s.fields.Empty() || s.fields.Matches(objectFields{o.tree()}))
}

// zeroFields are how the fields read that are not strings, where they are absent.
var zeroFields = map[string]string{
	"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.replicas": "0", "status.successful": "0",
}

// objectFields reads an object's fields for a field selector.
type objectFields struct{ u *unstructured.Unstructured }

func (f objectFields) Has(path string) bool { return f.Get(path) != "" }

func (f objectFields) Get(path string) string {
	if path == "source" { // of an event
		path = "source.component"
		if component, _, _ := unstructured.NestedString(f.u.Object, "source", "component"); component == "" {
			path = "reportingComponent"
		}
	}
	value, found, err := unstructured.NestedFieldNoCopy(f.u.Object, strings.Split(path, ".")...)
	if err != nil || !found {
		return zeroFields[path]
	}
	return fmt.Sprint(value)
}
