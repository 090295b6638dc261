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

// born returns when the operation's age begins.
func (s *step) born(op Operation) time.Time {
	if op.Status.Created != nil {
		return *op.Status.Created
	}
	return s.track.ops[op.ID].seen
}

// graceOver reports whether the operation was asked to stop so long ago that nobody waits for it any more.
func (s *step) graceOver(op Operation) bool {
	at := op.Status.CancelRequested
	return at != nil && !s.p.opts.Clock().Before(at.Add(s.p.opts.CancelGrace))
}

// schedule sets when to ask next.
func (s *step) schedule(op Operation, q question) {
	d := s.p.opts.interval(s.p.opts.Clock().Sub(s.born(op)))
	if s.p.opts.Jitter > 0 && q.many == nil {
		d += time.Duration(rand.Float64() * s.p.opts.Jitter * float64(d))
	}
	s.track.ops[op.ID].due = time.Now().Add(d)
}

// dueAt returns when the operation needs attention: its next question, or the end of a time it was given.
func (s *step) dueAt(op Operation) time.Time {
	end := s.born(op).Add(s.p.opts.Deadline)
	if at := op.Status.CancelRequested; at != nil {
		end = at.Add(s.p.opts.CancelGrace)
	}
	due := s.track.ops[op.ID].due
	if byEnd := time.Now().Add(end.Sub(s.p.opts.Clock())); byEnd.Before(due) {
		return byEnd
	}
	return due
}

// untilDue returns the time to the next question that may be asked.
func (s *step) untilDue() time.Duration {
	d := time.Until(s.until)
	for _, op := range s.ops {
		if t := s.track.ops[op.ID]; t.waiting || op.Status.Phase.IsTerminal() || s.flying[op.Action] >= s.limit(op.Action) {
			continue
		}
		d = min(d, time.Until(s.dueAt(op)))
	}
	if d <= 0 { // after the last question only answers matter
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
