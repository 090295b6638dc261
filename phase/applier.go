package phase

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Applier brings changes of phase to an object, safely: see the package comment. Make one with [NewApplier]. Between calls
// it keeps only which of its writes got no answer, to tell the hooks of them; so keep one Applier for one object as long as
// the process works on it. It is safe for concurrent use.
type Applier[P ~string] struct {
	machine  *Machine[P]
	object   Object[P]
	record   Record[P]
	owner    string
	clock    func() time.Time
	retryFor time.Duration
	attempt  time.Duration // bound of one read or write
	maxFinal time.Duration // 0: no bound
	limits   Deadlines[P]
	skew     time.Duration
	hooks    Hooks[P]
	journal  journal[P]
}

// Machine returns the machine.
func (a *Applier[P]) Machine() *Machine[P] { return a.machine }

// Apply moves the object from the given state, as Load or Apply returned it, by the event. It saves the record, then
// writes the object if it is still in that phase, then calls the hooks, and returns the new state. On an error it returns
// from, except with [ErrStoreUnavailable]; then call Load before anything else, also in a new process.
//
// Reason says why; see [SplitReason] for its form. It may be empty; what is not UTF-8 in it is replaced. EventCancel and
// EventFatal always record the reasons [ReasonCanceled] and [ReasonFatal] (or another reason of the package that decides the
// outcome, if it says so), with the text as message. A reason recorded with a failure stays until a stronger one comes; the
// first cancel, and the first fatal error, stays with its message. An event that leads back to the same phase and has
// nothing new to record writes nothing.
//
// # Errors
//
// [*IllegalTransitionError]: nothing was written. [*ConflictError]: somebody else was first. Transient errors, writes
// without an answer and other changes of the object are dealt with until ctx ends or RetryFor has passed ([ErrGaveUp]);
// the last error is wrapped. [ErrUnknownOutcome] then says that the change may have been written. [ErrStoreUnavailable]: see
// ApplierOptions.MaxFinalize.
func (a *Applier[P]) Apply(ctx context.Context, from State[P], ev Event, reason string) (_ State[P], err error) {
	defer recovered(ctx, &err)
	word, message := eventReason(ev, reason)
	return a.apply(ctx, from, step{event: ev, reason: word, message: message, guest: ev == EventCancel})
}

// Advance asks the machine's Outcome what follows from the counts and applies it. If nothing follows, it returns from.
//
// What from records is counted too: a cancel or a fatal error recorded earlier need not be in t again. A cancel or fatal
// error that comes while the work has to stay where it is, is recorded at once. Reason and message come from
// [Tally.Cause]. The errors are those of Apply and Outcome.
func (a *Applier[P]) Advance(ctx context.Context, from State[P], t Tally) (_ State[P], err error) {
	defer recovered(ctx, &err)
	reason, message := t.Cause()
	switch {
	case from.Reason == ReasonCanceled:
		t.Cancel = true
	case decisive(from.Reason):
		t.Fatal = true
	}
	ev, move, err := a.machine.Outcome(from.Phase, t)
	if err != nil {
		return from, err
	}
	if move {
		return a.apply(ctx, from, step{event: ev, reason: reason, message: message})
	}
	if a.machine.IsTerminal(from.Phase) || strength(reason) <= strength(from.Reason) {
		return from, nil
	}
	ev = EventFatal
	if t.Cancel {
		ev = EventCancel
	}
	if _, illegal := a.machine.Next(from.Phase, ev); illegal == nil && (t.Cancel || t.Fatal) {
		return a.apply(ctx, from, step{event: ev, reason: reason, message: message, guest: t.Cancel})
	}
	return from, nil
}

// step is what is to be applied. A guest does not become the owner of work that goes on.
type step struct {
	event           Event
	reason, message string
	note            string // stands behind whatever message is recorded
	guest           bool
}

func (a *Applier[P]) apply(ctx context.Context, from State[P], s step) (State[P], error) {
	from.Phase = a.machine.known(from.Phase)
	c, err := a.change(from, s)
	if err != nil {
		return from, err
	}
	if c.From == c.To && c.Reason == from.Reason && c.Message == from.Message {
		return from, nil
	}
	return a.commit(ctx, from, c)
}

// commit saves the record of c and brings it to the object.
func (a *Applier[P]) commit(ctx context.Context, from State[P], c Change[P]) (State[P], error) {
	bounded, cancel := a.bound(ctx)
	defer cancel()
	if a.record != nil {
		if err := a.save(bounded, c); err != nil {
			next, err := a.unsaved(ctx, from, c, err)
			return next, fmt.Errorf("apply %s in phase %q: %w", c.Event, c.From, err)
		}
	}
	next, err := a.bring(ctx, bounded, from, c)
	if err != nil {
		return from, fmt.Errorf("apply %s in phase %q: %w", c.Event, c.From, err)
	}
	next.Finalizing = cmp.Or(next.Finalizing, c.Finalizing)
	return keep(next, c), nil
}

// change works out what is to be recorded.
func (a *Applier[P]) change(from State[P], s step) (Change[P], error) {
	reason, message := s.reason, s.message
	to, err := a.machine.Next(from.Phase, s.event)
	if err != nil {
		return Change[P]{}, err
	}
	if a.machine.IsFailing(to) {
		reason, message = mergeReason(from.Reason, from.Message, reason, message)
		if reason == "" {
			reason = ReasonUnspecified
		}
	}
	message = clip(text(message))
	if s.note != "" {
		message = noted(message, s.note)
	}
	at, err := a.now()
	if err != nil {
		return Change[P]{}, err
	}
	c := Change[P]{
		From: from.Phase, To: to, Event: s.event, UID: from.UID, Reason: text(reason), Message: message, Owner: a.owner,
		At: at, Started: from.Started, Entered: at, Changed: at, Held: from.Owner,
	}
	if c.To == c.From {
		c.Entered = cmp.Or(from.Entered, at)
	}
	c = a.machine.describe(c)
	if s.guest && !c.Terminal {
		c.Owner = cmp.Or(from.Owner, a.owner)
	}
	if c.Started.IsZero() && !c.Terminal && a.machine.Class(to) > ClassReady {
		c.Started = c.At
	}
	if a.maxFinal > 0 && a.machine.IsFinalizing(to) {
		c.Finalizing = cmp.Or(from.Finalizing, c.At)
	}
	return c, nil
}

// describe fills in what the table says of the phase to which c leads.
func (m *Machine[P]) describe(c Change[P]) Change[P] {
	spec := m.specs[c.To]
	c.Class, c.Failing, c.Terminal = spec.Class, spec.Failing, spec.Class == ClassTerminal
	return c
}

// now returns the time without its monotonic part, which no store keeps.
func (a *Applier[P]) now() (time.Time, error) {
	now := a.clock().Round(0).UTC()
	if now.IsZero() {
		return now, fmt.Errorf("%w applier: Clock returned the zero time", ErrInvalid)
	}
	return now, nil
}

func (a *Applier[P]) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, a.retryFor, fmt.Errorf("%w after %v", ErrGaveUp, a.retryFor))
}
