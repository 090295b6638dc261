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
	op = op.clone()
	if err := op.check(); err != nil {
		return nil, err
	}
	return &op, nil
}

// check brings a private operation into the form in which the document keeps it, or says why it cannot be kept.
func (o *Operation) check() error {
	if o.ID == "" {
		return fmt.Errorf("operation of action %q on resource %q %q: %w: no ID", o.Action, o.Resource.Resource, o.Resource.Name, ErrMalformed)
	}
	valid := utf8.ValidString(o.ID) && utf8.ValidString(o.Action) && utf8.ValidString(o.Parent) && o.Resource.isText()
	for i := range o.PostItems {
		valid = valid && o.PostItems[i].isText()
	}
	if !valid {
		return fmt.Errorf("operation %q: %w: a name is not UTF-8", o.ID, ErrMalformed)
	}
	st := &o.Status
	for _, t := range [...]*time.Time{st.Created, st.Started, st.Updated, st.CancelRequested} {
		if t != nil && (t.Year() < 0 || t.Year() > maxYear) {
			return fmt.Errorf("operation %q: %w: a time is in year %d", o.ID, ErrMalformed, t.Year())
		}
	}
	st.Phase = Phase(text(string(st.Phase)))
	st.Error, st.Units, st.Description, st.CancelReason = text(st.Error), text(st.Units), text(st.Description), text(st.CancelReason)
	return nil
}

// isText reports whether every name is UTF-8.
func (r *ResourceID) isText() bool {
	return utf8.ValidString(r.Group) && utf8.ValidString(r.Resource) && utf8.ValidString(r.Namespace) && utf8.ValidString(r.Name)
}

// text returns s as JSON keeps it: bytes that are not UTF-8 replaced.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
