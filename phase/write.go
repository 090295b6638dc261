package phase

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// get reads the object, with retries. The phase is filled in, and one that the machine does not have is an error.
func (a *Applier[P]) get(ctx context.Context) (State[P], error) {
	var state State[P]
	err := a.try(ctx, func(ctx context.Context) (err error) {
		state, err = a.object.Get(ctx)
		return err
	})
	if err != nil {
		return State[P]{}, fmt.Errorf("get object: %w", err)
	}
	state = a.machine.read(state)
	if _, ok := a.machine.specs[state.Phase]; !ok {
		return state, fmt.Errorf("get object: %w %q", ErrUnknownPhase, state.Phase)
	}
	return state, nil
}

// read completes a state that an object returned; its texts become UTF-8. The reasons that decide the outcome are recorded
// only in failing phases: elsewhere it is somebody's text that begins with such a word.
func (m *Machine[P]) read(state State[P]) State[P] {
	state.Phase = m.known(state.Phase)
	state.Reason, state.Message, state.Owner = text(state.Reason), text(state.Message), text(state.Owner)
	if decisive(state.Reason) && !m.IsFailing(state.Phase) {
		state.Reason, state.Message = "", joined(state.Reason, state.Message)
	}
	return state
}

// save writes the record, with retries.
func (a *Applier[P]) save(ctx context.Context, c Change[P]) error {
	err := a.try(ctx, func(ctx context.Context) error { return a.record.Save(ctx, c) })
	if err == nil {
		return nil
	}
	if _, typed := errors.AsType[*ConflictError](err); errors.Is(err, ErrConflict) && !typed {
		err = &ConflictError{Expected: string(c.From), Wanted: string(c.To), Err: err}
	}
	return fmt.Errorf("save record: %w", err)
}

// write brings c to the object if that is still in the state old. It says whether this process wrote it: with a record,
// another process may have done so in our place, and without an answer we take it that it was us. With an error, ours says
// that a try got no answer and may have been written, or may be written yet.
func (a *Applier[P]) write(ctx context.Context, old State[P], c Change[P]) (_ State[P], ours bool, err error) {
	var r retrier
	unknown := false // an earlier try may have been written, or may be written yet
	for {
		var next State[P]
		err := a.once(ctx, func(ctx context.Context) (err error) {
			next, err = a.object.Update(ctx, old, c)
			return err
		})
		if err == nil {
			return a.machine.read(next), true, nil
		}
		lost := mayPass(err)
		unknown = unknown || lost
		if lost || errors.Is(err, ErrConflict) {
			if ctx.Err() != nil {
				return old, unknown, giveUp(unknown, ended(ctx, err))
			}
			found, getErr := a.get(ctx)
			switch {
			case getErr != nil:
				return old, unknown, giveUp(unknown, fmt.Errorf("update object: %w; then %w", err, getErr))
			case (unknown || a.record != nil) && done(found, old, c):
				return found, unknown, nil
			case !untouched(found, old):
				return old, unknown, conflict(found, old, c, err)
			}
			old = found // changed by somebody else in other ways, or not at all
			err = Transient(err)
		}
		if err := r.again(ctx, err); err != nil {
			return old, unknown, giveUp(unknown, fmt.Errorf("update object: %w", err))
		}
	}
}

func giveUp(unknown bool, err error) error {
	if unknown && !errors.Is(err, ErrUnknownOutcome) {
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return err
}

// done says whether the object is as c leaves it. Objects may keep no owner and times to the second only.
func done[P ~string](found, old State[P], c Change[P]) bool {
	want := c.Result(old)
	sameTime := func(a, b time.Time) bool {
		return a.IsZero() || b.IsZero() || a.Truncate(time.Second).Equal(b.Truncate(time.Second))
	}
	return found.UID == old.UID && found.Phase == c.To &&
		(found.Owner == want.Owner || found.Owner == "") &&
		(found.Reason == want.Reason || found.Reason == "" && c.From != c.To) &&
		sameTime(found.Started, want.Started) && sameTime(found.Completed, want.Completed)
}

// untouched says whether what was found is still the state from which the change starts, whatever else of the object
// changed. A phase that was left is never entered again, so that it is enough to compare. Objects may keep neither reason
// nor owner.
func untouched[P ~string](found, old State[P]) bool {
	return found.UID == old.UID && found.Phase == old.Phase && (found.Owner == old.Owner || found.Owner == "") &&
		(found.Reason == old.Reason || found.Reason == "")
}

func conflict[P ~string](found, old State[P], c Change[P], err error) error {
	return &ConflictError{
		Expected: string(old.Phase), Wanted: string(c.To), Found: string(found.Phase), Owner: found.Owner,
		Replaced: found.UID != old.UID, Err: err,
	}
}
