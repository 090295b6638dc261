package csisnapshot

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// clockLoop ends what has waited too long, and returns when ctx ends or nothing is left to wait for.
func (w *Waiter) clockLoop(ctx context.Context) {
	for {
		now := time.Now()
		w.mu.Lock()
		if !w.check.IsZero() && !now.Before(w.check) {
			w.expire(now)
		}
		next, done := w.check, w.closing && len(w.entries) == 0
		w.mu.Unlock()
		w.publish()
		if done || !sleepUntil(ctx, next, w.tick) {
			return
		}
	}
}

// sleepUntil waits for the time (zero: for ever), a wake-up or the end of ctx, and reports whether ctx is alive.
func sleepUntil(ctx context.Context, at time.Time, wake <-chan struct{}) bool {
	var timer <-chan time.Time
	if !at.IsZero() {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer:
	}
	return ctx.Err() == nil
}

// checkBy makes sure that expiries are looked at by the time.
func (w *Waiter) checkBy(t time.Time) {
	if w.check.IsZero() || t.Before(w.check) {
		w.check = t
	}
}

// expire ends the snapshots whose clock has run out and sets the next check. Progress only moves an expiry away, so
// that a check may come early and never late.
func (w *Waiter) expire(now time.Time) {
	w.check = time.Time{}
	for _, name := range slices.Sorted(maps.Keys(w.drivers)) {
		c := w.drivers[name]
		if at, ok := c.deadline(w.opts.Timeout); ok && now.Before(at) {
			w.checkBy(at)
		} else if ok {
			w.stall(c, now)
		}
	}
	for _, e := range w.sorted() {
		at, ok := e.deadline(w.opts.Timeout)
		switch {
		case !ok:
		case now.Before(at):
			w.checkBy(at)
		default:
			c := w.driver(e.state.Driver)
			if !e.state.Cut {
				c.held = append(c.held, e)
			}
			w.end(e, ErrTimeout, w.timeoutDiagnosis(e), w.trouble(), now)
			if len(c.held) > 0 {
				w.checkBy(c.since.Add(w.opts.Timeout))
			}
		}
	}
}

// deadline is when the driver counts as stalled; false if nothing of it waits.
func (c *driverClock) deadline(timeout time.Duration) (time.Time, bool) {
	if len(c.waiting)+len(c.held) == 0 || c.isStalled() {
		return time.Time{}, false
	}
	since := c.since
	for e := range c.waiting {
		if e.state.Paused.After(since) {
			since = e.state.Paused
		}
	}
	return since.Add(timeout), true
}

// deadline is when the snapshot's own clock runs out; false while it has none of its own. The snapshot-controller puts
// its finalizer on everything that is there before it makes the first content, and contents queue again at the sidecar,
// so that one that the driver was not asked for still waits for the others.
func (e *entry) deadline(timeout time.Duration) (time.Time, bool) {
	if !e.state.Begun && !e.state.Cut {
		return time.Time{}, false
	}
	since := e.state.ProgressAt
	for _, t := range []time.Time{e.added, e.state.Paused} {
		if t.After(since) {
			since = t
		}
	}
	return since.Add(timeout), true
}

// stall ends every snapshot of the driver that is not cut.
func (w *Waiter) stall(c *driverClock, now time.Time) {
	for _, e := range w.sorted() {
		if _, waiting := c.waiting[e]; waiting {
			w.end(e, ErrTimeout, w.timeoutDiagnosis(e), errors.Join(c.err(w.opts.Timeout), w.trouble()), now)
		}
	}
	closeOnce(c.stalled)
	c.free()
}

// timeoutDiagnosis says what a snapshot was waiting for when its time ran out.
func (w *Waiter) timeoutDiagnosis(e *entry) Diagnosis {
	switch d := e.state.Diagnosis; {
	case d == DiagnosisNeverPickedUp && w.driver(e.state.Driver).pickups > 0:
		return DiagnosisQueued
	case d == DiagnosisNone && !e.state.PickedUp && w.unread() != nil:
		return DiagnosisUnreadable
	case d == DiagnosisNone && !e.state.PickedUp: // never read
		return DiagnosisNeverPickedUp
	case d == DiagnosisNone && !e.state.Begun && w.driver(e.state.Driver).since.After(e.state.ProgressAt):
		return DiagnosisQueued
	case d == DiagnosisNone:
		return DiagnosisNoProgress
	default:
		return d
	}
}

// sorted is every entry in the order of the names, so that the same events come in the same order.
func (w *Waiter) sorted() []*entry {
	all := make([]*entry, 0, len(w.entries))
	for _, e := range w.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return a.state.Ref.Compare(b.state.Ref) })
	return all
}
