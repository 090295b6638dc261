package csisnapshot

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// createWorkers is how many creates run at the same time without Options.Concurrency.
const createWorkers = 16

// send creates the batch's snapshots that do not exist and hands them to the waiter. It returns when all are sent or will
// not be; with a limit of snapshots in flight that includes the wait for places.
func (r *run) send(ctx context.Context, b *batchRun) {
	r.sig.update(func() { b.missEarly() })
	workers := createWorkers
	var places chan struct{}
	if limit := r.s.opts.Concurrency; limit > 0 {
		workers, places = limit, make(chan struct{}, limit)
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for _, v := range b.unsent(r) {
		if err := r.podsOf(v); err != nil {
			r.fail(v, err)
			continue
		}
		window, done := v.window(ctx)
		if err := v.place(window, places); err != nil {
			done()
			r.fail(v, fmt.Errorf("snapshot of claim %s: %w", v.key(), err))
			continue
		}
		group.Go(func() error {
			defer done()
			pending := r.sendOne(ctx, window, v)
			if places == nil {
				return nil
			}
			if pending != nil {
				select {
				case <-pending.Freed():
				case <-window.Done():
				}
			}
			<-places
			return nil
		})
	}
	_ = group.Wait() // the functions return no error
}

// missEarly notes the volumes that were cut before their pods were frozen. The signal's mutex is held.
func (b *batchRun) missEarly() {
	for _, v := range b.volumes {
		for _, p := range v.pods {
			if (v.early || v.isCut) && p.report.Hooked {
				v.notInTime = true
			}
		}
	}
}

// podsOf returns why the volume must not be cut.
func (r *run) podsOf(v *volumeRun) (err error) {
	r.sig.read(func() {
		for _, p := range v.pods {
			if p.err != nil {
				err = fmt.Errorf("snapshot of claim %s not taken: %w", v.key(), p.err)
			}
		}
	})
	return err
}

// window is a context that ends when one of the volume's frozen pods is about to be thawed. It may end a moment after the
// pod's own; [volumeRun.overdue] does not.
func (v *volumeRun) window(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var stops []func() bool
	for _, p := range v.pods {
		if !p.unhooked {
			stops = append(stops, context.AfterFunc(p.window, func() { cancel(context.Cause(p.window)) }))
		}
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// overdue is why the volume may not be sent any more, nil while it may.
func (v *volumeRun) overdue(window context.Context) error {
	if window.Err() != nil {
		return context.Cause(window)
	}
	for _, p := range v.pods {
		if !p.unhooked && p.window.Err() != nil {
			return context.Cause(p.window) //nolint:contextcheck // the window is asked why it ended, nothing inherits it
		}
	}
	return nil
}

// place waits for a place among the snapshots in flight. A volume that gets none, or one too late, has given it back.
func (v *volumeRun) place(window context.Context, places chan struct{}) error {
	if err := v.overdue(window); err != nil || places == nil {
		return err
	}
	select {
	case places <- struct{}{}:
	case <-window.Done():
		return context.Cause(window)
	}
	err := v.overdue(window)
	if err != nil {
		<-places
	}
	return err
}

// sendOne creates one snapshot and hands it to the waiter.
func (r *run) sendOne(ctx, window context.Context, v *volumeRun) *Pending {
	select {
	case <-r.waiter.Stalled(v.Driver):
		return r.waiter.Add(Target{Ref: v.ref, Driver: v.Driver}, StageCut)
	default:
	}
	snapshot, found, err := r.create(ctx, window, v)
	if err != nil {
		r.fail(v, fmt.Errorf("snapshot of claim %s: %w", v.key(), err))
		return nil
	}
	r.move(v, func() { v.snapshot, v.adopted = &snapshot, found == foundBefore })
	return r.waiter.Add(Target{Snapshot: &snapshot, Driver: v.Driver, Created: found == foundNot}, StageCut)
}
