package phase

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
//
// Reason and message come from the record if the object keeps none. An object in an external phase, such as Deleting, is
// returned as it is. Load writes, so it is for the owner of the work; viewers read the object. If the object is as an
// earlier call left it whose write got no answer, the hooks are told of that change now.
//
// A record of another object, one that had the name before, is [ErrForeignRecord]: nothing is changed, and the new object
// needs a record of its own. An error of the record is returned with the state of the object. [ErrUnknownPhase] says that
// object or record are in a phase that the machine does not have; nothing is changed then. The other errors are those of
// Apply.
func (a *Applier[P]) Load(ctx context.Context) (_ State[P], err error) {
	defer recovered(ctx, &err)
	bounded, cancel := a.bound(ctx)
	defer cancel()
	var state State[P]
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
	if ok && rec.UID != "" && state.UID != "" && rec.UID != state.UID {
		return state, false, fmt.Errorf("%w: the object's uid is %q, the record's %q", ErrForeignRecord, state.UID, rec.UID)
	}
	step, c := a.machine.judge(state, rec, ok)
	if step == agree {
		return a.withRecord(state, rec), false, nil
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("phase of object and record differ", "object", string(state.Phase), "record", string(rec.To), "follows", step.String())
	if a.hooks.Diverged != nil {
		hook(log, "Diverged", func() { a.hooks.Diverged(ctx, state, rec.To) })
	}
	if step == recordFollows {
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

// withRecord takes the reason and the start of the last steps from the record where the object keeps none.
func (a *Applier[P]) withRecord(state State[P], rec Change[P]) State[P] {
	if state.Phase != rec.To {
		return state
	}
	if state.Reason == "" && state.Message == "" {
		state.Reason, state.Message = rec.Reason, rec.Message
	}
	if a.maxFinal > 0 && a.machine.IsFinalizing(rec.To) {
		state.Finalizing = cmp.Or(state.Finalizing, rec.Finalizing, rec.At)
	}
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

type verdict uint8

const (
	agree verdict = iota
	objectFollows
	recordFollows
)

func (v verdict) String() string { return [...]string{"nothing", "object", "record"}[v] }

// judge compares object and record and returns the change that brings them closer. It is pure.
func (m *Machine[P]) judge(state State[P], rec Change[P], ok bool) (verdict, Change[P]) {
	ended := m.IsTerminal(state.Phase)
	switch {
	case !ok && state.Phase == m.initial:
		return agree, Change[P]{}
	case ok && rec.To == state.Phase && (ended || !m.knowsMore(rec, state)):
		return agree, Change[P]{}
	case ok && !dropsReason(rec, state) && (rec.To == state.Phase || m.reaches(state.Phase, rec.To)):
		rec.From = state.Phase
		rec.UID = state.UID
		return objectFollows, rec
	}
	c := Change[P]{
		From: rec.To, To: state.Phase, UID: state.UID, Reason: state.Reason, Message: state.Message, Owner: state.Owner,
		At: state.Completed, Started: state.Started, Terminal: ended,
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
		}
	}
	return recordFollows, c
}

// knowsMore says whether the record has a stronger reason than the object in the same phase: a cancel that was recorded
// there and not written to the object. An object without a reason may be of a kind that keeps none; it is written only if
// the recorded change was about nothing else.
func (m *Machine[P]) knowsMore(rec Change[P], state State[P]) bool {
	return strength(rec.Reason) > strength(state.Reason) && (rec.From == rec.To || state.Reason != "")
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
