package apiserver

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"

	"github.com/sheetanchor/sheetanchor/internal/apischema"
)

// definition is the spec of a CustomResourceDefinition, as far as this server follows it.
type definition struct {
	Group                 string              `json:"group"`
	Names                 names               `json:"names"`
	Scope                 string              `json:"scope"`
	Versions              []definitionVersion `json:"versions"`
	PreserveUnknownFields bool                `json:"preserveUnknownFields"`
}

type names struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

type definitionVersion struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
	Schema  *struct {
		OpenAPIV3Schema json.RawMessage `json:"openAPIV3Schema"`
	} `json:"schema"`
	Subresources struct {
		Status *struct{} `json:"status"`
	} `json:"subresources"`
	SelectableFields []struct {
		JSONPath string `json:"jsonPath"`
	} `json:"selectableFields"`
}

func (r *Resource) isDefinition() bool { return r.builtin && r.Kind == "CustomResourceDefinition" }

// definitionOf reads a CustomResourceDefinition.
func definitionOf(u *unstructured.Unstructured) (definition, error) {
	var d definition
	raw, err := json.Marshal(u.Object["spec"])
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	return d, err
}

// define makes a CustomResourceDefinition the resource it stands for. Faults name the fields.
func define(u *unstructured.Unstructured) (*Resource, field.ErrorList) {
	spec := field.NewPath("spec")
	d, err := definitionOf(u)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(spec, "", err.Error())}
	}
	faults := d.missing(u.GetName(), spec)
	res := &Resource{
		Group: d.Group, Kind: d.Names.Kind, Plural: d.Names.Plural, Short: d.Names.ShortNames, Categories: d.Names.Categories,
		Namespaced: d.Scope == "Namespaced", list: d.Names.ListKind, name: d.Names.Singular, schemas: map[string]*apischema.Schema{},
	}
	for i, v := range d.Versions {
		at := spec.Child("versions").Index(i)
		if v.Served {
			res.Versions = append(res.Versions, v.Name)
		}
		if v.Storage {
			res.stored = v.Name
		}
		res.Status = res.Status || v.Subresources.Status != nil
		for _, selectable := range v.SelectableFields {
			res.fields = append(res.fields, strings.TrimPrefix(selectable.JSONPath, "."))
		}
		if v.Schema == nil || len(v.Schema.OpenAPIV3Schema) == 0 {
			faults = append(faults, field.Required(at.Child("schema", "openAPIV3Schema"), "schemas are required"))
			continue
		}
		parsed, wrong := apischema.Parse(v.Schema.OpenAPIV3Schema, at.Child("schema", "openAPIV3Schema"))
		faults = append(faults, wrong...)
		if !d.PreserveUnknownFields {
			res.schemas[v.Name] = parsed
		}
	}
	slices.SortStableFunc(res.Versions, func(a, b string) int { return -version.CompareKubeAwareVersionStrings(a, b) })
	if len(faults) > 0 {
		return nil, faults
	}
	complete, err := res.complete()
	if err != nil {
		return nil, field.ErrorList{field.Invalid(spec, d.Names.Plural, err.Error())}
	}
	return complete, nil
}

// missing is what a definition lacks or contradicts itself in.
func (d *definition) missing(name string, spec *field.Path) (faults field.ErrorList) {
	for path, value := range map[*field.Path]string{
		spec.Child("group"): d.Group, spec.Child("names", "plural"): d.Names.Plural, spec.Child("names", "kind"): d.Names.Kind, spec.Child("scope"): d.Scope,
	} {
		if value == "" {
			faults = append(faults, field.Required(path, ""))
		}
	}
	if d.Scope != "" && d.Scope != "Namespaced" && d.Scope != "Cluster" {
		faults = append(faults, field.NotSupported(spec.Child("scope"), d.Scope, []string{"Cluster", "Namespaced"}))
	}
	if wanted := d.Names.Plural + "." + d.Group; name != wanted {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), name, "must be spec.names.plural+\".\"+spec.group"))
	}
	served, storage := false, 0
	for _, v := range d.Versions {
		served = served || v.Served
		if v.Storage {
			storage++
		}
	}
	if storage != 1 {
		faults = append(faults, field.Invalid(spec.Child("versions"), storage, "must have exactly one version marked as storage version"))
	}
	if !served {
		faults = append(faults, field.Invalid(spec.Child("versions"), "", "must have at least one version marked as served"))
	}
	return faults
}

// establish fills in what the real server's controllers give a definition whose names nobody contests.
func (d *definition) establish(u *unstructured.Unstructured) error {
	if d.Names.Singular == "" {
		d.Names.Singular = strings.ToLower(d.Names.Kind)
	}
	if d.Names.ListKind == "" {
		d.Names.ListKind = d.Names.Kind + "List"
	}
	names, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.Names)
	if err != nil {
		return err
	}
	at := now().UTC().Format("2006-01-02T15:04:05Z")
	condition := func(kind, reason, message string) any {
		return map[string]any{"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}
	}
	status, _ := u.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		u.Object["status"] = status
	}
	status["acceptedNames"] = names
	if _, ok := status["conditions"]; !ok {
		status["conditions"] = []any{
			condition("NamesAccepted", "NoConflicts", "no conflicts found"),
			condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
		}
	}
	stored, _, _ := unstructured.NestedStringSlice(status, "storedVersions")
	for _, v := range d.Versions {
		if v.Storage && !slices.Contains(stored, v.Name) {
			stored = append(stored, v.Name)
		}
	}
	status["storedVersions"] = toAny(stored)
	return unstructured.SetNestedMap(u.Object, runtime.DeepCopyJSON(names), "spec", "names")
}
