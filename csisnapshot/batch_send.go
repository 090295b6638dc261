package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// createWorkers is how many creates run at the same time without Options.Concurrency.
const createWorkers = 16

// send creates snapshots and hands them to the waiter. It returns when all are sent or will not be; with a limit of
// snapshots in flight that includes the wait for places.
func (r *run) send(ctx context.Context, volumes []*volumeRun) {
	workers := createWorkers
	var places chan struct{}
	if limit := r.s.opts.Concurrency; limit > 0 {
		workers, places = limit, make(chan struct{}, limit)
	}
	var group errgroup.Group
	group.SetLimit(workers)
	one := func(v *volumeRun) {
		if err := r.podsOf(v); err != nil {
			r.fail(v, err)
			return
		}
		window, done := r.window(ctx, v)
		if err := r.place(window, v, places); err != nil {
			done()
			r.failUnsent(v, err)
			return
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
	var queues sync.WaitGroup
	for _, queue := range r.queues(volumes) {
		queues.Go(func() {
			for _, v := range queue {
				one(v)
			}
		})
	}
	queues.Wait()
	_ = group.Wait() // the functions return no error
}

// queues are the volumes in their order, those of each driver with places apart, so that no driver waits for another's.
func (r *run) queues(volumes []*volumeRun) [][]*volumeRun {
	var all [][]*volumeRun
	index := map[string]int{}
	for _, v := range volumes {
		key := ""
		if r.s.opts.limitsOf(v.Driver).InFlight > 0 {
			key = v.Driver
		}
		n, ok := index[key]
		if !ok {
			n = len(all)
			index[key], all = n, append(all, nil)
		}
		all[n] = append(all[n], v)
	}
	return all
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
				err = fmt.Errorf("no snapshot taken: %w", p.err)
			}
		}
	})
	return err
}

// isFrozen reports whether a pod is frozen for the volume.
func (r *run) isFrozen(v *volumeRun) (frozen bool) {
	r.sig.read(func() {
		for _, p := range v.pods {
			frozen = frozen || !p.unhooked
		}
	})
	return frozen
}

// window is a context that ends when one of the volume's frozen pods is about to be thawed, or creates have met trouble for
// too long. It may end a moment after these; [run.overdue] does not.
func (r *run) window(ctx context.Context, v *volumeRun) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ends := []context.Context{r.creates.of(v.Driver)}
	for _, p := range v.pods {
		if !p.unhooked {
			ends = append(ends, p.window)
		}
	}
	var stops []func() bool
	for _, end := range ends {
		stops = append(stops, context.AfterFunc(end, func() { cancel(context.Cause(end)) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// overdue is why the volume may not be sent any more, nil while it may.
func (r *run) overdue(window context.Context, v *volumeRun) error {
	if window.Err() != nil {
		return context.Cause(window)
	}
	if err := r.creates.stalled(v.Driver); err != nil {
		return err
	}
	for _, p := range v.pods {
		if !p.unhooked && p.window.Err() != nil {
			return context.Cause(p.window) //nolint:contextcheck // the window is asked why it ended, nothing inherits it
		}
	}
	return nil
}

// place waits for a place among the snapshots in flight. A volume that gets none, or one too late, has given it back.
func (r *run) place(window context.Context, v *volumeRun, places chan struct{}) error {
	if err := r.awaitPlace(window, v); err != nil {
		return err
	}
	if err := r.overdue(window, v); err != nil || places == nil {
		return err
	}
	select {
	case places <- struct{}{}:
	case <-window.Done():
		return context.Cause(window)
	}
	err := r.overdue(window, v)
	if err != nil {
		<-places
	}
	return err
}

// failUnsent ends a volume that was not sent. One that was not because creates met nothing but trouble is [ErrNotStarted],
// unless its own create may have been done.
func (r *run) failUnsent(v *volumeRun, err error) {
	if errors.Is(err, errCreatesStalled) {
		wait := &WaitError{
			Ref: v.ref, Driver: v.Driver, Stage: StageCut, Diagnosis: DiagnosisNotStarted, Ended: time.Now(), Category: ErrNotStarted, Err: err,
		}
		if errors.Is(err, errUnknown) {
			wait.Category, wait.Diagnosis = ErrTimeout, DiagnosisUnreadable
		}
		err = wait
	}
	r.fail(v, err)
}

// sendOne creates one snapshot and hands it to the waiter.
func (r *run) sendOne(ctx, window context.Context, v *volumeRun) *Pending {
	if err := r.awaitTurn(window, v.Driver); err != nil {
		r.failUnsent(v, err)
		return nil
	}
	select {
	case <-r.waiter.Stalled(v.Driver):
		return r.waiter.Add(Target{Ref: v.ref, Driver: v.Driver}, StageCut)
	default:
	}
	snapshot, found, err := r.create(ctx, window, v)
	if err != nil {
		r.failUnsent(v, err)
		return nil
	}
	r.move(v, func() { v.snapshot, v.adopted = &snapshot, found == foundBefore })
	return r.waiter.Add(Target{Snapshot: &snapshot, Driver: v.Driver, Created: found == foundNot}, StageCut)
}
