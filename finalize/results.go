package finalize

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Results are the warnings and errors of a backup or restore, as in Velero's files NAME-results.gz. The zero value is
// empty. It is not safe for concurrent use.
type Results struct {
	Warnings ResultSet `json:"warnings"`
	Errors   ResultSet `json:"errors"`

	// Extra holds the keys this version does not know. They are written back.
	Extra map[string]json.RawMessage `json:"-"`
}

// ResultSet is messages by what they concern, each message once, in the order in which they were added.
type ResultSet struct {
	// Velero holds messages about the work itself, Cluster those about objects of the cluster.
	Velero  []string `json:"velero,omitempty"`
	Cluster []string `json:"cluster,omitempty"`
	// Namespaces holds the messages about a namespace's objects by its name.
	Namespaces map[string][]string `json:"namespaces,omitempty"`

	// Extra holds the keys this version does not know. They are written back.
	Extra map[string]json.RawMessage `json:"-"`
}

// Add adds a message about an object of a namespace; an empty namespace means the cluster. A message that is there stays
// once. Bytes that are not UTF-8 are replaced, as in the file.
func (s *ResultSet) Add(namespace, message string) {
	namespace, message = text(namespace), text(message)
	if namespace == "" {
		s.Cluster = with(s.Cluster, message)
		return
	}
	if s.Namespaces == nil {
		s.Namespaces = map[string][]string{}
	}
	s.Namespaces[namespace] = with(s.Namespaces[namespace], message)
}

// AddVelero adds a message about the work itself. A message that is there stays once.
func (s *ResultSet) AddVelero(message string) { s.Velero = with(s.Velero, text(message)) }

// Len counts the messages.
func (s ResultSet) Len() int {
	n := len(s.Velero) + len(s.Cluster)
	for _, list := range s.Namespaces {
		n += len(list)
	}
	return n
}

// Merge adds the messages of other that are not there yet. Nothing is removed or changed, so merging the same again, in
// any run, changes nothing. Nothing of other is shared afterwards but unknown keys.
func (r *Results) Merge(other Results) {
	r.Warnings.merge(other.Warnings)
	r.Errors.merge(other.Errors)
	r.Extra = union(r.Extra, other.Extra)
}

func (s *ResultSet) merge(other ResultSet) {
	s.Velero = appendNew(s.Velero, other.Velero)
	s.Cluster = appendNew(s.Cluster, other.Cluster)
	for _, ns := range slices.Sorted(maps.Keys(other.Namespaces)) {
		if s.Namespaces == nil {
			s.Namespaces = map[string][]string{}
		}
		s.Namespaces[text(ns)] = appendNew(s.Namespaces[text(ns)], other.Namespaces[ns])
	}
	s.Extra = union(s.Extra, other.Extra)
}

// distinct drops messages that are there twice.
func (s *ResultSet) distinct() {
	s.Velero, s.Cluster = appendNew(nil, s.Velero), appendNew(nil, s.Cluster)
	for ns, list := range s.Namespaces {
		s.Namespaces[ns] = appendNew(nil, list)
	}
}

// text returns s as a file keeps it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func with(list []string, message string) []string {
	if slices.Contains(list, message) {
		return list
	}
	return append(slices.Clip(list), message)
}

// appendNew returns list and what more has besides, in time linear in both.
func appendNew(list, more []string) []string {
	seen := make(map[string]bool, len(list)+len(more))
	out := slices.Clone(list)
	for _, m := range list {
		seen[m] = true
	}
	for _, m := range more {
		if m = text(m); !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	return out
}

func union(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(b)
	maps.Copy(out, a)
	return out
}
