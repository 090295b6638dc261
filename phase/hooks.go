package phase

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"
)

// Hooks are told what happened; each may be nil. They run in the caller's goroutine, after the fact, with no lock held. A
// panic in one is logged and changes nothing. Over a crash a call may be missing, never repeated for one write.
type Hooks[P ~string] struct {
	// Transition is called after the object was written, once for every change that this process wrote: also for those within a
	// phase, such as a cancel told while operations are awaited, or a new owner ([EventTakeOver]). If another process
	// wrote the change in our place, that one calls it. If the answer got lost and the object could not be read either, it is
	// called by the Load of the same Applier that finds the change; a change that is not terminal may then be overtaken by
	// another process and never be found.
	Transition func(ctx context.Context, c Change[P])
	// Diverged is called when Load finds object and record in different phases, before it brings them together. The record's
	// phase is empty if there is none.
	Diverged func(ctx context.Context, object State[P], record P)
	// Stuck is called when Load or Recover finds that work has passed a deadline, before it is moved on.
	Stuck func(ctx context.Context, object State[P], stuck *StuckError)
}

// observe tells the hook of a change, once. The caller holds no lock.
func (a *Applier[P]) observe(ctx context.Context, c Change[P]) {
	if !a.journal.first(c) {
		return
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("phase changed", "from", string(c.From), "to", string(c.To), "event", string(c.Event), "reason", c.Reason)
	if a.hooks.Transition != nil {
		hook(log, "Transition", func() { a.hooks.Transition(ctx, c) })
	}
}

// hook calls a hook; a panic in it changes nothing.
func hook(log logr.Logger, name string, fn func()) {
	defer func() {
		if r := recover(); r != nil {
			log.Error(fmt.Errorf("%w: %v", ErrPanic, r), "phase hook panicked", "hook", name, "stack", string(debug.Stack()))
		}
	}()
	fn()
}

// recovered turns a panic of a user's Object, Record or Clock into an error.
func recovered(ctx context.Context, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v (%w)", ErrPanic, r, ErrUnknownOutcome)
		logr.FromContextOrDiscard(ctx).Error(*err, "phase callback panicked", "stack", string(debug.Stack()))
	}
}
