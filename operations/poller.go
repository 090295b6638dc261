package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Poller asks actions for the progress of the operations of a [Map], until all have ended. It keeps no truth of its
// own: after a restart another Poller goes on from the record. It is safe for concurrent use; Steps of one key run one
// after another, Steps of different keys do not wait for each other.
//
// A reconciler calls [Poller.Register] for new work, then [Poller.Step] each time it is called for the owner, and comes
// back after [Result.RequeueAfter], or at once when it has called [Poller.Wake] because it heard of something. When the
// result is Done it goes on to [Map.Complete]. A program without workqueue calls [Poller.Run] instead. The author of a
// plugin writes an [Action].
//
// How an operation ends, and what ends it:
//
//   - The action's word: Completed, Failed or Canceled. An error that is [Permanent], and an action that is not
//     registered, are Failed.
//   - Errors, panics, missing answers and calls past their deadline are asked again, and forgotten with the next good
//     answer. When nothing else came for ErrorBudget, the operation is asked to stop.
//   - So it is at the age of Deadline, on [Poller.Cancel], and when its parent ended as Failed, Canceled or Abandoned.
//   - What was asked to stop ends by the action's word all the same: Completed when it says Completed. Without that it
//     is Abandoned after CancelGrace. Whichever end is stored first stays.
//   - A state that is not known, and no progress for StallWindow, end nothing; they are told in [Result.Notes].
type Poller struct {
	m       *Map
	actions map[string]Action
	opts    PollerOptions

	mu   sync.Mutex // protects keys, and woken of each
	keys map[Key]*keyTrack
}

// Result is what a [Poller.Step] left behind.
type Result struct {
	// Done says that no operation runs and that the record is stored.
	Done bool
	// RequeueAfter is when the next Step has something to do; zero when Done.
	RequeueAfter time.Duration
	// Summary counts the operations as they are committed.
	Summary Summary
	// Stalled are the IDs of the operations that run, were not asked to stop, and have shown no progress for
	// StallWindow. When that begins, a Note says so too.
	Stalled []string
	// Notes say what did not go as it should, in the order in which it happened.
	Notes []Note
}

// Note is something a Step met that ended neither the Step nor, by itself, an operation.
type Note struct {
	// OperationID and Action say which operation it is about; both are empty when it is about the record.
	OperationID, Action string
	// Err is an action's error, a [PanicError], [ErrAbandonedCallback], [ErrUnknownState], [ErrStalled], what of an answer could not
	// be kept ([ErrMalformed], [ErrTooLarge]), or a store's error.
	Err error
}

// NewPoller returns a poller for the operations of m; several, in several processes, may work on one record. Actions are found by [Operation.Action]; an operation of an
// action that is not there fails. It returns every fault of its arguments, each naming what is wrong.
func NewPoller(m *Map, actions map[string]Action, opts PollerOptions) (*Poller, error) {
	var faults []error
	if m == nil || m.entries == nil {
		faults = append(faults, errors.New("map is nil or was not made by NewMap"))
	}
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		if name == "" {
			faults = append(faults, errors.New("an action has the name \"\": want the name that operations give as their Action"))
		}
		if actions[name] == nil {
			faults = append(faults, fmt.Errorf("action %q is nil", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opts.ActionConcurrency)) {
		n := opts.ActionConcurrency[name]
		if _, ok := actions[name]; !ok || n < 1 {
			faults = append(faults, fmt.Errorf("option ActionConcurrency: %d for action %q: want 1 or more, for a registered action", n, name))
		}
	}
	faults = append(faults, opts.complete())
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("operations poller: %w", err)
	}
	opts.ActionConcurrency = maps.Clone(opts.ActionConcurrency)
	return &Poller{m: m, actions: maps.Clone(actions), opts: opts, keys: map[Key]*keyTrack{}}, nil
}

// Step asks about every operation of the key that is due, commits what it learns and says when to come back. It returns
// as soon as the calls it made have returned; while one of them hangs, at most CallTimeout and CallGrace, and twice that
// when the action is asked to stop, the others are asked again as they fall due. How operations end is stored before Step returns, progress at most once in
// WriteInterval.
//
// What another process stored is taken over, with what this Step learnt on top of it; an operation that has ended there
// stays as it ended. It is looked for when a write meets it, when nothing was read or written for ReadInterval, and
// always before Step says Done, so that no old answer of the map ends a wait. A key that this map has completed is Done.
//
// The error is one that concerns the key as a whole: its record cannot be read or written, or ctx ended. Nothing that
// was learnt is lost by it: the next Step commits it.
func (p *Poller) Step(ctx context.Context, key Key) (Result, error) {
	k, err := p.enter(ctx, key)
	if err != nil {
		return Result{}, fmt.Errorf("poll operations: %w", err)
	}
	var res Result
	defer func() { p.leave(key, k, res.Done) }() // also when a hook ends the goroutine
	s := &step{p: p, key: key, track: k}
	err = contain(func() (err error) {
		res, err = s.run(ctx)
		return err
	})
	if err != nil {
		err = fmt.Errorf("poll operations: %w", err)
		if res.RequeueAfter == 0 {
			res.RequeueAfter = p.opts.Slow
		}
	}
	if hook := p.opts.Hooks.Stepped; hook != nil {
		if fault := runHook("Stepped", func() { hook(ctx, key, res, err) }); fault != nil {
			res.Notes = append(res.Notes, Note{Err: fault})
		}
	}
	return res, err
}

// Run steps until no operation of the key runs any more, and waits in between as long as each Step says. It rides out errors of Step for ErrorBudget; a record of
// another owner and one that cannot be read end it at once.
func (p *Poller) Run(ctx context.Context, key Key) (Summary, error) {
	if err := p.check(); err != nil {
		return Summary{}, fmt.Errorf("poll operations: %w", err)
	}
	var since time.Time // of the first of the last errors
	for {
		res, err := p.Step(ctx, key)
		wait := res.RequeueAfter
		switch {
		case err == nil && res.Done:
			return res.Summary, nil
		case err == nil:
			since = time.Time{}
		case isFinal(err) || ctx.Err() != nil:
			return res.Summary, err
		default:
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) >= p.opts.ErrorBudget {
				return res.Summary, err
			}
			wait = p.opts.Slow
		}
		if err := p.sleep(ctx, key, wait); err != nil {
			return res.Summary, err
		}
	}
}

// isFinal reports whether repeating a Step cannot mend its error.
func isFinal(err error) bool {
	for _, final := range []error{ErrForeignRecord, ErrMalformed, ErrTooLarge} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// sleep waits until the time is over or the key is woken.
func (p *Poller) sleep(ctx context.Context, key Key, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.bell(key):
	case <-ctx.Done():
		return fmt.Errorf("poll operations of %s: %w", key, context.Cause(ctx))
	}
	return nil
}
