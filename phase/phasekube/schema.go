package phasekube

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// place is one place of a structural schema: what follows reads it and changes nothing. Whatever it has in a form that no
// server accepts counts as absent.
type place map[string]any

// fate is what a server does with a value at a path.
type fate uint8

const (
	fateDropped fate = iota // the schema does not know it
	fateChecked             // the schema knows it: the last place says what it may be
	fateFree                // it is kept whatever it is
)

// walk follows a path from the root of a resource's schema. It returns the places on the way, the root first; with
// fateChecked the last one is that of the path's end.
func (s place) walk(path []string) ([]place, fate) {
	places := []place{s}
	at, embedded := s, true // the root has metadata, as an embedded resource has
	for i, name := range path {
		switch next, known := at.child(name); {
		case known:
			at, embedded = next, next.flag("x-kubernetes-embedded-resource")
			places = append(places, at)
		case embedded && (name == "metadata" || name == "apiVersion" || name == "kind"):
			return places, metadataFate(path[i:])
		case at.free():
			return places, fateFree
		default:
			return places, fateDropped
		}
	}
	return places, fateChecked
}

// metadataFate: every object has annotations and labels, which hold any text.
func metadataFate(path []string) fate {
	if len(path) == 3 && path[0] == "metadata" && (path[1] == "annotations" || path[1] == "labels") {
		return fateFree
	}
	return fateDropped
}

// child returns the place of a named value, and false if the schema says nothing of it.
func (s place) child(name string) (place, bool) {
	if properties, ok := s["properties"].(map[string]any); ok {
		if next, ok := properties[name].(map[string]any); ok {
			return next, true
		}
	}
	next, ok := s["additionalProperties"].(map[string]any)
	return next, ok
}

// free says whether values that the schema does not name are kept.
func (s place) free() bool {
	return s.flag("x-kubernetes-preserve-unknown-fields") || s.flag("additionalProperties")
}

func (s place) flag(name string) bool {
	on, ok := s[name].(bool)
	return ok && on
}

func (s place) text(name string) string {
	text, ok := s[name].(string)
	if !ok {
		return ""
	}
	return text
}

func (s place) texts(name string) []string {
	all, ok := s[name].([]any)
	if !ok {
		return nil
	}
	var texts []string
	for _, v := range all {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// takesText says whether a text may stand here at all.
func (s place) takesText() bool {
	free := s.flag("x-kubernetes-preserve-unknown-fields") || s.flag("x-kubernetes-int-or-string")
	return s.text("type") == "string" || s.text("type") == "" && free
}

// requires returns the values that must stand here and that the server does not fill in.
func (s place) requires() []string {
	return slices.DeleteFunc(s.texts("required"), func(name string) bool {
		next, ok := s.child(name)
		if !ok {
			return false
		}
		_, filled := next["default"]
		return filled
	})
}

// length returns a limit; false if there is none.
func (s place) length(name string) (int64, bool) {
	n, ok, err := unstructured.NestedInt64(s, name)
	if err == nil && ok {
		return n, true
	}
	f, ok, err := unstructured.NestedFloat64(s, name)
	return int64(f), err == nil && ok
}
