package phase

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Deadlines bound how long work may last. They count from times that are recorded, never from process memory: see
// [State.Entered]. Where neither object nor record keeps a time, its deadline never passes.
type Deadlines[P ~string] struct {
	// Phase bounds single phases, from when they were entered. A phase that is not here, or is zero, has Other.
	Phase map[P]time.Duration
	// Other bounds every other phase, also those in which nothing was started yet; if the machine cannot end work in one of
	// them, that is only reported. Zero: no bound.
	Other time.Duration
	// Total bounds the work from when items were first processed. Zero: no bound.
	Total time.Duration
	// Grace bounds each phase in which work is that is to end: after a cancel, a fatal error or a passed deadline was recorded,
	// whatever the workers do. It counts from then, or from when the phase was entered. Such work has two phases left, so it
	// ends within twice Grace. What a phase then leaves undone, its operations or its last steps, is given up. Negative: no bound.
	//
	// Zero is one hour after a cancel and a passed deadline, and no bound after another fatal error, whose operations are
	// awaited. Work of another owner has then no bound either: how long the last steps take is known to those who do them.
	Grace time.Duration
}

const defaultGrace = time.Hour

// grace is the bound of work that is to end for this reason; zero or less if there is none.
func (d Deadlines[P]) grace(reason string) time.Duration {
	if d.Grace == 0 && (reason == ReasonCanceled || reason == ReasonDeadlineExceeded) {
		return defaultGrace
	}
	return d.Grace
}

// validate reports all faults; a nil machine has been reported already.
func (d Deadlines[P]) validate(m *Machine[P]) error {
	var faults []error
	for _, p := range slices.Sorted(maps.Keys(d.Phase)) {
		if d.Phase[p] < 0 {
			faults = append(faults, fmt.Errorf("%w Deadlines.Phase of %q: %v is negative", ErrInvalid, p, d.Phase[p]))
		}
		if m != nil && m.Class(p) == 0 {
			faults = append(faults, fmt.Errorf("%w Deadlines.Phase of %q: the machine does not have the phase", ErrInvalid, p))
		}
		if m != nil && d.Phase[p] > 0 && m.Class(p) != 0 && !m.canEnd(p) {
			faults = append(faults, fmt.Errorf("%w Deadlines.Phase of %q: the machine cannot end work there: none of %s, %s and %s is legal",
				ErrInvalid, p, EventFatal, EventFinalizePartiallyFailed, EventFailed))
		}
	}
	if d.Other < 0 {
		faults = append(faults, fmt.Errorf("%w Deadlines.Other: %v is negative", ErrInvalid, d.Other))
	}
	if d.Total < 0 {
		faults = append(faults, fmt.Errorf("%w Deadlines.Total: %v is negative", ErrInvalid, d.Total))
	}
	return errors.Join(faults...)
}

// canEnd says whether a deadline can move work out of p. In a terminal phase none has to.
func (m *Machine[P]) canEnd(p P) bool {
	_, ok := m.force(State[P]{Phase: p}, &StuckError{})
	return ok || m.IsTerminal(p)
}

// Limit is the kind of a deadline.
type Limit string

// The deadlines, as fields of [Deadlines].
const (
	LimitPhase Limit = "Phase"
	LimitTotal Limit = "Total"
	LimitGrace Limit = "Grace"
)

// StuckError says which deadline work has passed. It is [ErrStuck].
type StuckError struct {
	Phase string
	Limit Limit
	// Bound is the deadline, For how long it lasts already.
	Bound, For time.Duration
	// Since is from when Bound counts; Changed when phase or reason last changed, zero if nobody recorded it.
	Since, Changed time.Time
	// Owner is who owns the work, and Life what is known of that process; only [Machine.Decide] knows more than LifeUnknown.
	Owner string
	Life  Life
}

// Error returns all that is known.
func (e *StuckError) Error() string {
	what := e.what()
	if !e.Changed.IsZero() {
		what += "; last change " + e.Changed.UTC().Format(time.RFC3339)
	}
	if e.Owner != "" {
		what += fmt.Sprintf("; owner %q, %s", e.Owner, e.Life)
	}
	return what
}

func (e *StuckError) what() string {
	what := fmt.Sprintf("phase %q for %v, the limit is %v", e.Phase, e.For, e.Bound)
	switch e.Limit {
	case LimitTotal:
		what = fmt.Sprintf("phase %q, %v after the start, the limit is %v", e.Phase, e.For, e.Bound)
	case LimitGrace:
		what = fmt.Sprintf("phase %q for %v after it was to end, the limit is %v", e.Phase, e.For, e.Bound)
	default:
	}
	return fmt.Sprintf("%v: %s", ErrStuck, what)
}

// Unwrap returns [ErrStuck].
func (e *StuckError) Unwrap() error { return ErrStuck }

// Stuck says whether work in this state has passed a deadline at the time now, and returns the one that passed first; nil
// if none did. It is pure. Work that has ended, or is in a phase that the machine does not have, is not stuck.
func (m *Machine[P]) Stuck(s State[P], d Deadlines[P], now time.Time) *StuckError {
	e, due := m.due(s, d)
	if e == nil || now.Before(due) {
		return nil
	}
	e.For = now.Sub(e.Since)
	return e
}

// Due returns when work in this state passes its first deadline, which is when to call Load at the latest; zero if none
// is known.
func (m *Machine[P]) Due(s State[P], d Deadlines[P]) time.Time {
	_, due := m.due(s, d)
	return due
}

func (m *Machine[P]) due(s State[P], d Deadlines[P]) (first *StuckError, due time.Time) {
	s.Phase = m.known(s.Phase)
	if class := m.Class(s.Phase); class == 0 || class == ClassTerminal {
		return nil, due
	}
	bound := func(limit Limit, since time.Time, length time.Duration) {
		if length <= 0 || since.IsZero() {
			return
		}
		if end := since.Add(length); first == nil || end.Before(due) {
			first = &StuckError{
				Phase: string(s.Phase), Limit: limit, Bound: length, Since: since, Changed: s.Changed, Owner: s.Owner,
			}
			due = end
		}
	}
	if decisive(s.Reason) { // it is to end: only that counts
		bound(LimitGrace, latest(s.Changed, s.Entered), d.grace(s.Reason))
		return first, due
	}
	bound(LimitPhase, s.Entered, cmp.Or(d.Phase[s.Phase], d.Other))
	bound(LimitTotal, s.Started, d.Total)
	return first, due
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// force returns the step that moves stuck work on, and false if the table has none. Work that is not yet to end gets a
// fatal error, and with it Grace for its operations and last steps; after that it is led to its end without them.
func (m *Machine[P]) force(s State[P], stuck *StuckError) (step, bool) {
	next := step{reason: ReasonDeadlineExceeded, message: stuck.Error(), guest: true}
	if decisive(s.Reason) { // the first cause stays; what is given up is said behind it
		next = step{note: stuck.what(), guest: true}
	}
	var events []Event
	switch {
	case !decisive(s.Reason):
		events = []Event{EventFatal}
	case m.IsFinalizing(s.Phase) && s.Reason == ReasonCanceled:
		events = []Event{EventCanceled}
	case m.IsFinalizing(s.Phase):
		events = []Event{EventFailed}
	}
	for _, ev := range append(events, EventFinalizePartiallyFailed, EventFailed) {
		to, err := m.Next(s.Phase, ev)
		if err == nil && (to != m.known(s.Phase) || !decisive(s.Reason)) {
			next.event = ev
			return next, true
		}
	}
	return step{}, false
}
