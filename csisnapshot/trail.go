package csisnapshot

import (
	"maps"
	"slices"
	"time"
)

// After a cut the snapshot-controller still has work on the snapshot: most of its requests, seconds at its default rate. A
// snapshot that is sent meanwhile queues behind that, so the Cut that a waiter works for is told when it is done. Snapshots
// of which that is not known are the trail: they are not waited for any more, and no read is made for them alone but where
// polling replaces the watch.

// leaveTrail keeps on looking at a snapshot that was waited for until its cut.
func (w *Waiter) leaveTrail(e *entry) {
	if w.worked == nil || !e.state.Cut {
		return
	}
	w.trail[e.state.Ref] = e
	if e.snapshot != nil || e.state.Ready {
		w.seeTrail(e.state.Ref, e.snapshot)
	}
}

// seeTrail takes in the snapshot of that name, nil if there is none. Its status tells of the cut when the controller has
// done most of its work on it; a little may follow.
func (w *Waiter) seeTrail(ref Ref, vs *Snapshot) {
	e := w.trail[ref]
	if e == nil || vs != nil && vs.UID == e.state.UID && !vs.Terminating() && !hasPhysical(vs.Status) {
		return
	}
	delete(w.trail, ref)
	w.events = append(w.events, event{result: e.state.Result, worked: true})
}

// seeWork takes in an event of a snapshot that is not waited for: the controller has just worked on it.
func (w *Waiter) seeWork(ref Ref, vs *Snapshot) {
	w.seeTrail(ref, vs)
	if w.worked != nil && w.trail[ref] == nil {
		w.events = append(w.events, event{result: Result{Ref: ref}, worked: true})
	}
}

// trailIn are the names on the trail in a namespace, sorted.
func (w *Waiter) trailIn(namespace string) []Ref {
	refs := slices.SortedFunc(maps.Keys(w.trail), Ref.Compare)
	return slices.DeleteFunc(refs, func(ref Ref) bool { return ref.Namespace != namespace })
}

// maxRest is how long the snapshot-controller saves up requests by default: ten at five a second.
const maxRest = 2 * time.Second

// doneWith notes that the snapshot-controller has done its work on a snapshot, or a little more of it.
func (r *run) doneWith(ref Ref) {
	v := r.byRef[ref]
	if v == nil {
		return
	}
	r.move(v, func() {
		if !v.isCut {
			return
		}
		r.workedAt = time.Now()
		if !v.worked {
			r.lag = max(r.lag, r.workedAt.Sub(v.result.CutAt))
		}
		v.worked = true
	})
}

// trailing is 1 while the snapshot-controller has work on the volume's snapshot that is cut.
func (v *volumeRun) trailing() int {
	if v.isCut && !v.worked && v.snapshot != nil {
		return 1
	}
	return 0
}

// restUntil is the moment from which on the snapshot-controller has its requests saved up again: as long after its last work
// as it took from a cut to that, at most maxRest. A controller that is not held back has no need to rest.
func (r *run) restUntil() (until time.Time) {
	r.sig.read(func() { until = r.workedAt.Add(min(r.lag, maxRest)) })
	return until
}
