package phase

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// unsaved decides what follows when the record of c cannot be saved: with MaxFinalize over, the object is ended alone. It
// always returns an error, with the state from or, if the object was ended, with its new state.
func (a *Applier[P]) unsaved(ctx context.Context, from State[P], c Change[P], err error) (State[P], error) {
	if ctx.Err() != nil || !a.overdue(from, c) || !storeFailed(err) {
		return from, err
	}
	end, ok := a.endAlone(c, err)
	if !ok {
		return from, err
	}
	bounded, cancel := a.bound(ctx) // saving has used up the other one
	defer cancel()
	next, failed := a.bring(ctx, bounded, from, end)
	if failed != nil {
		return from, fmt.Errorf("%w; then, to end the object alone: %w", err, failed)
	}
	return next, fmt.Errorf("%w for longer than %v: %w", ErrStoreUnavailable, a.maxFinal, err)
}

// overdue says whether the last steps have lasted for MaxFinalize.
func (a *Applier[P]) overdue(from State[P], c Change[P]) bool {
	return a.maxFinal > 0 && a.machine.IsFinalizing(from.Phase) &&
		!from.Finalizing.IsZero() && c.At.Sub(from.Finalizing) >= a.maxFinal
}

// storeFailed says that the store is at fault. A record that another process, another object or a newer release wrote is
// somebody else's work, and that is not ended.
func storeFailed(err error) bool {
	for _, theirs := range []error{ErrConflict, ErrForeignRecord, ErrInvalid, ErrUnknownPhase} {
		if errors.Is(err, theirs) {
			return false
		}
	}
	return true
}

// endAlone returns the change that ends the object in place of c.
func (a *Applier[P]) endAlone(c Change[P], cause error) (Change[P], bool) {
	end := c
	end.Event = EventPartiallyFailed
	if decisive(c.Reason) { // a cancel or a fatal error
		end.Event = EventFailed
	}
	to, err := a.machine.Next(c.From, end.Event)
	if err != nil || !a.machine.IsTerminal(to) {
		return c, false
	}
	what := string(c.To)
	if was := JoinReason(c.Reason, c.Message); was != "" {
		what += " (" + was + ")"
	}
	message := fmt.Sprintf("the change to %s could not be recorded within %v: %v", what, a.maxFinal, cause)
	end.To, end.Entered, end.Finalizing = to, end.At, time.Time{}
	end.Reason, end.Message = ReasonStoreUnavailable, clip(text(message))
	return a.machine.describe(end), true
}
