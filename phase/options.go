package phase

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"
	"unicode/utf8"
)

// ApplierOptions are the optional parts of an [Applier]. The zero value works.
type ApplierOptions[P ~string] struct {
	// Record is the durable record that is written before the object; nil: the object only.
	Record Record[P]
	// Owner identifies this process and is written with every change. It must differ between processes, also from one that died
	// in the same pod: who claimed the work is told by it. Empty: the owner in the object stays.
	Owner string
	// Clock gives the times that are stored. Defaults to time.Now. Waiting uses package time. The zero time is refused with
	// [ErrInvalid] before anything is written: stores could not tell it from a missing one.
	Clock func() time.Time
	// RetryFor bounds the time of one call of Apply, Advance or Load, retries included. Defaults to one minute. A Load that
	// finds a passed deadline, and Recover, have as long again for each change that they apply.
	RetryFor time.Duration
	// MaxFinalize bounds how long the last steps may wait for a record that cannot be saved. If a finalizing phase has lasted
	// that long, an Apply or Advance from it whose record cannot be saved ends the object alone, with
	// [ReasonStoreUnavailable]: as EventFailed does after a cancel or a fatal error, else as EventPartiallyFailed does; never
	// as a success. It then returns the new state and [ErrStoreUnavailable]; such a call may take twice RetryFor. An Apply from
	// the state that Load returns with an error of the record does so too, and so does Load itself when a deadline of the
	// finalizing phase has passed (see Deadlines): so a reconciler whose last steps need the store, and never get to their
	// Advance, needs both.
	//
	// The start is recorded with the change to finalizing, in the record and in objects that keep [State.Finalizing]. A record
	// of an earlier change, or without the field, counts from its last change. If neither can be read nothing is ended.
	// Zero: no bound, and the start is not recorded. It needs a Record.
	MaxFinalize time.Duration
	// Deadlines bound how long phases last; Load moves work on that has passed one. The zero value bounds only our own work
	// after a cancel: see Deadlines.Grace.
	Deadlines Deadlines[P]
	// ClockSkew is how far the clocks of two processes may differ: only that much later does Recover take an owner for dead,
	// and Load the work of another owner for overdue.
	// Defaults to ten seconds; negative: none.
	ClockSkew time.Duration
	// Hooks are told what happened.
	Hooks Hooks[P]
}

const (
	defaultRetryFor = time.Minute
	defaultSkew     = 10 * time.Second
)

// NewApplier returns an Applier for one object. A nil or zero machine, a nil object, a negative RetryFor or MaxFinalize, a
// MaxFinalize without a Record, a deadline that is negative, or of a phase that the machine does not have or in which it
// cannot end the work, and an Owner that is not UTF-8 are [ErrInvalid]; all faults are joined.
func NewApplier[P ~string](m *Machine[P], object Object[P], opts ApplierOptions[P]) (*Applier[P], error) {
	var faults []error
	if m == nil || len(m.phases) == 0 {
		faults = append(faults, fmt.Errorf("%w applier: the machine is nil, or not made by NewMachine", ErrInvalid))
		m = nil
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
	if err := opts.Deadlines.validate(m); err != nil {
		faults = append(faults, fmt.Errorf("applier: %w", err))
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
		limits: opts.Deadlines, skew: cmp.Or(opts.ClockSkew, defaultSkew),
	}
	a.limits.Phase = maps.Clone(a.limits.Phase)
	if a.clock == nil {
		a.clock = time.Now
	}
	if a.retryFor == 0 {
		a.retryFor = defaultRetryFor
	}
	a.attempt = a.retryFor / 3 // a call that hangs leaves time to read and to try again
	return a, nil
}
