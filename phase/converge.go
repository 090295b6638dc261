package phase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
)

// maxRounds bounds how often Load starts again because somebody else writes at the same time.
const maxRounds = 10

// Load reads the object and, with a record, the record, and brings the two together before it returns the state. They
// differ after a crash or a failed write, and then:
//
//   - The record is ahead: the object follows, by the recorded change.
//   - The object is ahead, is terminal, or is terminal with [ReasonStoreUnavailable]: the record follows. A phase that
//     others have seen is not taken back.
//   - Neither follows from the other, or the record's change did not know of a cancel in the object (two processes and a
//     store without conditional writes): the record follows the object, and if the record had a failure that the object
//     does not have, both move on to the failing phase.
//   - They name different owners in the same phase: if the record has a take-over, the object follows; else the record does,
//     because the object's compare-and-swap decided.
//
// Reason, message, owner and times come from the record if the object keeps none. An object in an external phase, such as
// Deleting, is returned as it is. Load writes, so it is for the owner of the work; viewers read the object. If the object is as an
// earlier call left it whose write got no answer, the hooks are told of that change now.
//
// Work that has passed one of ApplierOptions.Deadlines is then moved on: to its end as a failure, or one phase nearer to
// it. Work that somebody else owns is so too, ClockSkew later and without the default of Deadlines.Grace: set no deadlines
// where that is not wanted, as in a program that only cancels. The reason is [ReasonDeadlineExceeded], unless there was a
// cancel or a fatal error already; its message then says also what was given up. In a finalizing phase that is tried also
// when the record cannot be read, for ApplierOptions.MaxFinalize; the errors are then those of Apply.
//
// A record of another object, one that had the name before, is [ErrForeignRecord]: nothing is changed, and the new object
// needs a record of its own. An error of the record is returned with the state of the object. [ErrUnknownPhase] says that
// object or record are in a phase that the machine does not have; nothing is changed then. The other errors are those of
// Apply.
func (a *Applier[P]) Load(ctx context.Context) (_ State[P], err error) {
	defer recovered(ctx, &err)
	var state State[P]
	for range maxRounds {
		state, err = a.together(ctx)
		if err != nil && (!a.machine.IsFinalizing(state.Phase) || !storeFailed(err)) {
			return state, err
		}
		next, moved, late := a.enforce(ctx, state)
		switch {
		case err != nil && !moved:
			return state, err
		case !errors.Is(late, ErrConflict):
			return next, late
		}
		err = late // somebody else was first
	}
	return state, err
}

// together reads object and record and brings them together.
func (a *Applier[P]) together(ctx context.Context) (state State[P], err error) {
	bounded, cancel := a.bound(ctx)
	defer cancel()
	for range maxRounds {
		state, err = a.get(bounded)
		if err != nil {
			return state, fmt.Errorf("load phase: %w", err)
		}
		a.settle(ctx, state, false)
		if a.record == nil || a.machine.specs[state.Phase].External {
			return state, nil
		}
		next, again, err := a.converge(ctx, bounded, state)
		if err != nil {
			return state, fmt.Errorf("load phase: %w", err)
		}
		if !again {
			return next, nil
		}
	}
	return state, fmt.Errorf("load phase: %w: object and record changed %d times", ErrConflict, maxRounds)
}

// converge does one step; again says that object and record must be read anew.
func (a *Applier[P]) converge(ctx, bounded context.Context, state State[P]) (_ State[P], again bool, err error) {
	rec, ok, err := a.loadRecord(bounded)
	if err != nil {
		return state, false, err
	}
	if err := rec.foreign(state); err != nil {
		return state, false, err
	}
	step, c := a.machine.judge(state, rec, ok)
	if step == Agree {
		return a.withRecord(state, rec), false, nil
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("phase of object and record differ", "object", string(state.Phase), "record", string(rec.To), "follows", step.String())
	if a.hooks.Diverged != nil && (rec.To != state.Phase || step == ObjectFollows) {
		hook(log, "Diverged", func() { a.hooks.Diverged(ctx, state, rec.To) })
	}
	c = a.machine.describe(c)
	if step == RecordFollows {
		if c.At.IsZero() {
			if c.At, err = a.now(); err != nil {
				return state, false, err
			}
		}
		err := a.save(bounded, c)
		if errors.Is(err, ErrConflict) || err == nil {
			return state, true, nil
		}
		return state, false, err
	}
	next, err := a.bring(ctx, bounded, state, c)
	switch {
	case errors.Is(err, ErrConflict):
		return state, true, nil
	case err != nil:
		return state, false, err
	}
	return a.withRecord(next, rec), false, nil
}

// withRecord takes from the record what the object does not keep.
func (a *Applier[P]) withRecord(state State[P], rec Change[P]) State[P] {
	if state.Phase == rec.To && a.maxFinal > 0 && a.machine.IsFinalizing(rec.To) {
		state.Finalizing = cmp.Or(state.Finalizing, rec.Finalizing, rec.At)
	}
	return withRecord(state, rec)
}

func withRecord[P ~string](state State[P], rec Change[P]) State[P] {
	if state.Phase != rec.To {
		return state
	}
	if state.Reason == "" && state.Message == "" {
		state.Reason, state.Message = rec.Reason, rec.Message
	}
	return keep(state, rec)
}

// keep takes from the change that led to the state what every object need not keep.
func keep[P ~string](state State[P], c Change[P]) State[P] {
	state.Owner = cmp.Or(state.Owner, c.Owner)
	state.Entered, state.Changed = cmp.Or(state.Entered, c.Entered, c.At), cmp.Or(state.Changed, c.Changed, c.At)
	return state
}

func (a *Applier[P]) loadRecord(ctx context.Context) (rec Change[P], ok bool, err error) {
	err = a.try(ctx, func(ctx context.Context) (err error) {
		rec, ok, err = a.record.Load(ctx)
		return err
	})
	if err != nil {
		return rec, false, fmt.Errorf("load record: %w", err)
	}
	if _, known := a.machine.specs[rec.To]; ok && !known {
		return rec, false, fmt.Errorf("load record: %w %q", ErrUnknownPhase, rec.To)
	}
	return rec, ok, nil
}

// judge compares object and record and returns the change that brings them closer. It is pure.
func (m *Machine[P]) judge(state State[P], rec Change[P], ok bool) (Divergence, Change[P]) {
	ended := m.IsTerminal(state.Phase)
	switch {
	case !ok && state.Phase == m.initial:
		return Agree, Change[P]{}
	case ok && rec.To == state.Phase && (ended || !m.knowsMore(rec, state) && !ownersDiffer(rec, state)):
		return Agree, Change[P]{}
	case ok && !dropsReason(rec, state) && (m.reaches(state.Phase, rec.To) ||
		rec.To == state.Phase && (m.knowsMore(rec, state) || takesOver(rec, state))):
		rec.From = state.Phase
		rec.UID = state.UID
		return ObjectFollows, rec
	}
	c := Change[P]{
		From: rec.To, To: state.Phase, UID: state.UID, Reason: state.Reason, Message: state.Message, Owner: state.Owner,
		At: state.Completed, Started: state.Started, Entered: state.Entered, Changed: state.Changed, Held: rec.Owner,
	}
	if m.IsFinalizing(state.Phase) {
		c.Finalizing = state.Finalizing
	}
	if !ok {
		c.From = m.initial
	}
	if strength(rec.Reason) >= strengthFatal { // what a record says of a cancel is not dropped
		c.Reason, c.Message = mergeReason(state.Reason, state.Message, rec.Reason, rec.Message)
	}
	if ok && m.IsFailing(rec.To) && !m.IsFailing(state.Phase) {
		if to, found := m.failingStep(state.Phase); found {
			c.To, c.Reason, c.Message = to, rec.Reason, rec.Message
			c.Entered, c.Changed = time.Time{}, time.Time{} // now
		}
	}
	return RecordFollows, c
}

// knowsMore says whether the record has a stronger reason than the object in the same phase: a cancel that was recorded
// there and not written to the object. An object without a reason may be of a kind that keeps none; it is written only if
// the recorded change was about nothing else.
func (m *Machine[P]) knowsMore(rec Change[P], state State[P]) bool {
	return strength(rec.Reason) > strength(state.Reason) && (rec.From == rec.To || state.Reason != "")
}

// takesOver says whether the record has a take-over that was not yet written to the object. It is brought there: if it were
// taken back, its author could still write the object, and the owner before could still go on in the record.
func takesOver[P ~string](rec Change[P], state State[P]) bool {
	return rec.Event == EventTakeOver && ownersDiffer(rec, state)
}

// ownersDiffer says whether object and record name different owners.
func ownersDiffer[P ~string](rec Change[P], state State[P]) bool {
	return rec.Owner != "" && state.Owner != "" && rec.Owner != state.Owner
}

// dropsReason says whether the record's change was made without knowledge of the cancel or fatal error that the object
// has. Then the record goes back to the object, which never was where the record is.
func dropsReason[P ~string](rec Change[P], state State[P]) bool {
	return rec.To != state.Phase && strength(state.Reason) >= strengthFatal && strength(rec.Reason) < strength(state.Reason)
}

// failingStep returns the next phase from p that is failing and not terminal; of several, one of the lowest class, where
// least is skipped.
func (m *Machine[P]) failingStep(p P) (to P, found bool) {
	for _, t := range m.rows {
		if t.From != p || !m.IsFailing(t.To) || m.IsTerminal(t.To) {
			continue
		}
		if !found || m.order(t.To, to) < 0 {
			to, found = t.To, true
		}
	}
	return to, found
}
