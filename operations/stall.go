package operations

import (
	"errors"
	"fmt"
	"time"
)

// ErrStalled says that an operation runs and has shown no progress for the stall window. It is a report and no end: the
// operation is asked about as before, and its deadline counts.
var ErrStalled = errors.New("no progress")

// idle returns how long ago the record says that the operation moved last, as seen now for the first time.
func (op *Operation) idle(now instant) time.Duration {
	var last time.Time
	for _, at := range [...]*time.Time{op.Status.Created, op.Status.Started, op.Status.Updated} {
		if at != nil && at.After(last) {
			last = *at
		}
	}
	if last.IsZero() {
		return 0
	}
	return now.since(last, now)
}

// progressed notes that the operation has shown progress.
func (t *opTrack) progressed(at time.Time) { t.moved, t.stalled = at, false }

// stalled returns the operations that have shown no progress for long, and reports each once until it moves again. An
// operation that was asked to stop has its grace time instead.
func (s *step) stalled() []string {
	var ids []string
	now := time.Now()
	for i := range s.ops {
		op := &s.ops[i]
		t := s.track.ops[op.ID]
		if op.Status.Phase.IsTerminal() || op.Status.CancelRequested != nil || now.Sub(t.moved) < s.p.opts.StallWindow {
			continue
		}
		ids = append(ids, op.ID)
		if !t.stalled {
			t.stalled = true
			s.note(op, fmt.Errorf("%w for %v, in phase %q", ErrStalled, now.Sub(t.moved).Truncate(time.Second), op.Status.Phase))
		}
	}
	return ids
}
