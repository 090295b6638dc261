package phasekube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/sheetanchor/sheetanchor/phase"
)

// Hold waits until identity holds the lease, by client-go's leader election, calls work once, and gives the lease back when
// work has returned. Identity must be different for every process, and is what the process gives as
// phase.ApplierOptions.Owner: a pod's name and something random, such as uuid.NewString. The pod's UID does not do, because a
// container that is started again in its pod would pass for the process that died.
//
// Work's context ends before the lease does: when ctx ends, when somebody else holds the lease, and at the latest
// RenewDeadline after the start of the last renewal that succeeded, also while a request hangs. Its cause is then
// ErrLeaseLost, or that of ctx. After ctx has ended the lease is renewed until work has returned, so that nobody else begins
// while it still runs; after a loss work has the rest of Duration. A process that is stopped and continued can be late all
// the same: writes are fenced by versions, hooks are not.
//
// # Errors
//
// Work's error, joined with ErrLeaseLost if the lease was lost; nil if work returned nil in time, also after ctx has ended.
// The cause of ctx if that ended before the lease was held, with who held it and the last error of the server.
// ErrAbandoned if work did not return within Grace: the lease is not given back but runs out, and the next Hold is refused with
// ErrAbandoned while work still runs. A panic in work is phase.ErrPanic. An empty identity, a nil work, and a second Hold at
// the same time are phase.ErrInvalid.
func (l *Lease) Hold(ctx context.Context, identity string, work func(ctx context.Context) error) error {
	what := fmt.Sprintf("lease %s/%s", l.namespace, l.name)
	if identity == "" || work == nil {
		return fmt.Errorf("hold %s: %w: identity is %q, work is nil: %v", what, phase.ErrInvalid, identity, work == nil)
	}
	if !l.holding.CompareAndSwap(false, true) {
		return fmt.Errorf("hold %s: %w, or it is still held: %w", what, ErrAbandoned, phase.ErrInvalid)
	}
	t := &tenure{lease: l, work: work, lock: l.lock(identity), finished: make(chan error, 1)}
	if err := t.run(logr.NewContext(ctx, logr.FromContextOrDiscard(ctx))); err != nil {
		return fmt.Errorf("hold %s: %w", what, err)
	}
	return nil
}

// tenure is one call of Hold. It belongs to that call's goroutine, apart from lock and finished.
type tenure struct {
	lease    *Lease
	work     func(ctx context.Context) error
	lock     *fence
	finished chan error // work's error
}

func (t *tenure) run(ctx context.Context) error {
	// Renewals go on after ctx has ended, until work has returned.
	election, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	leading, over := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: t.lock, Name: t.lock.Describe(),
		LeaseDuration: t.lease.opts.Duration, RenewDeadline: t.lease.opts.RenewDeadline, RetryPeriod: t.lease.opts.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(leading) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.lease.holding.Store(false)
		return fmt.Errorf("%w: %w", phase.ErrInvalid, err)
	}
	go func() {
		defer close(over)
		elector.Run(election)
	}()
	select {
	case <-leading:
	case <-ctx.Done():
		stop()
		<-over
		t.giveBack(ctx) // it may have been got at the last moment
		t.lease.holding.Store(false)
		return t.lock.waited(ctx)
	}
	lost, abandoned, err := t.serve(ctx, over)
	stop()
	<-over
	switch {
	case abandoned:
		return errors.Join(ErrAbandoned, lost, context.Cause(ctx))
	case lost == nil:
		t.giveBack(ctx)
	}
	return errors.Join(lost, err)
}

// serve runs work until it has returned, or has not although its time is over.
func (t *tenure) serve(ctx context.Context, over <-chan struct{}) (lost error, abandoned bool, err error) {
	inner, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		defer t.lease.holding.Store(false)
		t.finished <- guarded(inner, t.work)
	}()
	lost, returned, err := t.watch(ctx, over)
	if returned {
		return nil, false, err
	}
	end(lost)
	grace := time.NewTimer(t.lease.opts.Grace)
	defer grace.Stop()
	select {
	case err = <-t.finished:
	case <-grace.C:
		return lost, true, nil
	}
	select {
	case <-over: // while work ended
		lost = cmp.Or(lost, t.lock.lost())
	default:
	}
	return lost, false, err
}

// watch returns when work has returned, with its error, when the lease is lost, with how, or when ctx has ended.
func (t *tenure) watch(ctx context.Context, over <-chan struct{}) (lost error, returned bool, err error) {
	fence := time.NewTimer(time.Until(t.lock.good()))
	defer fence.Stop()
	for {
		select {
		case err := <-t.finished:
			return nil, true, err
		case <-ctx.Done():
			return nil, false, nil
		case <-over:
			return t.lock.lost(), false, nil
		case <-t.lock.deposed:
			return t.lock.lost(), false, nil
		case <-fence.C:
			left := time.Until(t.lock.good())
			if left <= 0 {
				return t.lock.lost(), false, nil
			}
			fence.Reset(left)
		}
	}
}

// guarded keeps a panic of work inside.
func guarded(ctx context.Context, work func(ctx context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", phase.ErrPanic, p)
		}
	}()
	return work(ctx)
}

// giveBack empties the lease if it is still ours. If that fails it runs out by itself.
func (t *tenure) giveBack(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx).WithValues("lease", t.lock.Describe())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.lease.opts.RenewDeadline)
	defer cancel()
	record, _, err := t.lock.Get(ctx)
	if err != nil || record.HolderIdentity != t.lock.Identity() {
		log.V(1).Info("lease is not ours to give back", "error", err)
		return
	}
	now := metav1.Now()
	err = t.lock.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
	})
	if err != nil {
		log.Info("lease is not given back and runs out", "error", err)
	}
}
