package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
)

// judge turns answers into edits.
func (s *step) judge(a answers) {
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
		s.schedule(*op, a.question)
		if a.cancel {
			s.stopped(op, t, a.cancelErr)
		}
		s.learn(op, t, a.results[id])
		if !op.Status.Phase.IsTerminal() && s.graceOver(*op) {
			s.abandon(op, t.lastErr)
		}
	}
}

// running returns the operation of that ID, nil when it does not run any more.
func (s *step) running(id string) *Operation {
	for i := range s.ops {
		if s.ops[i].ID == id && !s.ops[i].Status.Phase.IsTerminal() {
			return &s.ops[i]
		}
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
	s.note(*op, t.lastErr)
}

// learn takes over the answer to a question.
func (s *step) learn(op *Operation, t *opTrack, r ProgressResult) {
	now := s.p.opts.Clock()
	switch {
	case r.Err == nil:
		t.errs, t.firstErr = 0, time.Time{}
		switch r.Progress.State {
		case StateRunning, StateCompleted, StateFailed, StateCanceled:
		default:
			s.note(*op, fmt.Errorf("%w: state %q", ErrUnknownState, r.Progress.State))
		}
		s.edit(op, func(e *edit) { e.progress, e.at = &r.Progress, now })
		return
	case IsPermanent(r.Err):
		s.edit(op, func(e *edit) { e.end, e.detail = PhaseFailed, r.Err.Error() })
		return
	}
	s.note(*op, r.Err)
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
	s.edit(op, func(e *edit) { e.reason, e.requestedAt = reason, s.p.opts.Clock() })
	s.track.ops[op.ID].due = time.Now()
}

// abandon ends an operation that was asked to stop and did not confirm it.
func (s *step) abandon(op *Operation, lastErr error) {
	text := abandonedText(op.Status, s.p.opts.CancelGrace, lastErr)
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
	op.Status = e.apply(op.Status)
}

// commit makes the edits part of the record: stored at once when an operation ended or was asked to stop. Edits that
// cannot be committed are kept.
func (s *step) commit(ctx context.Context) error {
	if len(s.track.edits) == 0 || ctx.Err() != nil {
		return nil
	}
	ctx, cancel := s.storeContext(ctx)
	defer cancel()
	var changed []Operation
	var urgent bool
	rec, err := s.p.m.update(ctx, s.key, func(l *List) (bool, error) {
		changed, urgent = nil, false
		for _, ref := range l.ops {
			e := s.track.edits[ref.ID]
			if e == nil {
				continue
			}
			op := ref.clone()
			if op.Status = e.apply(op.Status).clone(); op.Status.Equal(ref.Status) {
				continue
			}
			asked := ref.Status.CancelRequested == nil && op.Status.CancelRequested != nil
			urgent = urgent || op.Status.Phase.IsTerminal() || asked
			changed = append(changed, op)
		}
		return urgent, l.Set(changed...)
	})
	if err != nil {
		return err
	}
	clear(s.track.edits)
	switch {
	case urgent:
		s.track.dirty, s.track.wrote = false, time.Now()
	case len(changed) > 0:
		s.track.dirty = true
	}
	s.see(rec)
	s.tell(ctx, changed)
	return nil
}

// flush stores progress that was only committed, when it is time or nothing runs any more.
func (s *step) flush(ctx context.Context) error {
	done := s.rec.Summary().Running == 0
	if !done && (!s.track.dirty || time.Since(s.track.wrote) < s.p.opts.WriteInterval) {
		return nil
	}
	ctx, cancel := s.storeContext(ctx)
	defer cancel()
	err := s.p.m.Upload(ctx, s.key)
	s.track.wrote = time.Now()
	switch {
	case err == nil:
		s.track.dirty = false
		return nil
	case done || isFinal(err):
		return err
	}
	s.notes = append(s.notes, Note{Err: err}) // progress can wait for the next interval
	return nil
}

// tell calls the hooks.
func (s *step) tell(ctx context.Context, changed []Operation) {
	log := logr.FromContextOrDiscard(ctx)
	for _, op := range changed {
		if op.Status.Phase.IsTerminal() {
			log.Info("operation ended", "operation", op.ID, "action", op.Action, "phase", op.Status.Phase)
		}
		if s.p.opts.Hooks.Changed == nil {
			continue
		}
		err := contain(func() error {
			s.p.opts.Hooks.Changed(ctx, s.key, op.clone())
			return nil
		})
		if err != nil {
			s.note(op, fmt.Errorf("hook Changed: %w", err))
		}
	}
}

var errStoreTimeout = errors.New("the store did not answer in time")

func (s *step) storeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.p.opts.StoreTimeout, errStoreTimeout)
}
