package operations

import (
	"context"
	"math/rand/v2"
	"time"
)

// limit returns how many questions of the action may be on their way.
func (s *step) limit(action string) int {
	if n, ok := s.p.opts.ActionConcurrency[action]; ok {
		return n
	}
	return s.p.opts.Concurrency
}

// schedule sets when to ask next.
func (s *step) schedule(op *Operation, q question) {
	now := s.p.now()
	d := s.p.opts.interval(s.age(op, now))
	if s.p.opts.Jitter > 0 && q.many == nil {
		d += time.Duration(rand.Float64() * s.p.opts.Jitter * float64(d))
	}
	s.track.ops[op.ID].due = now.own.Add(d)
	s.plan(op, now)
}

// dueAt returns when the operation needs attention: its next question, or the end of a time it was given.
func (s *step) dueAt(op *Operation, now instant) time.Time {
	left := s.p.opts.Deadline - s.age(op, now)
	if ago, ok := s.asked(op, now); ok {
		left = s.p.opts.CancelGrace - ago
	}
	due := s.track.ops[op.ID].due
	if end := now.own.Add(left); end.Before(due) {
		return end
	}
	return due
}

// untilDue returns the time to the next question that may become due; after the last one, and when ctx has ended, only
// answers matter.
func (s *step) untilDue(ctx context.Context) time.Duration {
	d := time.Until(s.until)
	if d <= 0 || ctx.Err() != nil {
		return s.p.opts.CallTimeout
	}
	if at, ok := s.agenda.first(); ok {
		d = min(d, time.Until(at))
	}
	return d
}

// next returns when the next Step has something to do.
func (s *step) next() time.Duration {
	now := s.p.now()
	var at time.Time
	earliest := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for i := range s.ops {
		op := &s.ops[i]
		if op.Status.Phase.IsTerminal() {
			continue
		}
		earliest(s.dueAt(op, now))
		if t := s.track.ops[op.ID]; !t.stalled && op.Status.CancelRequested == nil {
			earliest(t.moved.Add(s.p.opts.StallWindow))
		}
	}
	if s.track.dirty {
		earliest(s.track.wrote.Add(s.p.opts.WriteInterval))
	}
	if at.IsZero() { // only a write that failed is left
		return s.p.opts.Slow
	}
	return max(at.Sub(now.own), time.Millisecond)
}
