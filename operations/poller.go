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
	// Notes say what did not go as it should, in the order in which it happened.
	Notes []Note
}

// Note is something a Step met that ended neither the Step nor, by itself, an operation.
type Note struct {
	// OperationID and Action say which operation it is about; both are empty when it is about the record.
	OperationID, Action string
	// Err is an action's error, a [PanicError], [ErrAbandonedCallback], [ErrUnknownState], what of an answer could not
	// be kept ([ErrMalformed], [ErrTooLarge]), or a store's error.
	Err error
}

// NewPoller returns a poller for the operations of m. Actions are found by [Operation.Action]; an operation of an
// action that is not there fails. It returns every fault of its arguments, each naming what is wrong.
func NewPoller(m *Map, actions map[string]Action, opts PollerOptions) (*Poller, error) {
	var faults []error
	if m == nil {
		faults = append(faults, errors.New("map is nil"))
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
// as soon as the calls it made have returned; while one of them hangs, at most CallTimeout and CallGrace, the others
// are asked again as they fall due. How operations end is stored before Step returns, progress at most once in
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
	if err == nil {
		return res, nil
	}
	if res.RequeueAfter == 0 {
		res.RequeueAfter = p.opts.Slow
	}
	return res, fmt.Errorf("poll operations: %w", err)
}

// Run steps until no operation of the key runs any more. It rides out errors of Step for ErrorBudget; a record of
// another owner and one that cannot be read end it at once.
func (p *Poller) Run(ctx context.Context, key Key) (Summary, error) {
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

// Cancel asks running operations of the key to stop: those of the IDs, or all when none is given. The request is stored
// before Cancel returns; the next Steps pass it on and wait for CancelGrace. An operation that has ended, or was asked
// before, stays as it is. An ID that is not there is [ErrUnknownOperation], and then nothing is changed.
//
// Cancel goes by what the store holds, so it can be called in another process than the one that steps, which hears of
// it when it writes next, after its ReadInterval at the latest.
func (p *Poller) Cancel(ctx context.Context, key Key, reason string, ids ...string) error {
	if err := contain(func() error { return p.request(ctx, key, reason, ids) }); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	p.Wake(key, ids...)
	return nil
}

// maxRaces is how many writes of others in a row a request to cancel tries to get past.
const maxRaces = 5

// request stores a request to stop.
func (p *Poller) request(ctx context.Context, key Key, reason string, ids []string) error {
	now := p.opts.Clock()
	for races := 0; ; races++ {
		raced, err := p.tryRequest(ctx, key, func(l *List) error { return requestStop(l, ids, first(reason, "canceled"), now) })
		if races == maxRaces || !raced {
			return err
		}
	}
}

// tryRequest changes the list as the store holds it. raced says that another writer came between.
func (p *Poller) tryRequest(ctx context.Context, key Key, change func(*List) error) (raced bool, err error) {
	ctx, cancel := p.storeContext(ctx)
	defer cancel()
	if _, err := p.m.confirm(ctx, key); err != nil {
		return false, err
	}
	_, err = p.m.Update(ctx, key, change)
	return errors.Is(err, ErrConflict), err
}

// requestStop marks operations of the list, all when there are no IDs.
func requestStop(l *List, ids []string, reason string, now time.Time) error {
	wanted := ids
	if len(ids) == 0 {
		for op := range l.All() {
			wanted = append(wanted, op.ID)
		}
	}
	var changed []Operation
	for _, id := range wanted {
		op, ok := l.Get(id)
		if !ok {
			return fmt.Errorf("operation %q: %w", id, ErrUnknownOperation)
		}
		if next := (&edit{reason: reason, requestedAt: now}).apply(op.Status); !next.Equal(op.Status) {
			op.Status = next
			changed = append(changed, op)
		}
	}
	return l.Set(changed...)
}
