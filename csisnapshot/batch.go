package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// runBatches begins the batches in order and returns when every pod is thawed and every snapshot sent. It ends no wait for
// a cut outside a freeze: the waiter does.
func (r *run) runBatches(ctx context.Context) {
	var freezes sync.WaitGroup
	for _, b := range r.batches {
		if !b.hooked || len(b.hookedPods()) == 0 {
			r.runUnhooked(ctx, b)
			continue
		}
		if r.resume(ctx, b) {
			continue
		}
		r.awaitGone(ctx, b.volumes)
		if err := r.mayFreeze(ctx, b); err != nil {
			r.abortBatch(b, err)
			continue
		}
		if r.dropStalled(b); b.settled(r) {
			r.leave(b)
			r.begin(b)
			continue
		}
		freezes.Go(func() {
			defer r.leave(b)
			r.freezeBatch(ctx, b)
		})
	}
	freezes.Wait()
	if err := r.why(ctx); err != nil {
		r.abort(err)
	}
}

// runUnhooked sends a batch that freezes nothing, once no pod is frozen.
func (r *run) runUnhooked(ctx context.Context, b *batchRun) {
	if err := r.sig.await(ctx, func() bool { return r.frozen == 0 || r.fatal != nil }); err != nil {
		r.abortBatch(b, err)
		return
	}
	if err := r.why(ctx); err != nil {
		r.abortBatch(b, err)
		return
	}
	r.begin(b)
	r.send(ctx, slices.DeleteFunc(b.unsent(r), func(v *volumeRun) bool { return v.leaving != "" }))
	if len(leaving(b.volumes)) > 0 {
		r.awaitGone(ctx, b.volumes)
		r.send(ctx, b.unsent(r))
	}
}

// dropStalled ends the volumes that would not be sent because their driver, or the API, has made no progress for too long.
func (r *run) dropStalled(b *batchRun) {
	for _, v := range b.unsent(r) {
		select {
		case <-r.waiter.Stalled(v.Driver):
			r.waiter.Add(Target{Ref: v.ref, Driver: v.Driver}, StageCut)
			continue
		default:
		}
		if err := r.creates.stalled(v.Driver); err != nil {
			r.failUnsent(v, err)
		}
	}
}

// settled reports whether each of the batch's volumes is cut or has failed, so that nothing is to be frozen for it.
func (b *batchRun) settled(r *run) (settled bool) {
	r.sig.read(func() { settled = b.open == 0 })
	return settled
}

// mayFreeze waits until the batch's pods may be frozen, and counts them as frozen when it returns nil.
func (r *run) mayFreeze(ctx context.Context, b *batchRun) error {
	pods, taken := b.hookedPods(), false
	err := r.sig.await(ctx, func() bool {
		if r.fatal != nil {
			return true
		}
		if r.frozen > 0 && r.frozen+len(pods) > r.s.opts.MaxFrozenPods || r.controlled(pods) {
			return false
		}
		taken = true
		r.frozen += len(pods)
		for _, p := range pods {
			r.controllers[p.Controller]++
		}
		return true
	})
	if err == nil && taken {
		err = r.awaitDrivers(ctx, b)
	}
	if err == nil && taken {
		r.awaitWork(ctx)
	}
	if why := r.why(ctx); err == nil {
		err = why
	}
	if err != nil && taken {
		r.leave(b)
	}
	return err
}

// controlled reports whether a pod of the same controller is frozen. The signal's mutex is held.
func (r *run) controlled(pods []*podRun) bool {
	for _, p := range pods {
		if p.Controller != "" && r.controllers[p.Controller] > 0 {
			return true
		}
	}
	return false
}

// leave gives back what mayFreeze took.
func (r *run) leave(b *batchRun) {
	pods := b.hookedPods()
	r.sig.update(func() {
		r.frozen -= len(pods)
		for _, p := range pods {
			r.controllers[p.Controller]--
		}
	})
}

// awaitWork waits until the snapshot-controller has done its work on everything that was sent before, and has its requests
// saved up again, so that the snapshots of a frozen pod do not queue behind it: picked up what is not cut, and told of the
// cut what is. What is not done in time is not waited for again.
func (r *run) awaitWork(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.s.opts.MaxPickup)
	defer cancel()
	if r.sig.await(ctx, func() bool { return r.unpicked == 0 && r.trail == 0 }) == nil {
		for at := r.restUntil(); time.Now().Before(at) && sleepUntil(ctx, at, nil); {
			at = r.restUntil()
		}
	} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		for _, v := range r.byRef {
			r.move(v, func() { v.picked, v.worked = v.picked || v.snapshot != nil, v.worked || v.isCut })
		}
	}
	r.sig.update(func() { r.lag = 0 })
}

// resume finds what an earlier Cut has cut of the batch and reports whether that is everything. Its pods are not frozen
// again then.
func (r *run) resume(ctx context.Context, b *batchRun) bool {
	limit := r.s.opts.Wait.Timeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	defer cancel() // the volumes share the time: their pods are frozen after all when it is over
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	for _, v := range b.volumes {
		reads.Go(func() error {
			var adopted, isCut, ended bool
			var snapshot *Snapshot
			r.sig.read(func() { adopted, isCut, ended, snapshot = v.adopted, v.isCut, v.ended, v.snapshot })
			early := adopted && (isCut || !ended && r.hasHandle(ctx, snapshot))
			r.sig.update(func() { v.early = early })
			return nil
		})
	}
	_ = reads.Wait() // nothing in it fails
	all := true
	r.sig.read(func() {
		for _, v := range b.volumes {
			all = all && v.early
		}
	})
	if all {
		r.sig.update(func() { b.resumed = true })
		r.begin(b)
	}
	return all
}

// hasHandle reads the snapshot's content by its name.
func (r *run) hasHandle(ctx context.Context, snapshot *Snapshot) bool {
	name := contentNameOf(snapshot)
	if name == "" {
		return false
	}
	var content Content
	err := retry(ctx, r.s.opts.Wait.Timeout, func(ctx context.Context) (err error) {
		content, err = r.s.snaps.Contents().Get(ctx, "", name)
		return err
	})
	ref := content.Snapshot
	return err == nil && ref.UID == snapshot.UID && ref.Name == snapshot.Name && ref.Namespace == snapshot.Namespace &&
		content.Handle() != ""
}

// freezeBatch freezes the batch's pods, sends its snapshots, waits for their cuts and thaws. It returns when all pods are
// thawed, and does not wait for what was not cut by then.
func (r *run) freezeBatch(ctx context.Context, b *batchRun) {
	pods := b.hookedPods()
	r.sig.update(func() { b.windows, b.held = len(pods), len(pods) })
	r.begin(b)
	for _, p := range pods {
		p.window, p.close = context.WithCancelCause(ctx)
	}
	release := make(chan struct{})
	var thaws sync.WaitGroup
	defer thaws.Wait()
	defer close(release)
	for _, p := range pods {
		thaws.Go(func() { r.holdPod(ctx, p, b, release) })
	}
	ready := func() bool {
		for _, p := range pods {
			if !p.ready {
				return false
			}
		}
		return true
	}
	if err := r.sig.await(ctx, ready); err != nil {
		r.abortBatch(b, err)
		return
	}
	r.sig.update(func() { b.missEarly() })
	r.send(ctx, b.unsent(r))
	_ = r.sig.await(ctx, func() bool { return b.open == 0 || b.windows == 0 }) // whatever ends it, the pods are thawed
}

// holdTime is the timer of MaxFreeze; without a limit it never fires.
func holdTime(limit time.Duration) (<-chan time.Time, func()) {
	if limit <= 0 {
		return nil, func() {}
	}
	timer := time.NewTimer(limit)
	return timer.C, func() { timer.Stop() }
}

// errThawed closes the window of a pod that is thawed.
var errThawed = errors.New("the pod is thawed")

// ErrWindowClosed says that a snapshot was not sent because the time its pod may be frozen was over.
var ErrWindowClosed = errors.New("MaxFreeze is over: the snapshot was not sent while the pod was frozen")
