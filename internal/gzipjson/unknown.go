package gzipjson

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

// Unknown returns the members of a JSON object whose keys are none of known, compared as encoding/json compares them:
// without regard to case. It returns nil when there are none.
func Unknown(object []byte, known []string) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	maps.DeleteFunc(members, func(key string, _ json.RawMessage) bool { return contains(known, key) })
	if len(members) == 0 {
		members = nil
	}
	return members, nil
}

// Join returns a JSON object with the members of unknown appended in the order of their keys. A key that is one of known
// is left out: what the program set holds.
func Join(object []byte, known []string, unknown map[string]json.RawMessage) ([]byte, error) {
	if len(unknown) == 0 {
		return object, nil
	}
	body, ok := strings.CutSuffix(string(object), "}")
	if !ok {
		return nil, errors.New("not a json object")
	}
	out := []byte(body)
	for _, key := range slices.Sorted(maps.Keys(unknown)) {
		if contains(known, key) {
			continue
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), unknown[key]...)
	}
	return append(out, '}'), nil
}

func contains(known []string, key string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, key) })
}
