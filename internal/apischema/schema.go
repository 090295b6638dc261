package apischema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Schema is a structural schema. Make one with [Parse]; it is not changed afterwards.
type Schema struct {
	Type       string             `json:"type"`
	Properties map[string]*Schema `json:"properties"`
	Items      *Schema            `json:"items"`
	Additional *additional        `json:"additionalProperties"`
	Required   []string           `json:"required"`
	Enum       []any              `json:"enum"`
	Default    json.RawMessage    `json:"default"`
	Nullable   bool               `json:"nullable"`

	Pattern          string   `json:"pattern"`
	MinLength        *int64   `json:"minLength"`
	MaxLength        *int64   `json:"maxLength"`
	Minimum          *float64 `json:"minimum"`
	Maximum          *float64 `json:"maximum"`
	ExclusiveMinimum bool     `json:"exclusiveMinimum"`
	ExclusiveMaximum bool     `json:"exclusiveMaximum"`
	MinItems         *int64   `json:"minItems"`
	MaxItems         *int64   `json:"maxItems"`
	MinProperties    *int64   `json:"minProperties"`
	MaxProperties    *int64   `json:"maxProperties"`

	AllOf []*Schema `json:"allOf"`
	AnyOf []*Schema `json:"anyOf"`
	OneOf []*Schema `json:"oneOf"`
	Not   *Schema   `json:"not"`

	Preserve    bool     `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded    bool     `json:"x-kubernetes-embedded-resource"`
	IntOrString bool     `json:"x-kubernetes-int-or-string"`
	ListType    string   `json:"x-kubernetes-list-type"`
	ListMapKeys []string `json:"x-kubernetes-list-map-keys"`

	pattern  *regexp.Regexp
	fallback any // Default, decoded
}

// additional is what additionalProperties may be.
type additional struct {
	allowed bool
	schema  *Schema // nil: any value
}

func (s *additional) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &s.allowed) == nil {
		return nil
	}
	s.allowed = true
	return json.Unmarshal(raw, &s.schema)
}

// Parse reads a schema, which stands at a path of a definition. Its faults name the fields; with any, the schema is nil.
func Parse(raw json.RawMessage, at *field.Path) (*Schema, field.ErrorList) {
	var s *Schema
	if err := utiljson.Unmarshal(raw, &s); err != nil {
		return nil, field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	if faults := s.complete(at); len(faults) > 0 {
		return nil, faults
	}
	return s, nil
}

// parts calls visit with each schema below s and where it stands.
func (s *Schema) parts(at *field.Path, visit func(*Schema, *field.Path)) {
	for name, property := range s.Properties {
		visit(property, at.Child("properties").Key(name))
	}
	if s.Items != nil {
		visit(s.Items, at.Child("items"))
	}
	if s.Additional != nil && s.Additional.schema != nil {
		visit(s.Additional.schema, at.Child("additionalProperties"))
	}
	for name, list := range map[string][]*Schema{"allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf} {
		for i, part := range list {
			visit(part, at.Child(name).Index(i))
		}
	}
	if s.Not != nil {
		visit(s.Not, at.Child("not"))
	}
}

// complete decodes defaults and compiles patterns, and says which are wrong.
func (s *Schema) complete(at *field.Path) (faults field.ErrorList) {
	if s == nil {
		return field.ErrorList{field.Required(at, "a schema may not be null")}
	}
	if len(s.Default) > 0 && !bytes.Equal(s.Default, []byte("null")) {
		if err := utiljson.Unmarshal(s.Default, &s.fallback); err != nil {
			faults = append(faults, field.Invalid(at.Child("default"), string(s.Default), err.Error()))
		}
	}
	if s.Pattern != "" {
		var err error
		if s.pattern, err = regexp.Compile(s.Pattern); err != nil {
			faults = append(faults, field.Invalid(at.Child("pattern"), s.Pattern, fmt.Sprintf("must be a valid regular expression, but isn't: %v", err)))
		}
	}
	s.parts(at, func(part *Schema, at *field.Path) { faults = append(faults, part.complete(at)...) })
	return faults
}
