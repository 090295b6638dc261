package phase

import (
	"fmt"
	"strings"
)

// Tally counts what is recorded of a piece of work. It is all that [Machine.Outcome] looks at. The zero Tally is work
// without operations, errors and warnings.
type Tally struct {
	// Asynchronous operations by state. An operation in an unknown state counts as running.
	Running, Completed, Failed, Canceled, Abandoned int
	// Errors and Warnings of items and hooks. Warnings decide nothing.
	Errors, Warnings int
	// Fatal says that the work as a whole failed. Cancel says that its end was asked for; it is the stronger of the two.
	Fatal, Cancel bool
	// Message explains Fatal or Cancel to people. It decides nothing.
	Message string
}

// Outcome returns the event that follows from the counts. If move is false, ev is empty and the work stays where it is:
// operations run, nothing was started yet, or it has ended. It is pure.
//
//   - In a ready phase a cancel is EventCancel and a fatal error EventFatal; else it stays.
//   - In a working phase, to be asked when all items are processed: EventWait or EventWaitPartiallyFailed if operations
//     run, else EventFinalize or EventFinalizePartiallyFailed.
//   - In a waiting phase it stays while operations run, but the first failure is EventWaitPartiallyFailed. Then
//     EventFinalize or EventFinalizePartiallyFailed.
//   - In a finalizing phase, to be asked when the last steps are done: EventCanceled after a cancel, EventFailed after a
//     fatal error, EventPartiallyFailed after any other failure, else EventCompleted. It stays if operations run.
//
// A failure is an operation that failed, was canceled or abandoned, an error, Fatal, Cancel, or a phase that records one.
// A negative count and an unknown phase are errors ([ErrInvalid], [ErrUnknownPhase]). An event that the machine does not
// have in a working phase is an [*IllegalTransitionError].
func (m *Machine[P]) Outcome(from P, t Tally) (ev Event, move bool, err error) {
	if err := t.validate(); err != nil {
		return "", false, err
	}
	from = m.known(from)
	spec, ok := m.specs[from]
	if !ok {
		return "", false, fmt.Errorf("outcome: %w %q", ErrUnknownPhase, from)
	}
	ev = t.event(spec.Class, spec.Failing)
	if ev == "" {
		return "", false, nil
	}
	if _, legal := m.next[edge[P]{from, ev}]; !legal {
		return "", false, fmt.Errorf("outcome: %w", m.illegal(from, ev))
	}
	return ev, true, nil
}

func (t Tally) event(class Class, failing bool) Event {
	failed := failing || t.failed()
	pick := func(good, bad Event) Event {
		if failed {
			return bad
		}
		return good
	}
	switch class {
	case ClassReady:
		switch {
		case t.Cancel:
			return EventCancel
		case t.Fatal:
			return EventFatal
		}
	case ClassWorking:
		if t.Running > 0 {
			return pick(EventWait, EventWaitPartiallyFailed)
		}
		return pick(EventFinalize, EventFinalizePartiallyFailed)
	case ClassWaiting:
		switch {
		case t.Running == 0:
			return pick(EventFinalize, EventFinalizePartiallyFailed)
		case failed && !failing:
			return EventWaitPartiallyFailed
		}
	case ClassFinalizing:
		switch {
		case t.Running > 0:
		case t.Cancel:
			return EventCanceled
		case t.Fatal:
			return EventFailed
		default:
			return pick(EventCompleted, EventPartiallyFailed)
		}
	default:
	}
	return ""
}

func (t Tally) failed() bool {
	return t.Failed > 0 || t.Canceled > 0 || t.Abandoned > 0 || t.Errors > 0 || t.Fatal || t.Cancel
}

// Cause returns the reason and the message that a change takes from the counts; both are empty if nothing failed.
func (t Tally) Cause() (reason, message string) {
	switch {
	case t.Cancel:
		return ReasonCanceled, t.Message
	case t.Fatal:
		return ReasonFatal, t.Message
	}
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(t.Failed, "failed")
	add(t.Canceled, "canceled")
	add(t.Abandoned, "abandoned")
	if len(parts) > 0 {
		total := t.Running + t.Completed + t.Failed + t.Canceled + t.Abandoned
		reason, message = ReasonOperationsFailed, fmt.Sprintf("of %d operations %s", total, strings.Join(parts, ", "))
	}
	if t.Errors > 0 {
		errs := fmt.Sprintf("%d errors of items and hooks", t.Errors)
		if reason == "" {
			return ReasonItemErrors, errs
		}
		return reason, message + "; " + errs
	}
	return reason, message
}

func (t Tally) validate() error {
	for _, f := range []struct {
		name  string
		count int
	}{
		{"Running", t.Running},
		{"Completed", t.Completed},
		{"Failed", t.Failed},
		{"Canceled", t.Canceled},
		{"Abandoned", t.Abandoned},
		{"Errors", t.Errors},
		{"Warnings", t.Warnings},
	} {
		if f.count < 0 {
			return fmt.Errorf("%w tally: %s is %d", ErrInvalid, f.name, f.count)
		}
	}
	return nil
}
