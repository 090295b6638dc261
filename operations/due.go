package operations

import (
	"math/rand/v2"
	"slices"
	"time"
)

// limit returns how many questions of the action may be on their way.
func (s *step) limit(action string) int {
	if n, ok := s.p.opts.ActionConcurrency[action]; ok {
		return n
	}
	return s.p.opts.Concurrency
}

// born returns when the operation's age begins. A time that had not come yet when the operation was first seen, of
// another clock, is not believed.
func (s *step) born(op Operation) time.Time {
	seen := s.track.ops[op.ID].seen
	if at := op.Status.Created; at != nil && at.Before(seen) {
		return *at
	}
	return seen
}

// askedAt returns when the operation was asked to stop, nil when it was not. The record keeps whole seconds: a request
// of this very second, or of the future, counts from when it was seen.
func (s *step) askedAt(op Operation) *time.Time {
	at, seen := op.Status.CancelRequested, s.track.ops[op.ID].asked
	if at != nil && seen.Before(at.Add(time.Second)) {
		return &seen
	}
	return at
}

// graceOver reports whether the operation was asked to stop so long ago that nobody waits for it any more.
func (s *step) graceOver(op Operation) bool {
	at := s.askedAt(op)
	return at != nil && !s.p.opts.Clock().Before(at.Add(s.p.opts.CancelGrace))
}

// schedule sets when to ask next.
func (s *step) schedule(op Operation, q question) {
	d := s.p.opts.interval(s.p.opts.Clock().Sub(s.born(op)))
	if s.p.opts.Jitter > 0 && q.many == nil {
		d += time.Duration(rand.Float64() * s.p.opts.Jitter * float64(d))
	}
	s.track.ops[op.ID].due = time.Now().Add(d)
	s.plan(op)
}

// dueAt returns when the operation needs attention: its next question, or the end of a time it was given.
func (s *step) dueAt(op Operation) time.Time {
	end := s.born(op).Add(s.p.opts.Deadline)
	if at := s.askedAt(op); at != nil {
		end = at.Add(s.p.opts.CancelGrace)
	}
	due := s.track.ops[op.ID].due
	if byEnd := time.Now().Add(end.Sub(s.p.opts.Clock())); byEnd.Before(due) {
		return byEnd
	}
	return due
}

// untilDue returns the time to the next question that may become due; after the last one only answers matter.
func (s *step) untilDue() time.Duration {
	d := time.Until(s.until)
	if at, ok := s.agenda.first(s.track.ops); ok {
		d = min(d, time.Until(at))
	}
	if time.Until(s.until) <= 0 {
		d = s.p.opts.CallTimeout
	}
	return d
}

// next returns when the next Step has something to do.
func (s *step) next() time.Duration {
	var waits []time.Duration
	for _, op := range s.ops {
		if !op.Status.Phase.IsTerminal() {
			waits = append(waits, time.Until(s.dueAt(op)))
		}
	}
	if s.track.dirty {
		waits = append(waits, time.Until(s.track.wrote.Add(s.p.opts.WriteInterval)))
	}
	if len(waits) == 0 { // only a write that failed is left
		return s.p.opts.Slow
	}
	return max(slices.Min(waits), time.Millisecond)
}
