package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Cut takes a snapshot of every volume of the plan and returns when each has a handle or has failed. First it thaws every
// pod that an earlier process left frozen. Then it goes through the batches in their order: it freezes the batch's pods,
// sends the batch's snapshots, waits for their cuts and thaws.
//
// Cut may be called again with the same owner, after an error or a crash: it adopts the snapshots that it finds, takes no
// second one of a volume, and freezes nothing for a batch that was cut already. What happened to each volume is in the
// report, which is never nil; one volume's failure is no error of Cut and hides no other's result.
//
// The error says that the job as a whole could not be done: ctx ended, the freeze intents cannot be kept, the API cannot
// be read, or the arguments are unusable. Pods are thawed all the same, in a bounded time after ctx has ended.
func (s *Snapshotter) Cut(ctx context.Context, owner Owner, plan *Plan) (*Report, error) {
	if err := s.made(); err != nil {
		return &Report{Owner: owner}, fmt.Errorf("cut: %w", err)
	}
	start := time.Now()
	r := &run{
		s: s, owner: owner, started: s.opts.Clock(), sig: newSignal(), byRef: map[Ref]*volumeRun{},
		controllers: map[string]int{}, paces: map[string]*driverPace{},
	}
	report := &Report{Owner: owner, Started: r.started}
	if err := errors.Join(owner.Validate(), r.take(plan)); err != nil {
		return report, fmt.Errorf("cut: %w", err)
	}
	r.progress = r.total()
	events := newDispatcher()
	r.events = events
	tell(events, s.opts.Observer.Progress, r.progress)
	err := r.do(ctx, report)
	events.close()
	r.fill(report, plan)
	report.Duration = time.Since(start)
	if err != nil {
		return report, fmt.Errorf("cut for %s/%s: %w", owner.Namespace, owner.Name, err)
	}
	return report, nil
}

// run is one Cut.
type run struct {
	s       *Snapshotter
	owner   Owner
	started time.Time
	journal *journal
	waiter  *Waiter
	creates *createClock
	events  *dispatcher
	batches []*batchRun
	byRef   map[Ref]*volumeRun // every volume, by its snapshot
	// leavingSince is when the last of the earlier snapshots that are being deleted went, or when they were found. It belongs
	// to the goroutine that runs the batches.
	leavingSince time.Time

	progress    Progress       // guarded by sig, as all that follows
	sig         *signal        // guards what follows and the same part of batches, pods and volumes
	unpicked    int            // snapshots sent, not picked up, not given up on
	trail       int            // snapshots cut on which the snapshot-controller still has work, not given up on
	workedAt    time.Time      // when it was last done with one
	lag         time.Duration  // the longest time from a cut to that since the last freeze
	frozen      int            // pods that are frozen or about to be
	controllers map[string]int // of these pods
	paces       map[string]*driverPace
	fatal       error // why no further batch is begun
}

// do is the Cut between its arguments and its report.
func (r *run) do(ctx context.Context, report *Report) error {
	var err error
	if r.journal, err = openJournal(ctx, r.s.opts.Intents, r.owner, r.s.opts.Clock); err != nil {
		return err
	}
	if report.Leftovers, err = r.thawLeftovers(ctx); err != nil {
		return err
	}
	if len(r.byRef) == 0 {
		return nil
	}
	wait := r.s.opts.Wait
	wait.Classifier = r.heeding(wait.Classifier)
	if r.waiter, err = NewWaiter(r.s.snaps, wait, r.owner, r.s.opts.Names, r.namespaces()); err != nil {
		return err
	}
	r.waiter.follower, r.waiter.worked = r.changed, r.doneWith
	err = r.watched(ctx)
	return errors.Join(err, r.flush(ctx))
}

// watched does the work beside the running waiter. When that ends early, so does the work.
func (r *run) watched(ctx context.Context) error {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.creates = newCreateClock(work, r.s.opts.Wait.Timeout)
	defer r.creates.stop()
	var waiter sync.WaitGroup
	waiter.Go(func() { stop(r.waiter.Run(ctx)) })
	err := r.opened(work)
	if err == nil {
		err = r.adopt(work)
	}
	if err == nil {
		err = r.checkClaims(work)
	}
	if err != nil {
		r.abort(err)
	} else {
		r.runBatches(work)
	}
	r.waiter.Close()
	waiter.Wait()
	var fatal error
	r.sig.read(func() { fatal = r.fatal })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, fatal)
}

// opened waits until no event can be missed any more.
func (r *run) opened(ctx context.Context) error {
	select {
	case <-r.waiter.Opened():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush saves thaw records that could not be saved before; if that succeeds, nothing is wrong with the intents any more.
func (r *run) flush(ctx context.Context) error {
	return r.journal.flush(context.WithoutCancel(ctx))
}

// stop keeps further batches from being begun.
func (r *run) stop(err error) {
	r.sig.update(func() { r.fatal = errors.Join(r.fatal, err) })
}
