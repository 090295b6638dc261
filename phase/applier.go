package phase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// ApplierOptions are the optional parts of an [Applier]. The zero value works.
type ApplierOptions[P ~string] struct {
	// Record is the durable record that is written before the object; nil: the object only.
	Record Record[P]
	// Owner identifies this process and is written with every change. It must differ between processes: who claimed the work
	// is told by it. Empty: the owner in the object stays.
	Owner string
	// Clock gives the times that are stored. Defaults to time.Now. Waiting uses package time. The zero time is refused with
	// [ErrInvalid] before anything is written: stores could not tell it from a missing one.
	Clock func() time.Time
	// RetryFor bounds the time of one call of Apply, Advance or Load, retries included. Defaults to one minute.
	RetryFor time.Duration
	// MaxFinalize bounds how long the last steps may wait for a record that cannot be saved. If a finalizing phase has lasted
	// that long, an Apply or Advance from it whose record cannot be saved ends the object alone, with
	// [ReasonStoreUnavailable]: as EventFailed does after a cancel or a fatal error, else as EventPartiallyFailed does; never
	// as a success. It then returns the new state and [ErrStoreUnavailable]; such a call may take twice RetryFor. An Apply from
	// the state that Load returns with an error of the record does so too.
	//
	// The start is recorded with the change to finalizing, in the record and in objects that keep [State.Finalizing]. A record
	// of an earlier change, or without the field, counts from its last change. If neither can be read nothing is ended.
	// Zero: no bound, and the start is not recorded. It needs a Record.
	MaxFinalize time.Duration
	// Hooks are told what happened.
	Hooks Hooks[P]
}

const defaultRetryFor = time.Minute

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
	hooks    Hooks[P]
	journal  journal[P]
}

// NewApplier returns an Applier for one object. A nil machine or object, a negative RetryFor or MaxFinalize, a MaxFinalize
// without a Record and an Owner that is not UTF-8 are [ErrInvalid]; all faults are joined.
func NewApplier[P ~string](m *Machine[P], object Object[P], opts ApplierOptions[P]) (*Applier[P], error) {
	var faults []error
	if m == nil {
		faults = append(faults, fmt.Errorf("%w applier: the machine is nil", ErrInvalid))
	}
	if object == nil {
		faults = append(faults, fmt.Errorf("%w applier: the object is nil", ErrInvalid))
	}
	if opts.RetryFor < 0 {
		faults = append(faults, fmt.Errorf("%w applier: RetryFor is negative: %v", ErrInvalid, opts.RetryFor))
	}
	switch {
	case opts.MaxFinalize < 0:
		faults = append(faults, fmt.Errorf("%w applier: MaxFinalize is negative: %v", ErrInvalid, opts.MaxFinalize))
	case opts.MaxFinalize > 0 && opts.Record == nil:
		faults = append(faults, fmt.Errorf("%w applier: MaxFinalize is %v and there is no Record", ErrInvalid, opts.MaxFinalize))
	}
	if !utf8.ValidString(opts.Owner) {
		faults = append(faults, fmt.Errorf("%w applier: Owner is not UTF-8: %q", ErrInvalid, opts.Owner))
	}
	if r, ok := opts.Record.(interface{ validate() error }); ok {
		if err := r.validate(); err != nil {
			faults = append(faults, fmt.Errorf("applier: Record: %w", err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	a := &Applier[P]{
		machine: m, object: object, record: opts.Record, owner: opts.Owner,
		clock: opts.Clock, retryFor: opts.RetryFor, maxFinal: opts.MaxFinalize, hooks: opts.Hooks,
	}
	if a.clock == nil {
		a.clock = time.Now
	}
	if a.retryFor == 0 {
		a.retryFor = defaultRetryFor
	}
	a.attempt = a.retryFor / 3 // a call that hangs leaves time to read and to try again
	return a, nil
}

// Machine returns the machine.
func (a *Applier[P]) Machine() *Machine[P] { return a.machine }

// Apply moves the object from the given state, as Load or Apply returned it, by the event. It saves the record, then
// writes the object if it is still in that phase, then calls the hooks, and returns the new state. On an error it returns
// from, except with [ErrStoreUnavailable]; then call Load before anything else, also in a new process.
//
// Reason says why; see [SplitReason] for its form. It may be empty; what is not UTF-8 in it is replaced. EventCancel and EventFatal always record the reasons
// [ReasonCanceled] and [ReasonFatal] (or ReasonStoreUnavailable if it says so), with the text as message. A reason recorded
// with a failure stays until a stronger one comes. An event that leads back to the same phase and has nothing new to record
// writes nothing.
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
	return a.apply(ctx, from, ev, word, message)
}

// Advance asks the machine's Outcome what follows from the counts and applies it. If nothing follows, it returns from.
//
// What from records is counted too: a cancel or a fatal error recorded earlier need not be in t again. A cancel or fatal
// error that comes while the work has to stay where it is, is recorded at once. Reason and message come from
// [Tally.Cause]. The errors are those of Apply and Outcome.
func (a *Applier[P]) Advance(ctx context.Context, from State[P], t Tally) (_ State[P], err error) {
	defer recovered(ctx, &err)
	reason, message := t.Cause()
	switch from.Reason {
	case ReasonCanceled:
		t.Cancel = true
	case ReasonFatal, ReasonStoreUnavailable:
		t.Fatal = true
	}
	ev, move, err := a.machine.Outcome(from.Phase, t)
	if err != nil {
		return from, err
	}
	if move {
		return a.apply(ctx, from, ev, reason, message)
	}
	if a.machine.IsTerminal(from.Phase) || strength(reason) <= strength(from.Reason) {
		return from, nil
	}
	ev = EventFatal
	if t.Cancel {
		ev = EventCancel
	}
	if _, illegal := a.machine.Next(from.Phase, ev); illegal == nil && (t.Cancel || t.Fatal) {
		return a.apply(ctx, from, ev, reason, message)
	}
	return from, nil
}

func (a *Applier[P]) apply(ctx context.Context, from State[P], ev Event, reason, message string) (State[P], error) {
	from.Phase = a.machine.known(from.Phase)
	c, err := a.change(from, ev, reason, message)
	if err != nil {
		return from, err
	}
	if c.From == c.To && c.Reason == from.Reason && c.Message == from.Message {
		return from, nil
	}
	bounded, cancel := a.bound(ctx)
	defer cancel()
	if a.record != nil {
		if err := a.save(bounded, c); err != nil {
			next, err := a.unsaved(ctx, from, c, err)
			return next, fmt.Errorf("apply %s in phase %q: %w", ev, c.From, err)
		}
	}
	next, err := a.bring(ctx, bounded, from, c)
	if err != nil {
		return from, fmt.Errorf("apply %s in phase %q: %w", ev, c.From, err)
	}
	next.Finalizing = cmp.Or(next.Finalizing, c.Finalizing) // objects need not keep it
	return next, nil
}

// change works out what is to be recorded.
func (a *Applier[P]) change(from State[P], ev Event, reason, message string) (Change[P], error) {
	to, err := a.machine.Next(from.Phase, ev)
	if err != nil {
		return Change[P]{}, err
	}
	if a.machine.IsFailing(to) {
		reason, message = mergeReason(from.Reason, from.Message, reason, message)
	}
	at, err := a.now()
	if err != nil {
		return Change[P]{}, err
	}
	c := Change[P]{
		From: from.Phase, To: to, Event: ev, UID: from.UID, Reason: text(reason), Message: clip(text(message)), Owner: a.owner,
		At: at, Started: from.Started, Terminal: a.machine.IsTerminal(to),
	}
	if c.Started.IsZero() && !c.Terminal && a.machine.Class(to) > ClassReady {
		c.Started = c.At
	}
	if a.maxFinal > 0 && a.machine.IsFinalizing(to) {
		c.Finalizing = cmp.Or(from.Finalizing, c.At)
	}
	return c, nil
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
