package operations

import (
	"context"
	"fmt"
	"time"
)

// judge turns answers into edits.
func (s *step) judge(ctx context.Context, a answers) {
	s.called(ctx, a.calls)
	s.flying[a.name]--
	s.total--
	for _, id := range a.ids {
		t := s.track.ops[id]
		if t == nil { // it was taken out of the list while it was asked about
			continue
		}
		t.waiting, t.call = false, a.abandoned
		op := s.running(id)
		if op == nil { // somebody else ended it
			continue
		}
		s.schedule(op, a.question)
		if a.cancel {
			s.stopped(op, t, a.cancelErr)
		}
		s.learn(op, t, a.results[id])
		if !op.Status.Phase.IsTerminal() && s.graceOver(op) {
			s.abandon(op, t.lastErr, t.odd)
		}
		if op = s.running(id); op != nil && !a.cancel && s.mustStop(op) { // it was asked to stop meanwhile
			s.makeDue(op)
		}
	}
}

// running returns the operation of that ID, nil when it does not run any more.
func (s *step) running(id string) *Operation {
	if i, ok := s.at[id]; ok && !s.ops[i].Status.Phase.IsTerminal() {
		return &s.ops[i]
	}
	return nil
}

// stopped takes over the answer to a request to stop.
func (s *step) stopped(op *Operation, t *opTrack, err error) {
	if err == nil {
		t.stopSent, t.lastErr = true, nil
		return
	}
	t.lastErr = fmt.Errorf("cancel: %w", err)
	s.note(op, t.lastErr)
}

// learn takes over the answer to a question.
func (s *step) learn(op *Operation, t *opTrack, r ProgressResult) {
	now := s.p.opts.Clock()
	switch {
	case r.Err == nil:
		t.errs, t.firstErr, t.odd = 0, time.Time{}, nil
		switch r.Progress.State {
		case StateRunning, StateCompleted, StateFailed, StateCanceled:
		default:
			t.odd = fmt.Errorf("%w: state %q", ErrUnknownState, r.Progress.State)
			s.note(op, t.odd)
		}
		p, err := r.Progress.storable()
		if err != nil {
			s.note(op, err)
		}
		old := op.Status
		s.edit(op, func(e *edit) { e.progress, e.at = &p, now })
		if !op.Status.Equal(old) {
			t.progressed(time.Now())
		}
		return
	case IsPermanent(r.Err):
		s.edit(op, func(e *edit) { e.end, e.detail = PhaseFailed, r.Err.Error() })
		return
	}
	s.note(op, r.Err)
	if t.errs == 0 {
		t.firstErr = time.Now()
	}
	t.errs++
	t.lastErr = r.Err
	if t.errs >= minErrors && time.Since(t.firstErr) >= s.p.opts.ErrorBudget {
		s.stop(op, fmt.Sprintf("it gave no good answer for %v; last error: %v", s.p.opts.ErrorBudget, r.Err))
	}
}

// stop marks the operation as one that was asked to stop, and makes it due.
func (s *step) stop(op *Operation, reason string) {
	if op.Status.CancelRequested != nil {
		return
	}
	now := s.p.now()
	s.track.ops[op.ID].asked = now
	s.edit(op, func(e *edit) { e.reason, e.requestedAt = reason, now.clock })
	s.makeDue(op)
}

// abandon ends an operation that was asked to stop and did not confirm it.
func (s *step) abandon(op *Operation, causes ...error) {
	text := abandonedText(op.Status, s.p.opts.CancelGrace, causes...)
	s.edit(op, func(e *edit) { e.end, e.detail = PhaseAbandoned, text })
}

// edit notes a change, to be committed later, and lets the rest of the step see it.
func (s *step) edit(op *Operation, change func(*edit)) {
	e := s.track.edits[op.ID]
	if e == nil {
		e = &edit{}
		s.track.edits[op.ID] = e
	}
	change(e)
	if op.Status = e.apply(op.Status); op.Status.Phase.IsTerminal() {
		s.cascade(op)
	}
}
