package apischema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Judge compares an object with its schema and returns every fault with its path, in the real server's words.
func (s *Schema) Judge(object map[string]any) field.ErrorList {
	var faults field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if key == "metadata" || key == "apiVersion" || key == "kind" {
			continue
		}
		if member, ok := object[key]; ok {
			faults = append(faults, s.Properties[key].value(member, field.NewPath(key))...)
		}
	}
	return append(faults, s.object(object, nil, true)...)
}

// value compares one value.
func (s *Schema) value(value any, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	if value == nil && s.Nullable {
		return nil
	}
	if wanted := s.mistyped(value); wanted != "" {
		return field.ErrorList{field.TypeInvalid(at, typeOf(value), fmt.Sprintf("%s in body must be of type %s: %q", at, wanted, typeOf(value)))}
	}
	var faults field.ErrorList
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(allowed any) bool { return sameJSON(allowed, value) }) {
		faults = append(faults, field.NotSupported(at, value, texts(s.Enum)))
	}
	switch value := value.(type) {
	case string:
		faults = append(faults, s.text(value, at)...)
	case int64:
		faults = append(faults, s.number(float64(value), value, at)...)
	case float64:
		faults = append(faults, s.number(value, value, at)...)
	case []any:
		faults = append(faults, s.list(value, at)...)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if property, known := s.Properties[key]; known {
				faults = append(faults, property.value(value[key], at.Child(key))...)
			} else if s.Additional != nil {
				faults = append(faults, s.Additional.schema.value(value[key], at.Child(key))...)
			}
		}
		faults = append(faults, s.object(value, at, false)...)
	}
	return append(faults, s.combined(value, at)...)
}

// where is the beginning of a message about a path, empty for the whole object.
func where(at *field.Path) string {
	if at == nil {
		return ""
	}
	return at.String() + " "
}

// mistyped is the type a value should have, or "".
func (s *Schema) mistyped(value any) string {
	kind := typeOf(value)
	switch {
	case s.IntOrString && kind != "integer" && kind != "string":
		return "integer,string"
	case s.IntOrString, s.Type == "", s.Type == kind, s.Type == "number" && kind == "integer":
		return ""
	case s.Type == "integer" && kind == "number" && value == math.Trunc(value.(float64)): //nolint:forcetypeassert // it is a number
		return ""
	default:
		return s.Type
	}
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

func sameJSON(a, b any) bool {
	if af, ok := asFloat(a); ok {
		bf, isNumber := asFloat(b)
		return isNumber && af == bf
	}
	return apiequality.Semantic.DeepEqual(a, b)
}

func asFloat(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case float64:
		return value, true
	default:
		return 0, false
	}
}

func texts(values []any) []string {
	out := make([]string, 0, len(values))
	for _, value := range values {
		if text, ok := value.(string); ok {
			out = append(out, text)
			continue
		}
		raw, _ := json.Marshal(value) // which came from JSON
		out = append(out, string(raw))
	}
	return out
}

func (s *Schema) text(value string, at *field.Path) (faults field.ErrorList) {
	n := int64(utf8.RuneCountInString(value))
	if s.MaxLength != nil && n > *s.MaxLength {
		faults = append(faults, field.TooLong(at, "", int(*s.MaxLength)))
	}
	if s.MinLength != nil && n < *s.MinLength {
		faults = append(faults, field.Invalid(at, value, fmt.Sprintf("%s in body should be at least %d chars long", at, *s.MinLength)))
	}
	if s.pattern != nil && !s.pattern.MatchString(value) {
		faults = append(faults, field.Invalid(at, value, fmt.Sprintf("%s in body should match '%s'", at, s.Pattern)))
	}
	return faults
}

func (s *Schema) number(n float64, value any, at *field.Path) (faults field.ErrorList) {
	wrong := func(relation string, limit float64) {
		faults = append(faults, field.Invalid(at, value, fmt.Sprintf("%s in body should be %s %v", at, relation, limit)))
	}
	switch {
	case s.Minimum == nil:
	case s.ExclusiveMinimum && n <= *s.Minimum:
		wrong("greater than", *s.Minimum)
	case n < *s.Minimum:
		wrong("greater than or equal to", *s.Minimum)
	}
	switch {
	case s.Maximum == nil:
	case s.ExclusiveMaximum && n >= *s.Maximum:
		wrong("less than", *s.Maximum)
	case n > *s.Maximum:
		wrong("less than or equal to", *s.Maximum)
	}
	return faults
}

func (s *Schema) list(items []any, at *field.Path) (faults field.ErrorList) {
	n := int64(len(items))
	if s.MaxItems != nil && n > *s.MaxItems {
		faults = append(faults, field.TooMany(at, len(items), int(*s.MaxItems)))
	}
	if s.MinItems != nil && n < *s.MinItems {
		faults = append(faults, field.Invalid(at, n, fmt.Sprintf("%s in body should have at least %d items", at, *s.MinItems)))
	}
	seen := map[string]bool{}
	for i, item := range items {
		faults = append(faults, s.Items.value(item, at.Index(i))...)
		id, ok := s.identity(item)
		if ok && seen[id] {
			faults = append(faults, field.Duplicate(at.Index(i), json.RawMessage(id)))
		}
		seen[id] = true
	}
	return faults
}

// identity is what no two items of a list of type set or map may share.
func (s *Schema) identity(item any) (string, bool) {
	switch s.ListType {
	case "set":
	case "map":
		members, _ := item.(map[string]any)
		keys := map[string]any{}
		for _, key := range s.ListMapKeys {
			keys[key] = members[key]
		}
		item = keys
	default:
		return "", false
	}
	raw, err := json.Marshal(item)
	return string(raw), err == nil
}

func (s *Schema) object(object map[string]any, at *field.Path, root bool) (faults field.ErrorList) {
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			faults = append(faults, field.Required(at.Child(name), ""))
		}
	}
	n := int64(len(object))
	if s.MinProperties != nil && n < *s.MinProperties {
		faults = append(faults, field.Invalid(at, n, fmt.Sprintf("%s in body should have at least %d properties", at, *s.MinProperties)))
	}
	if s.MaxProperties != nil && n > *s.MaxProperties {
		faults = append(faults, field.TooMany(at, len(object), int(*s.MaxProperties)))
	}
	if root {
		faults = append(faults, s.combined(object, at)...)
	}
	return faults
}

// combined compares a value with what allOf, anyOf, oneOf and not say.
func (s *Schema) combined(value any, at *field.Path) (faults field.ErrorList) {
	for _, part := range s.AllOf {
		faults = append(faults, part.value(value, at)...)
	}
	fits := func(parts []*Schema) (n int) {
		for _, part := range parts {
			if len(part.value(value, at)) == 0 {
				n++
			}
		}
		return n
	}
	wrong := func(rule string) {
		faults = append(faults, field.Invalid(at, "", where(at)+"in body "+rule))
	}
	if len(s.AnyOf) > 0 && fits(s.AnyOf) == 0 {
		wrong("must validate at least one schema (anyOf)")
	}
	if len(s.OneOf) > 0 && fits(s.OneOf) != 1 {
		wrong("must validate one and only one schema (oneOf)")
	}
	if s.Not != nil && len(s.Not.value(value, at)) == 0 {
		wrong("must not validate the schema (not)")
	}
	return faults
}
