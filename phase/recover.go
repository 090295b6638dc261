package phase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
)

// Recovery is what [Applier.Recover] decided and did.
type Recovery[P ~string] struct {
	// Decision is the last one. Its Action is still to be done by the caller, but for ActionFail, which is done.
	Decision[P]
	// State is the object's, after it.
	State State[P]
	// Mine says that this process may work on the object now: it owns it, or may start it, and the work has not ended.
	Mine bool
}

// Recover is what a process does at start-up with each object that it finds, and again later with those that it left. It
// reads object and record, asks live for the owner, lets [Machine.Decide] decide, and carries that out: it brings object
// and record together, takes the work of a dead owner over by compare-and-swap (the change has [EventTakeOver]), and fails
// what has to fail. Of any number of processes that do so at the same time one takes over; the others find a live owner.
// Repeating it changes nothing more. Where there is nothing to write it costs one read of the object and of the record, and
// one of live if somebody else owns the work: give a client that finds thousands of objects the rate for it.
//
// Nothing is written to the work of an owner that is not proved to be dead, also if object and record differ or a deadline
// has passed; a Load would do that. The take-over is exclusive if the object keeps the owner or the record is saved
// conditionally. Work whose owner nobody named is left, unless live is [SingleOwner].
//
// # Errors
//
// A nil live and an Applier without an Owner are [ErrInvalid]. An error of live, and one of the object or the record, is
// returned with the state as far as it was read, and no decision. [ErrForeignRecord] and [ErrUnknownPhase]: nothing was
// changed. The other errors are those of Load and Apply.
func (a *Applier[P]) Recover(ctx context.Context, live Liveness) (r Recovery[P], err error) {
	defer recovered(ctx, &err)
	if live == nil {
		return r, fmt.Errorf("recover: %w liveness: it is nil", ErrInvalid)
	}
	if a.owner == "" {
		return r, fmt.Errorf("recover: %w applier: it has no Owner", ErrInvalid)
	}
	for range maxRounds {
		var again bool
		if r, again, err = a.look(ctx, live); err == nil && !again {
			again, err = a.carryOut(ctx, &r)
		}
		if err != nil {
			return Recovery[P]{State: r.State}, fmt.Errorf("recover: %w", err)
		}
		if !again {
			return r, nil
		}
	}
	return Recovery[P]{State: r.State}, fmt.Errorf("recover: %w: the object changed %d times", ErrConflict, maxRounds)
}

// look gathers the evidence and decides. It writes only to bring object and record together, and must then be called again.
func (a *Applier[P]) look(ctx context.Context, live Liveness) (r Recovery[P], again bool, err error) {
	bounded, cancel := a.bound(ctx)
	defer cancel()
	if r.State, err = a.get(bounded); err != nil {
		return r, false, err
	}
	a.settle(ctx, r.State, false)
	e := Evidence[P]{State: r.State, Me: a.owner, Skew: a.skew, Deadlines: a.limits}
	var unread error
	if a.record != nil {
		if e.Record, _, unread = a.loadRecord(bounded); unread != nil && !storeFailed(unread) {
			return r, false, unread
		}
		e.Kept = unread == nil
	}
	if e.Now, err = a.now(); err != nil {
		return r, false, err
	}
	if e.Heartbeat, err = a.ask(bounded, live, a.machine.Owner(e)); err != nil {
		return r, false, err
	}
	if r.Decision, err = a.machine.Decide(e); err != nil || r.Action == ActionLeave {
		return r, false, err
	}
	switch {
	case unread != nil: // only leaving is safe; Load knows what else may be done
		r.State, err = a.Load(ctx)
		return r, !a.machine.IsTerminal(r.State.Phase), err
	case r.Differs != Agree:
		r.State, err = a.together(ctx)
		return r, true, err
	case e.Kept:
		r.State = a.withRecord(r.State, e.Record)
	}
	return r, false, nil
}

// ask returns the heartbeat of an owner.
func (a *Applier[P]) ask(ctx context.Context, live Liveness, owner string) (beat Heartbeat, err error) {
	if owner == "" {
		if _, single := live.(singleOwner); single {
			return Heartbeat{Deposed: true}, nil
		}
		return Heartbeat{}, nil
	}
	if owner == a.owner {
		return Heartbeat{}, nil
	}
	err = a.try(ctx, func(ctx context.Context) (err error) {
		beat, err = live.Heartbeat(ctx, owner)
		return err
	})
	if err != nil {
		return Heartbeat{}, fmt.Errorf("heartbeat of owner %q: %w", owner, err)
	}
	return beat, nil
}

// carryOut does what was decided; again says that somebody else was first, and the object must be looked at anew.
func (a *Applier[P]) carryOut(ctx context.Context, r *Recovery[P]) (again bool, err error) {
	if r.Action == ActionLeave || r.Action == ActionNone {
		return false, nil
	}
	if r.TakeOver {
		if r.State, err = a.takeOver(ctx, r.State); err != nil {
			return lostRace(err)
		}
	}
	if r.Action == ActionFail {
		if r.State, err = a.fail(ctx, r.State, r.Stuck); err != nil {
			return lostRace(err)
		}
	}
	r.Mine = !a.machine.IsTerminal(r.State.Phase) && (r.State.Owner == a.owner || r.Action == ActionStart)
	return false, nil
}

func lostRace(err error) (again bool, _ error) {
	if errors.Is(err, ErrConflict) {
		return true, nil
	}
	return false, err
}

// takeOver makes this process the owner.
func (a *Applier[P]) takeOver(ctx context.Context, from State[P]) (State[P], error) {
	at, err := a.now()
	if err != nil {
		return from, err
	}
	logr.FromContextOrDiscard(ctx).Info("work is taken over", "phase", string(from.Phase), "from", from.Owner)
	return a.commit(ctx, from, a.machine.describe(Change[P]{
		From: from.Phase, To: from.Phase, Event: EventTakeOver, UID: from.UID, Reason: from.Reason, Message: from.Message,
		Owner: a.owner, Held: from.Owner, At: at, Started: from.Started, Finalizing: from.Finalizing,
		Entered: from.Entered, Changed: from.Changed,
	}))
}

// fail does what ActionFail says.
func (a *Applier[P]) fail(ctx context.Context, from State[P], stuck *StuckError) (State[P], error) {
	if stuck != nil {
		next, _, err := a.enforce(ctx, from)
		return next, err
	}
	return a.apply(ctx, from, step{
		event: EventFatal, reason: ReasonInterrupted,
		message: fmt.Sprintf("the process that did it is gone, and %q cannot be done again", from.Phase),
	})
}

// enforce moves work on that has passed a deadline; moved says that it did. The work of another owner has only the deadlines
// that were set, and passed them by that owner's clock too.
func (a *Applier[P]) enforce(ctx context.Context, from State[P]) (_ State[P], moved bool, err error) {
	limits, late := a.limits, time.Duration(0)
	if from.Owner != "" && from.Owner != a.owner && a.machine.Class(from.Phase) != ClassReady {
		limits.Grace, late = cmp.Or(limits.Grace, -1), max(a.skew, 0)
	}
	if a.machine.Due(from, limits).IsZero() {
		return from, false, nil
	}
	now, err := a.now()
	if err != nil {
		return from, false, err
	}
	stuck := a.machine.Stuck(from, limits, now.Add(-late))
	if stuck == nil {
		return from, false, nil
	}
	s, ok := a.machine.force(from, stuck)
	if !ok {
		return from, false, nil
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("work has passed a deadline", "phase", string(from.Phase), "limit", string(stuck.Limit), "for", stuck.For)
	if a.hooks.Stuck != nil {
		hook(log, "Stuck", func() { a.hooks.Stuck(ctx, from, stuck) })
	}
	next, err := a.apply(ctx, from, s)
	return next, next.Phase != from.Phase || next.Reason != from.Reason, err
}
