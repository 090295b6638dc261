package apischema

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Prune drops from an object what its schema does not have and returns the paths of what it dropped, sorted by where they
// stand. apiVersion, kind and metadata of the object are not looked at.
func (s *Schema) Prune(object map[string]any) []string {
	var dropped []string
	s.pruneObject(object, "", true, false, &dropped)
	return dropped
}

// pruneValue prunes below a value. Where loose is true an ancestor keeps what it does not know.
func (s *Schema) pruneValue(value any, at string, loose bool, dropped *[]string) {
	if s == nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		s.pruneObject(value, at, s.Embedded, loose, dropped)
	case []any:
		for i, item := range value {
			s.Items.pruneValue(item, fmt.Sprintf("%s[%d]", at, i), loose || s.Preserve, dropped)
		}
	}
}

func (s *Schema) pruneObject(object map[string]any, at string, resource, loose bool, dropped *[]string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if resource && (key == "apiVersion" || key == "kind" || key == "metadata") {
			continue
		}
		path := key
		if at != "" {
			path = at + "." + key
		}
		property, known := s.Properties[key]
		switch {
		case known:
			property.pruneValue(object[key], path, false, dropped)
		case s.Additional != nil && s.Additional.allowed:
			s.Additional.schema.pruneValue(object[key], path, s.Additional.schema == nil, dropped)
		case !s.Preserve && !loose:
			delete(object, key)
			*dropped = append(*dropped, path)
		}
	}
}

// Fill gives an object the defaults of what it lacks.
func (s *Schema) Fill(value any) {
	if s == nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for key, property := range s.Properties {
			member, ok := value[key]
			if property.fallback != nil && (!ok || member == nil && !property.Nullable) {
				value[key] = runtime.DeepCopyJSONValue(property.fallback)
			}
		}
		for key, member := range value {
			if property, known := s.Properties[key]; known {
				property.Fill(member)
			} else if s.Additional != nil {
				s.Additional.schema.Fill(member)
			}
		}
	case []any:
		for _, item := range value {
			s.Items.Fill(item)
		}
	}
}
