package finalize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// UpdateItem handles one item again whose asynchronous operation has ended, for example reads it from the cluster and
// writes it into the backup. It is the function that handled the item in the first place, told the phase. It may be called
// again after a crash, so it must be idempotent. It returns the asynchronous operations that it started, which fails the
// item: in this phase nothing would follow them to their end. A panic is a failure of the item.
type UpdateItem func(ctx context.Context, item operations.ResourceID, phase string) (started []operations.Operation, err error)

// UpdateOptions are those of [UpdateItems]. The zero value works.
type UpdateOptions struct {
	// Phase is what the callback is told. Empty: "Finalizing".
	Phase string
	// ItemTimeout bounds the work on one item, from its start. Zero or less: one minute.
	ItemTimeout time.Duration
	// Grace is how long an item that ignores the end of its context is waited for. Zero or less: 5 s.
	Grace time.Duration
}

// UpdateItems returns the hook "update-items", which calls update for each item that operations have asked for, one at a
// time, in the order in which they asked, each item once. It comes back later while an operation that asked runs. Items
// that only failed, canceled or abandoned operations asked for are left alone: what there is to say about them is in the
// operation.
//
// Errors of the report are kept by item: that of the callback, [ErrTimeout], and [ErrOperationStarted] when it started an
// operation. A callback that ignores the end of its context ends the hook, and the items behind it are errors, since two
// calls must never overlap. Items that succeeded are not repeated in one process. The hook runs after those named and has
// an hour for each call. [New] refuses it when ops or update is nil, or key not valid.
func UpdateItems(ops Operations, key operations.Key, update UpdateItem, opts UpdateOptions, after ...string) Hook {
	if opts.Phase == "" {
		opts.Phase = "Finalizing"
	}
	if opts.ItemTimeout <= 0 {
		opts.ItemTimeout = time.Minute
	}
	if opts.Grace <= 0 {
		opts.Grace = 5 * time.Second
	}
	u := &updater{update: update, opts: opts, done: map[operations.ResourceID]bool{}, final: map[operations.ResourceID]error{}}
	h := Hook{Name: "update-items", After: after, Timeout: time.Hour, Retries: 2, Run: func(ctx context.Context) error {
		rec, err := read(ctx, ops, key)
		if err != nil {
			return unreadable(err)
		}
		items, running := postItems(rec.List)
		if running != "" {
			return Later(operationPause, "operation "+running+" has not ended")
		}
		return u.run(ctx, items)
	}}
	if update == nil {
		h = h.need("update", nil)
	}
	return h.need("ops", ops).valid("key", key)
}

// postItems returns the items that completed operations asked for, and one that asked and has not ended.
func postItems(list operations.List) (items []operations.ResourceID, running string) {
	seen := map[operations.ResourceID]bool{}
	for op := range list.All() {
		switch phase := op.Status.Phase; {
		case len(op.PostItems) == 0:
		case !phase.IsTerminal():
			running = op.ID
		case phase == operations.PhaseCompleted:
			for _, item := range op.PostItems {
				if !seen[item] {
					seen[item] = true
					items = append(items, item)
				}
			}
		}
	}
	return items, running
}

// updater is the part of UpdateItems that lasts over the calls of one process. Calls of one hook never overlap.
type updater struct {
	update UpdateItem
	opts   UpdateOptions
	done   map[operations.ResourceID]bool
	final  map[operations.ResourceID]error // those that no later try can mend
}

func (u *updater) run(ctx context.Context, items []operations.ResourceID) error {
	var faults []error
	again := false
	abandoned := ""
	for _, item := range items {
		err, known := u.final[item]
		switch {
		case u.done[item]:
			continue
		case known:
		case ctx.Err() != nil:
			return errors.Join(append(faults, context.Cause(ctx))...)
		case abandoned != "":
			err = fmt.Errorf("not tried: %s was abandoned", abandoned)
		default:
			err = u.one(ctx, item)
		}
		switch {
		case err == nil:
			u.done[item] = true
			continue
		case errors.Is(err, errAbandoned):
			abandoned = itemName(item)
		case errors.Is(err, ErrPermanent):
			err = errors.New(err.Error()) // final for the item, not for the hook
			u.final[item] = err
		case !known:
			again = true
		}
		faults = append(faults, Item(item.Namespace, itemName(item), err))
	}
	if again && abandoned == "" {
		return errors.Join(faults...)
	}
	return Permanent(errors.Join(faults...)) // nothing is left that another call could mend, or that may be called
}

// one calls the callback on a goroutine of its own, which it leaves behind when it ignores the end of its context.
func (u *updater) one(ctx context.Context, item operations.ResourceID) error {
	c := begin(ctx, u.opts.ItemTimeout, u.opts.Grace, func(ctx context.Context) error {
		started, err := u.update(ctx, item, u.opts.Phase)
		if len(started) == 0 {
			return err
		}
		var ids []string
		for _, op := range started {
			ids = append(ids, op.ID)
		}
		return errors.Join(err, Permanent(fmt.Errorf("%w: %s", ErrOperationStarted, strings.Join(ids, ", "))))
	}, func() {})
	defer c.cancel()
	if err := c.await(ctx, u.opts.Grace); err != nil {
		return err
	}
	switch {
	case c.err == nil || !c.timedOut():
		return c.err
	case errors.Is(c.err, ErrTimeout) || errors.Is(c.err, context.DeadlineExceeded):
		return fmt.Errorf("%w after %v", ErrTimeout, u.opts.ItemTimeout)
	}
	return fmt.Errorf("%w after %v: %w", ErrTimeout, u.opts.ItemTimeout, c.err)
}

// itemName names an item for people; the namespace is told apart.
func itemName(item operations.ResourceID) string {
	kind := item.Resource
	if item.Group != "" {
		kind += "." + item.Group
	}
	return kind + "/" + item.Name
}

// RefuseOperations returns the hook "refuse-operations", which finds the operations that were started while the last steps
// ran, or have no end after them: each is an error of the report, [ErrOperationStarted], for nothing follows it any more.
// Let it come after all hooks that could start one, and before the files are written. The hook is retried three times.
// [New] refuses it when ops is nil or key not valid.
func RefuseOperations(ops Operations, key operations.Key, after ...string) Hook {
	h := Hook{Name: "refuse-operations", After: after, Retries: 3, Run: func(ctx context.Context) error {
		rec, err := read(ctx, ops, key)
		if err != nil {
			return err
		}
		report, _ := SoFar(ctx)
		var faults []error
		for op := range rec.List.All() {
			created := deref(op.Status.Created)
			late := !created.IsZero() && !report.Started.IsZero() && created.After(report.Started)
			switch {
			case late:
				err = fmt.Errorf("%w: %s", ErrOperationStarted, op.ID)
			case !op.Status.Phase.IsTerminal():
				err = fmt.Errorf("operation %s has not ended", op.ID)
			default:
				continue
			}
			faults = append(faults, Permanent(Item(op.Resource.Namespace, op.Resource.Name, err)))
		}
		return errors.Join(faults...)
	}}
	return h.need("ops", ops).valid("key", key)
}
