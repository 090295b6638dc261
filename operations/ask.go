package operations

import (
	"context"
	"fmt"
	"time"
)

// ask sends every question that is due and that its action has room for, the longest due first.
func (s *step) ask(ctx context.Context) {
	now := time.Now()
	if now.After(s.until) {
		return
	}
	for {
		id, ok := s.agenda.due(now)
		if !ok {
			break
		}
		if op := s.running(id); op != nil && s.prepare(op) {
			s.agenda.ready(op.Action, id)
		}
	}
	for _, action := range s.agenda.actions() {
		for s.flying[action] < s.limit(action) {
			id, ok := s.agenda.next(action)
			if !ok {
				break
			}
			if op := s.running(id); op != nil && s.prepare(op) { // it may have waited long, or been lined up twice
				s.send(ctx, s.question(op))
			}
		}
	}
}

// prepare does what needs no question, and reports whether one may be asked.
func (s *step) prepare(op *Operation) bool {
	t, now := s.track.ops[op.ID], s.p.now()
	if op.Status.Phase.IsTerminal() || t.waiting {
		return false
	}
	if _, ok := s.p.actions[op.Action]; !ok {
		s.edit(op, func(e *edit) {
			e.end, e.detail = PhaseFailed, fmt.Sprintf("no action named %q is registered", op.Action)
		})
		return false
	}
	if limit := s.p.opts.Deadline; op.Status.CancelRequested == nil && s.age(op, now) >= limit {
		s.stop(op, fmt.Sprintf("it did not end within %v", limit))
	}
	if !t.call.runs() {
		t.call = nil
		return true
	}
	if s.graceOver(op) {
		s.abandon(op, ErrAbandonedCallback)
		return false
	}
	if !t.due.After(now.own) {
		s.note(op, ErrAbandonedCallback)
		t.due = now.own.Add(s.p.opts.Slow)
	}
	s.plan(op, now)
	return false
}

// question returns what to ask about the operation; for a ManyAction about all of its operations that can be asked.
func (s *step) question(op *Operation) question {
	action := s.p.actions[op.Action]
	q := question{name: op.Action, action: action, ids: []string{op.ID}}
	if q.cancel = s.mustStop(op); q.cancel {
		return q
	}
	many, ok := action.(ManyAction)
	if !ok {
		return q
	}
	q.many, q.ids = many, nil
	for i := range s.ops {
		other := &s.ops[i]
		if other.Action == op.Action && !s.mustStop(other) && s.prepare(other) {
			q.ids = append(q.ids, other.ID)
		}
	}
	return q
}

// mustStop reports whether the operation has to be told that it shall stop.
func (s *step) mustStop(op *Operation) bool {
	return op.Status.CancelRequested != nil && !s.track.ops[op.ID].stopSent
}

// send asks in a goroutine of its own.
func (s *step) send(ctx context.Context, q question) {
	for _, id := range q.ids {
		s.track.ops[id].waiting = true
	}
	s.flying[q.name]++
	s.total++
	go func() { s.answers <- q.ask(ctx, limits{s.p.opts.CallTimeout, s.p.opts.CallGrace}) }()
}
