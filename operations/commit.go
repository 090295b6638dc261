package operations

import (
	"context"
	"errors"
	"time"
)

// commit makes the edits part of the record: stored at once when an operation ended or was asked to stop. Edits that
// cannot be committed are kept.
func (s *step) commit(ctx context.Context) error {
	if len(s.track.edits) > 0 && ctx.Err() == nil {
		return s.pastOthers(ctx, s.tryCommit)
	}
	return nil
}

func (s *step) tryCommit(ctx context.Context) error {
	var changed, told []Operation
	var urgent bool
	rec, err := s.p.m.update(ctx, s.key, func(l *List) (bool, error) {
		changed, told, urgent = nil, nil, false
		for _, ref := range l.ops {
			e := s.track.edits[ref.ID]
			if e == nil {
				continue
			}
			op := ref.clone()
			op.Status = e.apply(op.Status).clone()
			if s.isNews(op) { // also when an earlier write was done and its answer lost
				told = append(told, op)
			}
			if op.Status.Equal(ref.Status) {
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
		s.track.dirty, s.track.wrote, s.track.heard = false, time.Now(), time.Now()
	case len(changed) > 0:
		s.track.dirty = true
	}
	s.see(rec)
	s.tell(ctx, told)
	return nil
}

// isNews reports whether the step has seen the operation with another status, or not at all.
func (s *step) isNews(op Operation) bool {
	old, ok := s.rec.List.Get(op.ID)
	return !ok || !old.Status.Equal(op.Status)
}

// flush stores progress that was only committed, when it is time or nothing runs any more.
func (s *step) flush(ctx context.Context) error {
	done := s.rec.Summary().Running == 0
	if !done && (!s.track.dirty || time.Since(s.track.wrote) < s.p.opts.WriteInterval) {
		return nil
	}
	err := s.pastOthers(ctx, func(ctx context.Context) error { return s.p.m.Upload(ctx, s.key) })
	s.track.wrote = time.Now()
	switch {
	case err == nil:
		if s.track.dirty {
			s.track.heard = s.track.wrote
		}
		s.track.dirty = false
		return nil
	case done || isFinal(err):
		return err
	}
	s.notes = append(s.notes, Note{Err: err}) // progress can wait for the next interval
	return nil
}

// pastOthers calls a change of the record. When it meets what another process stored, that is taken over, and the
// change is tried once more; it must be one that leaves alone what ended there.
func (s *step) pastOthers(ctx context.Context, change func(context.Context) error) error {
	ctx, cancel := s.p.storeContext(ctx)
	defer cancel()
	err := change(ctx)
	if !errors.Is(err, ErrConflict) {
		return err
	}
	if err := s.takeOver(ctx); err != nil {
		return err
	}
	return change(ctx)
}

// confirm makes sure that the record is what the store holds.
func (s *step) confirm(ctx context.Context) error {
	ctx, cancel := s.p.storeContext(ctx)
	defer cancel()
	return s.takeOver(ctx)
}

// takeOver reads the store and lets the step see what is there. A request to stop that it did not know is passed on at
// once.
func (s *step) takeOver(ctx context.Context) error {
	before := s.rec.List
	rec, err := s.p.m.confirm(ctx, s.key)
	if err != nil {
		return err
	}
	s.track.heard = time.Now()
	var told []Operation
	for _, ref := range rec.List.ops {
		if s.isNews(*ref) {
			told = append(told, ref.clone())
			if t := s.track.ops[ref.ID]; t != nil {
				t.progressed(s.track.heard)
			}
		}
	}
	s.see(rec)
	s.tell(ctx, told)
	for i := range s.ops {
		op := &s.ops[i]
		if old, known := before.Get(op.ID); op.Status.CancelRequested != nil && (!known || old.Status.CancelRequested == nil) {
			s.makeDue(op)
		}
	}
	return nil
}

var errStoreTimeout = errors.New("the store did not answer in time")

func (p *Poller) storeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.opts.StoreTimeout, errStoreTimeout)
}
