package operations

import (
	"time"
)

// instant is one moment by two clocks: the one of the options, which is comparable with what is stored and may jump,
// and the process's own, which only ever goes on. The zero instant is none.
type instant struct{ clock, own time.Time }

func (p *Poller) now() instant { return instant{clock: p.opts.Clock(), own: time.Now()} }

// since returns how long ago start was, which happened at from by the options' clock and was noticed at seen. A time
// that had not come yet when it was noticed, of another clock, is not believed. A clock that jumps back makes nothing
// younger than it is by the process's own; one that goes on while the process sleeps is believed.
func (now instant) since(from time.Time, seen instant) time.Duration {
	if from.After(seen.clock) {
		from = seen.clock
	}
	return max(seen.clock.Sub(from)+now.own.Sub(seen.own), now.clock.Sub(from), 0)
}

// guarded returns a clock that never says a time which a record cannot keep: the system's stands in for it.
func guarded(clock func() time.Time) func() time.Time {
	return func() time.Time {
		now := clock()
		if year := now.UTC().Year(); year < 0 || year > maxYear || inDocument(now).IsZero() {
			return time.Now()
		}
		return now
	}
}

// age returns how old the operation is.
func (s *step) age(op *Operation, now instant) time.Duration {
	seen := s.track.ops[op.ID].seen
	from := seen.clock
	if at := op.Status.Created; at != nil {
		from = *at
	}
	return now.since(from, seen)
}

// asked returns how long ago the operation was asked to stop, if it was. The record keeps whole seconds: a request of
// this very second counts from when it was seen.
func (s *step) asked(op *Operation, now instant) (ago time.Duration, ok bool) {
	if op.Status.CancelRequested == nil {
		return 0, false
	}
	from, seen := *op.Status.CancelRequested, s.track.ops[op.ID].asked
	if seen.clock.Before(from.Add(time.Second)) {
		from = seen.clock
	}
	return now.since(from, seen), true
}

// graceOver reports whether the operation was asked to stop so long ago that nobody waits for it any more.
func (s *step) graceOver(op *Operation) bool {
	ago, ok := s.asked(op, s.p.now())
	return ok && ago >= s.p.opts.CancelGrace
}
