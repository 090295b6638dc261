package operations

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"
)

// gather is how long an answer may wait for others to be committed with it.
const gather = 100 * time.Millisecond

// minErrors is how many errors in a row the error budget needs at least.
const minErrors = 3

// step is one Step. All of it belongs to the goroutine that called Step; the questions run in others, which it joins.
type step struct {
	p     *Poller
	key   Key
	track *keyTrack

	rec      Record
	ops      []Operation         // those that run, as committed with the edits applied
	at       map[string]int      // their places in ops
	children map[string][]string // of those that run, by parent
	agenda   agenda
	answers  chan answers
	flying   map[string]int // questions on their way, by action
	total    int            // of these
	until    time.Time      // no question is asked after that
	notes    []Note
}

func (s *step) run(ctx context.Context) (Result, error) {
	rec, err := s.get(ctx)
	if done, ok := errors.AsType[*CompletedError](err); ok {
		return Result{Done: true, Summary: done.Summary}, nil
	}
	if err != nil {
		return Result{}, err
	}
	s.answers, s.flying = make(chan answers), map[string]int{}
	defer s.join()
	s.see(rec)
	s.until = time.Now().Add(s.p.opts.CallTimeout).Add(s.p.opts.CallGrace) // two, as the sum can overflow
	if err = s.listen(ctx); err == nil {
		err = s.poll(ctx)
	}
	if err == nil && ctx.Err() == nil {
		err = s.settle(ctx)
	}
	if done, ok := errors.AsType[*CompletedError](err); ok {
		return Result{Done: true, Summary: done.Summary, Notes: s.notes}, nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("operations of %s: %w", s.key, context.Cause(ctx))
	}
	stalled := s.stalled()
	res := Result{Summary: s.rec.Summary(), Stalled: stalled, Notes: s.notes}
	res.Done = err == nil && res.Summary.Running == 0
	if !res.Done {
		res.RequeueAfter = s.next()
	}
	return res, err
}

// get returns the committed record, which a cold key has to read first.
func (s *step) get(ctx context.Context) (Record, error) {
	ctx, cancel := s.p.storeContext(ctx)
	defer cancel()
	return s.p.m.Get(ctx, s.key)
}

// listen reads the store when that was not done for long. It can wait when it does not work now.
func (s *step) listen(ctx context.Context) error {
	if len(s.ops) == 0 || time.Since(s.track.heard) < s.p.opts.ReadInterval {
		return nil
	}
	err := s.confirm(ctx)
	if err == nil || isFinal(err) || errors.Is(err, ErrCompleted) {
		return err
	}
	s.track.heard = time.Now()
	s.notes = append(s.notes, Note{Err: err})
	return nil
}

// settle stores what has to be, and lets the store have the last word on whether anything runs.
func (s *step) settle(ctx context.Context) error {
	if err := s.flush(ctx); err != nil || s.rec.Summary().Running > 0 {
		return err
	}
	return s.confirm(ctx)
}

// poll asks and commits until no question is on its way. It always joins what it started.
func (s *step) poll(ctx context.Context) error {
	var commitAt <-chan time.Time
	for {
		if ctx.Err() == nil {
			s.wake()
			s.ask(ctx)
		}
		if s.total == 0 {
			return s.commit(ctx)
		}
		again := time.NewTimer(s.untilDue(ctx))
		select {
		case a := <-s.answers:
			s.judge(ctx, a)
			if commitAt == nil && len(s.track.edits) > 0 {
				commitAt = time.NewTimer(gather).C
			}
		case <-commitAt:
			commitAt = nil
			if err := s.commit(ctx); err != nil { // it is tried once more at the end
				s.notes = append(s.notes, Note{Err: err})
			}
		case <-again.C:
		case <-s.track.bell:
		}
		again.Stop()
	}
}

// join waits for the questions that are on their way when something panicked, and drops the answers.
func (s *step) join() {
	if s.total == 0 {
		return
	}
	for ; s.total > 0; s.total-- {
		a := <-s.answers
		for _, id := range a.ids {
			if t := s.track.ops[id]; t != nil {
				t.call = a.abandoned
			}
		}
	}
	for _, t := range s.track.ops {
		t.waiting = false
	}
}

// see takes over a committed record.
func (s *step) see(rec Record) {
	s.rec, s.ops, s.agenda, s.children = rec, s.ops[:0], agenda{waiting: s.agenda.waiting[:0]}, nil
	if s.at == nil {
		s.at = make(map[string]int, len(rec.List.ops))
	}
	clear(s.at)
	now := s.p.now()
	for _, t := range s.track.ops {
		t.place = 0
	}
	for _, ref := range rec.List.ops {
		if ref.Status.Phase.IsTerminal() {
			continue
		}
		op := *ref // what it points to is never changed
		t, ok := s.track.ops[op.ID]
		if !ok {
			t = &opTrack{id: op.ID, seen: now, due: now.own, moved: now.own.Add(-op.idle(now))}
			s.track.ops[op.ID] = t
			if !op.Status.Phase.IsKnown() {
				s.note(&op, fmt.Errorf("%w: phase %q", ErrUnknownState, op.Status.Phase))
			}
		}
		t.sawRequest(op.Status.CancelRequested, now)
		if e := s.track.edits[op.ID]; e != nil {
			op.Status = e.apply(op.Status)
		}
		if op.Parent != "" {
			if s.children == nil {
				s.children = map[string][]string{}
			}
			s.children[op.Parent] = append(s.children[op.Parent], op.ID)
		}
		s.at[op.ID] = len(s.ops)
		s.ops = append(s.ops, op)
		if !t.waiting && !op.Status.Phase.IsTerminal() {
			t.at = s.dueAt(&op, now)
			s.agenda.waiting.Push(t)
		}
	}
	heap.Init(&s.agenda.waiting)
	for id := range s.track.ops {
		if _, ok := s.at[id]; !ok {
			delete(s.track.ops, id)
			delete(s.track.edits, id)
		}
	}
	s.inherit()
}

// wake makes due what Wake was called for.
func (s *step) wake() {
	woken := s.p.takeWoken(s.track)
	if _, all := woken[""]; all {
		for i := range s.ops {
			s.makeDue(&s.ops[i])
		}
		return
	}
	for id := range woken {
		if op := s.running(id); op != nil {
			s.makeDue(op)
		}
	}
}

// makeDue lets the operation be asked about now.
func (s *step) makeDue(op *Operation) {
	now := s.p.now()
	s.track.ops[op.ID].due = now.own
	s.plan(op, now)
}

func (s *step) note(op *Operation, err error) {
	s.notes = append(s.notes, Note{OperationID: op.ID, Action: op.Action, Err: err})
}
