package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrUnknownAction says that an operation names an action that is not registered with the poller.
var ErrUnknownAction = errors.New("unknown action")

// Register adds operations to the key, so that the next Steps ask about them, and stores them before it returns. An ID
// that the key has already stays as it is, also when it has ended: work that is registered twice, or that another
// process finished before this one came to register it, counts once. An operation without [Status.Created] gets the
// time of the Clock, by which its deadline counts.
//
// An operation of an action that is not registered is [ErrUnknownAction], one whose Parent is neither in the list nor
// among ops is [ErrUnknownOperation], and one that is its own Parent, or that a [List] does not take, is [ErrMalformed];
// then nothing is changed.
// [CompletedError] says that the key is closed. Adding operations with [Map.Update] is as good, without these checks.
func (p *Poller) Register(ctx context.Context, key Key, ops ...Operation) error {
	err := p.check()
	if err == nil {
		err = contain(func() error { return p.register(ctx, key, ops) })
	}
	if err != nil {
		return fmt.Errorf("register operations of %s: %w", key, err)
	}
	ids := make([]string, 0, len(ops))
	for i := range ops {
		ids = append(ids, ops[i].ID)
	}
	if len(ids) > 0 {
		p.Wake(key, ids...)
	}
	return nil
}

func (p *Poller) register(ctx context.Context, key Key, ops []Operation) error {
	ops = slices.Clone(ops)
	now, fresh := p.opts.Clock(), make(map[string]bool, len(ops))
	var faults []error
	for i := range ops {
		op := &ops[i]
		fresh[op.ID] = true
		if _, ok := p.actions[op.Action]; !ok && op.ID != "" { // one without ID is the list's to refuse
			faults = append(faults, fmt.Errorf("operation %q: %w %q", op.ID, ErrUnknownAction, op.Action))
		}
		if op.Parent == op.ID && op.ID != "" {
			faults = append(faults, fmt.Errorf("operation %q: %w: field Parent names the operation itself", op.ID, ErrMalformed))
		}
		if op.Status.Created == nil {
			op.Status.Created = &now
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	return p.change(ctx, key, func(l *List) error {
		for i := range ops {
			if parent := ops[i].Parent; parent != "" && !fresh[parent] && l.find(parent) < 0 {
				return fmt.Errorf("operation %q: parent %q: %w", ops[i].ID, parent, ErrUnknownOperation)
			}
		}
		return l.Merge(ops...)
	})
}

// Cancel asks running operations of the key to stop: those of the IDs, or all when none is given. The request is stored
// before Cancel returns; the next Steps pass it on and wait for CancelGrace. An operation that has ended, or was asked
// before, stays as it is. An ID that is not there is [ErrUnknownOperation], and then nothing is changed.
//
// Cancel goes by what the store holds, so it can be called in another process than the one that steps, which hears of
// it when it writes next, after its ReadInterval at the latest.
func (p *Poller) Cancel(ctx context.Context, key Key, reason string, ids ...string) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	err := contain(func() error {
		now := p.opts.Clock()
		return p.change(ctx, key, func(l *List) error { return requestStop(l, ids, first(reason, "canceled"), now) })
	})
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	p.Wake(key, ids...)
	return nil
}

// maxRaces is how many writes of others in a row a request tries to get past.
const maxRaces = 5

// change stores a change of the list, made on what the store holds.
func (p *Poller) change(ctx context.Context, key Key, change func(*List) error) error {
	for races := 0; ; races++ {
		raced, err := p.tryChange(ctx, key, change)
		if races == maxRaces || !raced {
			return err
		}
	}
}

// tryChange changes the list as the store holds it. raced says that another writer came between.
func (p *Poller) tryChange(ctx context.Context, key Key, change func(*List) error) (raced bool, err error) {
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
