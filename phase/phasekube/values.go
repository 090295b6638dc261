package phasekube

import (
	"regexp"
	"slices"
	"unicode/utf8"
)

// choices are the parts of a schema that hold schemas for the same value. Generators write allOf where a type and a field
// of it both have an enum.
var choices = []string{"allOf", "anyOf", "oneOf"}

// refused returns the texts that may not stand here.
func (s place) refused(texts []string) []string {
	var refused []string
	for _, text := range texts {
		if !s.accepts(text) {
			refused = append(refused, text)
		}
	}
	return refused
}

// accepts says whether a text may stand here, as far as the schema alone says it.
func (s place) accepts(text string) bool {
	if t := s.text("type"); t != "" && t != "string" {
		return false
	}
	if s["enum"] != nil && !slices.Contains(s.texts("enum"), text) {
		return false
	}
	if pattern, err := regexp.Compile(s.text("pattern")); err == nil && !pattern.MatchString(text) {
		return false
	}
	n := int64(utf8.RuneCountInString(text))
	if least, ok := s.length("minLength"); ok && n < least {
		return false
	}
	if most, ok := s.length("maxLength"); ok && n > most {
		return false
	}
	if not, ok := s["not"].(map[string]any); ok && place(not).accepts(text) {
		return false
	}
	for _, name := range choices {
		all := s.places(name)
		fits := 0
		for _, one := range all {
			if one.accepts(text) {
				fits++
			}
		}
		switch {
		case len(all) == 0:
		case name == "allOf" && fits < len(all), name == "anyOf" && fits == 0, name == "oneOf" && fits != 1:
			return false
		}
	}
	return true
}

// places returns the schemas in a list.
func (s place) places(name string) []place {
	list, ok := s[name].([]any)
	if !ok {
		return nil
	}
	var all []place
	for _, v := range list {
		if one, ok := v.(map[string]any); ok {
			all = append(all, one)
		}
	}
	return all
}

// restriction says what limits the values of a text; empty if nothing does. A time has a format, which was looked at.
func (s place) restriction(time bool) string {
	for _, name := range append([]string{"enum", "pattern", "minLength", "maxLength", "maxItems", "not", "format"}, choices...) {
		if _, ok := s[name]; ok && (name != "format" || !time) {
			return name
		}
	}
	return ""
}

// rules says what the server evaluates here that is not looked at: expressions, and, above a text, conditions about the
// whole; empty if there is nothing.
func (s place) rules(above bool) string {
	if rules, ok := s["x-kubernetes-validations"].([]any); ok && len(rules) > 0 {
		return "x-kubernetes-validations"
	}
	for _, name := range append([]string{"not"}, choices...) {
		if s[name] != nil && above {
			return name
		}
	}
	return ""
}
