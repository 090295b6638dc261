package operations

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxYear is the last year an RFC 3339 time can have.
const maxYear = 9999

// newEntry returns a private copy of op in the form in which the document keeps it, or why it cannot be kept.
func newEntry(op Operation) (*Operation, error) {
	if op.ID == "" {
		return nil, fmt.Errorf("operation of action %q on %s %q: %w: no ID", op.Action, op.Resource.Resource, op.Resource.Name, ErrMalformed)
	}
	op = op.clone()
	names := append([]ResourceID{op.Resource}, op.PostItems...)
	valid := utf8.ValidString(op.ID) && utf8.ValidString(op.Action)
	for _, n := range names {
		valid = valid && utf8.ValidString(n.Group) && utf8.ValidString(n.Resource) && utf8.ValidString(n.Namespace) && utf8.ValidString(n.Name)
	}
	if !valid {
		return nil, fmt.Errorf("operation %q: %w: a name is not UTF-8", op.ID, ErrMalformed)
	}
	st := &op.Status
	for _, t := range []*time.Time{st.Created, st.Started, st.Updated, st.CancelRequested} {
		if t != nil && (t.Year() < 0 || t.Year() > maxYear) {
			return nil, fmt.Errorf("operation %q: %w: a time is in year %d", op.ID, ErrMalformed, t.Year())
		}
	}
	st.Phase = Phase(text(string(st.Phase)))
	st.Error, st.Units, st.Description, st.CancelReason = text(st.Error), text(st.Units), text(st.Description), text(st.CancelReason)
	return &op, nil
}

// text returns s as JSON keeps it: bytes that are not UTF-8 replaced.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
