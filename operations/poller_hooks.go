package operations

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
)

// PollerHooks are functions the [Poller] calls, each optional: for metrics, events and progress bars. They run between
// the poller's questions, for one key one at a time, for different keys at the same time, and must be quick. A panic is
// contained and becomes a [Note].
type PollerHooks struct {
	// Changed is called after a change of an operation's status was committed, or found in the store where another
	// process had written it, with a copy of the operation. One that ends is told once, but not if the process dies
	// between the write and the call.
	Changed func(ctx context.Context, key Key, op Operation)
	// Called is called after every call of an action has returned or was left behind.
	Called func(ctx context.Context, key Key, call Call)
	// Stepped is called at the end of every [Poller.Step] with what it returns.
	Stepped func(ctx context.Context, key Key, res Result, err error)
}

// tell calls the hook with operations that have changed.
func (s *step) tell(ctx context.Context, changed []Operation) {
	log := logr.FromContextOrDiscard(ctx)
	for i := range changed {
		op := &changed[i]
		if op.Status.Phase.IsTerminal() {
			log.Info("operation ended", "operation", op.ID, "action", op.Action, "phase", op.Status.Phase)
		}
		if hook := s.p.opts.Hooks.Changed; hook != nil {
			s.hook("Changed", op, func() { hook(ctx, s.key, op.clone()) })
		}
	}
}

// called calls the hook with calls that have ended.
func (s *step) called(ctx context.Context, calls []Call) {
	if hook := s.p.opts.Hooks.Called; hook != nil {
		for _, c := range calls {
			s.hook("Called", &Operation{Action: c.Action}, func() { hook(ctx, s.key, c) })
		}
	}
}

// hook runs a hook that is about the operation.
func (s *step) hook(name string, op *Operation, call func()) {
	if err := runHook(name, call); err != nil {
		s.note(op, err)
	}
}

func runHook(name string, call func()) error {
	err := contain(func() error {
		call()
		return nil
	})
	if err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	return nil
}
