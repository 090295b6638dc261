package csisnapshot

import (
	"context"
	"fmt"
	"time"
)

// move changes a volume and keeps the counts of its batch and run, then tells the observer what is new. It is the only
// place where a volume's state changes.
func (r *run) move(v *volumeRun, change func()) {
	observer := r.s.opts.Observer
	r.sig.update(func() {
		unpicked, trailing, ended, inFlight := v.unpicked(), v.trailing(), v.ended, v.inFlight()
		isCut, failed, created, picked := v.isCut, v.err != nil, v.snapshot != nil, v.result.PickedUp
		change()
		v.ended = v.ended || v.isCut || v.err != nil
		r.unpicked += v.unpicked() - unpicked
		r.trail += v.trailing() - trailing
		r.pace(v.Driver).inFlight += v.inFlight() - inFlight
		if v.ended && !ended {
			v.batch.open--
			v.batch.end = time.Now()
		}
		switch {
		case v.isCut && !isCut:
			tell(r.events, observer.Cut, v.event())
		case v.err != nil && !failed:
			tell(r.events, observer.Failed, v.event())
		case v.snapshot != nil && !created:
			tell(r.events, observer.Created, v.event())
		}
		if v.result.PickedUp && !picked && !v.ended {
			tell(r.events, observer.PickedUp, v.event())
		}
		r.proceed(func(p *Progress) {
			p.Created += count(v.snapshot != nil, created)
			p.PickedUp += count(v.result.PickedUp, picked)
			p.Cut += count(v.isCut && !failed, isCut)
			p.Failed += count(v.err != nil && !isCut, failed)
		})
		r.tellEnded(v.batch)
	})
}

// unpicked is 1 while the volume's snapshot waits for the snapshot-controller.
func (v *volumeRun) unpicked() int {
	if v.snapshot != nil && !v.picked && !v.ended {
		return 1
	}
	return 0
}

// event is the volume for the observer.
func (v *volumeRun) event() VolumeEvent {
	e := VolumeEvent{Namespace: v.Namespace, Claim: v.Claim, Handle: v.result.Handle, Adopted: v.adopted, Err: v.err}
	if v.snapshot != nil {
		e.Snapshot = v.snapshot.Name
	}
	return e
}

// tellEnded tells the observer once that the batch has ended. The signal's mutex is held.
func (r *run) tellEnded(b *batchRun) {
	if b.told || b.open > 0 || b.held > 0 || b.start.IsZero() {
		return
	}
	b.told = true
	r.proceed(func(p *Progress) { p.EndedBatches++ })
	e := r.batchEvent(b)
	e.Elapsed, e.Resumed = b.end.Sub(b.start), b.resumed
	tell(r.events, r.s.opts.Observer.BatchEnded, e)
}

func (r *run) batchEvent(b *batchRun) BatchEvent {
	return BatchEvent{Batch: b.index, Batches: len(r.batches), Pods: len(b.pods), Volumes: len(b.volumes), Hooked: b.hooked}
}

// begin notes that a batch starts.
func (r *run) begin(b *batchRun) {
	r.sig.update(func() {
		b.start = time.Now()
		b.end = b.start
		tell(r.events, r.s.opts.Observer.BatchStarted, r.batchEvent(b))
		r.tellEnded(b)
	})
}

// changed takes in what the waiter saw of a snapshot.
func (r *run) changed(res Result, err error) {
	v := r.byRef[res.Ref]
	if v == nil {
		return
	}
	r.move(v, func() {
		v.result = res
		v.picked = v.picked || res.PickedUp
		v.isCut = v.isCut || res.Cut
		if err != nil && !v.isCut && v.err == nil {
			v.err = v.named(err)
		}
	})
}

// named is the error with the name of the volume's claim, which every error of a volume has once, in front.
func (v *volumeRun) named(err error) error { return fmt.Errorf("claim %s: %w", v.key(), err) }

// fail ends a volume that is not waited for. The error does not name its claim.
func (r *run) fail(v *volumeRun, err error) {
	r.move(v, func() {
		if !v.ended {
			v.err = v.named(err)
		}
	})
}

// abort fails every volume that was not sent.
func (r *run) abort(err error) {
	for _, b := range r.batches {
		r.abortBatch(b, err)
	}
}

func (r *run) abortBatch(b *batchRun, err error) {
	for _, v := range b.unsent(r) {
		r.fail(v, err)
	}
}

// unsent are the batch's volumes without a snapshot.
func (b *batchRun) unsent(r *run) []*volumeRun {
	var unsent []*volumeRun
	r.sig.read(func() {
		for _, v := range b.volumes {
			if v.snapshot == nil && !v.ended {
				unsent = append(unsent, v)
			}
		}
	})
	return unsent
}

// why is what ended the work, for the volumes that it left.
func (r *run) why(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var err error
	r.sig.read(func() { err = r.fatal })
	return err
}
