package operations

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// edit is what became known about an operation and is not committed yet. It is applied to the status that is there at
// that moment, so that nothing somebody else changed meanwhile is lost. The zero edit changes nothing.
type edit struct {
	progress *Progress // the last answer
	at       time.Time // when it came

	reason      string // why the operation is asked to stop; empty: it is not
	requestedAt time.Time

	end    Phase // how it ended other than by an answer; empty: it did not
	detail string
}

// apply returns the status with the edit. A terminal status stays as it is.
func (e *edit) apply(st Status) Status {
	if st.Phase.IsTerminal() {
		return st
	}
	if e.reason != "" && st.CancelRequested == nil { // first, as the answer can be the confirmation
		st.CancelRequested, st.CancelReason = stored(&e.requestedAt), short(e.reason)
	}
	if e.progress != nil {
		st = answered(st, *e.progress, e.at)
	}
	if st.Phase.IsTerminal() {
		return st
	}
	if e.end != "" {
		st.Phase, st.Error = e.end, short(e.detail)
	}
	return st
}

// answered returns the status after an action's answer. Whatever the action says first wins: an operation that was
// asked to stop and completed all the same is completed.
func answered(st Status, p Progress, now time.Time) Status {
	old := st
	if st.Created == nil {
		st.Created = stored(&now)
	}
	switch p.State {
	case StateCompleted:
		st.Phase, st.Error = PhaseCompleted, ""
	case StateFailed:
		st.Phase, st.Error = PhaseFailed, first(p.Error, "the action reported a failure without a reason")
	case StateCanceled:
		st.Phase, st.Error = PhaseCanceled, first(p.Error, st.CancelReason, "canceled")
	default: // StateRunning, and whatever is not known
		st.Phase = PhaseInProgress
	}
	st = counted(st, p)
	st.Description = first(p.Description, st.Description)
	if !p.Started.IsZero() {
		st.Started = &p.Started
	}
	switch {
	case !p.Updated.IsZero():
		if st.Updated == nil || p.Updated.After(*st.Updated) {
			st.Updated = &p.Updated
		}
	case !st.Equal(old) && (st.Updated == nil || now.After(*st.Updated)):
		st.Updated = &now
	}
	return st
}

// counted takes over the counts. While the unit stays the same they never fall, and never more is done than there is.
func counted(st Status, p Progress) Status {
	done, total := max(p.Completed, 0), max(p.Total, 0)
	if p.Units == "" || p.Units == st.Units {
		done = max(done, st.Completed)
		if total == 0 {
			total = st.Total
		}
	}
	if total > 0 {
		done = min(done, total)
	}
	st.Completed, st.Total, st.Units = done, total, first(p.Units, st.Units)
	return st
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// abandonedText says why an operation ends as abandoned.
func abandonedText(st Status, grace time.Duration, causes ...error) string {
	parts := []string{st.CancelReason, fmt.Sprintf("it did not confirm within %v that it stopped", grace)}
	for _, err := range causes {
		if err != nil {
			parts = append(parts, "last error: "+err.Error())
		}
	}
	return strings.Join(parts, "; ")
}

// maxText is how much of a text an action gives is kept: all operations of a key share one document.
const maxText = 2 << 10

// short returns the beginning of a text that is too long to be kept.
func short(s string) string {
	if len(s) <= maxText {
		return s
	}
	return text(s[:maxText]) + "… (cut)"
}

// storable returns the progress as a document can keep it, and what could not be kept as it is.
func (p Progress) storable() (Progress, error) {
	var faults []error
	for _, t := range []*time.Time{&p.Started, &p.Updated} {
		if year := t.UTC().Year(); year < 0 || year > maxYear {
			faults = append(faults, fmt.Errorf("%w: a time is in year %d", ErrMalformed, year))
			*t = time.Time{}
		}
	}
	for _, s := range []*string{&p.Error, &p.Units, &p.Description} {
		if n := len(*s); n > maxText {
			faults = append(faults, fmt.Errorf("%w: a text of %d bytes was cut", ErrTooLarge, n))
			*s = short(*s)
		}
	}
	return p, errors.Join(faults...)
}
