package phase

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Categories of errors. Ask with [errors.Is]; the types below carry the data.
var (
	// ErrTable: the table given to NewMachine or Extend breaks a promise. The error is one or more [*TableError].
	ErrTable = errors.New("bad phase table")
	// ErrIllegalTransition: the event is not legal in the phase. The error is an [*IllegalTransitionError].
	ErrIllegalTransition = errors.New("illegal phase transition")
	// ErrUnknownPhase: an object or a record is in a phase that the machine does not have. Nothing was changed.
	ErrUnknownPhase = errors.New("unknown phase")
	// ErrConflict: somebody else was first. From an Applier the error is a [*ConflictError].
	ErrConflict = errors.New("phase conflict")
	// ErrUnknownOutcome: a write got no answer; it may or may not have been done. Load again before anything else.
	ErrUnknownOutcome = errors.New("unknown outcome")
	// ErrInvalid: what was given or is stored is wrong, or the server refuses the content; trying again is no use.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound: there is no such object.
	ErrNotFound = errors.New("object not found")
	// ErrForbidden: the caller has no permission.
	ErrForbidden = errors.New("forbidden")
	// ErrMissingAPI: the server does not serve this kind of object, or not this subresource of it.
	ErrMissingAPI = errors.New("missing API")
	// ErrNamespaceTerminating: the namespace is being deleted.
	ErrNamespaceTerminating = errors.New("namespace is terminating")
	// ErrQuotaExceeded: a resource quota refuses the write.
	ErrQuotaExceeded = errors.New("quota exceeded")
	// ErrForeignRecord: the record belongs to an object with another UID. It is neither used nor overwritten.
	ErrForeignRecord = errors.New("foreign record")
	// ErrGaveUp: the time for retries (ApplierOptions.RetryFor) has passed.
	ErrGaveUp = errors.New("gave up")
	// ErrStoreUnavailable: the last steps have lasted for ApplierOptions.MaxFinalize and the record cannot be saved, so the
	// object alone was ended, with [ReasonStoreUnavailable]. Call Load later to make the record follow.
	ErrStoreUnavailable = errors.New("store unavailable")
	// ErrStuck: work has passed a deadline. The error is a [*StuckError].
	ErrStuck = errors.New("stuck")
	// ErrPanic: an Object, a Record or a Clock panicked. Whether a write was done is not known.
	ErrPanic = errors.New("panic in a callback")
)

// TableError names one fault of a machine's table. It is [ErrTable].
type TableError struct {
	Phase   string // the phase at fault
	Event   Event  // the event at fault; empty when the phase itself is
	Problem string
}

// Error returns phase, event and problem.
func (e *TableError) Error() string {
	if e.Event == "" {
		return fmt.Sprintf("%v: phase %q: %s", ErrTable, e.Phase, e.Problem)
	}
	return fmt.Sprintf("%v: phase %q, event %q: %s", ErrTable, e.Phase, e.Event, e.Problem)
}

// Unwrap returns [ErrTable].
func (e *TableError) Unwrap() error { return ErrTable }

// IllegalTransitionError names an event that is not legal in a phase. It is [ErrIllegalTransition], and
// [ErrUnknownPhase] too if the machine does not have the phase.
type IllegalTransitionError struct {
	Phase   string
	Event   Event
	Legal   []Event // the events that are legal there, sorted; none in a terminal phase
	Unknown bool    // the machine does not have the phase
}

// Error returns the phase, the event and the legal events.
func (e *IllegalTransitionError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("%v: event %q: phase %q is not in the machine", ErrIllegalTransition, e.Event, e.Phase)
	}
	if len(e.Legal) == 0 {
		return fmt.Sprintf("%v: event %q in phase %q, which is terminal", ErrIllegalTransition, e.Event, e.Phase)
	}
	legal := make([]string, len(e.Legal))
	for i, ev := range e.Legal {
		legal[i] = string(ev)
	}
	return fmt.Sprintf("%v: event %q in phase %q; legal are %s",
		ErrIllegalTransition, e.Event, e.Phase, strings.Join(legal, ", "))
}

// Unwrap returns the categories.
func (e *IllegalTransitionError) Unwrap() []error {
	if e.Unknown {
		return []error{ErrIllegalTransition, ErrUnknownPhase}
	}
	return []error{ErrIllegalTransition}
}

// ConflictError says who was first. It is [ErrConflict].
type ConflictError struct {
	Expected string // the phase from which the change should have started
	Wanted   string // the phase to which it should have led
	Found    string // the phase that was found; empty if that is not known
	Owner    string // the owner that was found; empty if there is none
	Replaced bool   // the object, or the record, now belongs to another UID
	Err      error  // the refusal; may be nil
}

// Error returns what was expected, wanted and found.
func (e *ConflictError) Error() string {
	text := fmt.Sprintf("%v: expected %q to move to %q", ErrConflict, e.Expected, e.Wanted)
	if e.Found != "" {
		text += fmt.Sprintf(", found %q", e.Found)
	}
	if e.Owner != "" {
		text += fmt.Sprintf(" owned by %q", e.Owner)
	}
	if e.Replaced {
		text += " of another UID"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns [ErrConflict] and the refusal.
func (e *ConflictError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrConflict}
	}
	return []error{ErrConflict, e.Err}
}

// transientError marks an error that may pass.
type transientError struct {
	err   error
	after time.Duration
}

func (e *transientError) Error() string { return e.err.Error() }
func (e *transientError) Unwrap() error { return e.err }

// Transient marks err as one that may pass, so that the Applier tries again; nil stays nil. An Object or a Record wraps
// only errors after which certainly nothing was written; otherwise the error is [ErrUnknownOutcome].
func Transient(err error) error { return TransientAfter(err, 0) }

// TransientAfter is [Transient] with the least time to wait before the next try, such as the server's Retry-After; zero
// or less leaves the time to the Applier.
func TransientAfter(err error, wait time.Duration) error {
	if err == nil {
		return nil
	}
	return &transientError{err: err, after: max(wait, 0)}
}

// IsTransient says whether err, or one that it wraps, was marked by [Transient]. An Applier returns such errors when
// its time for retries has passed: trying again later may help.
func IsTransient(err error) bool {
	_, ok := errors.AsType[*transientError](err)
	return ok
}
