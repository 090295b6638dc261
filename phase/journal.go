package phase

import (
	"context"
	"slices"
	"sync"
)

// maxOpen bounds the journal. More open writes come only from an API that swallows every answer and still can be read.
const maxOpen = 16

// journal is what a process remembers of its writes, so that each is observed once. It is not needed for anything else: a
// new process starts with an empty one, and observes nothing that it did not write.
type journal[P ~string] struct {
	mu   sync.Mutex // protects the fields below
	told Change[P]  // the last observed change
	open []attempt[P]
}

// attempt is a write without an answer that may have been done, or may be done yet.
type attempt[P ~string] struct {
	old    State[P]
	change Change[P]
}

// first says whether c is to be observed now; it returns true once for a change.
func (j *journal[P]) first(c Change[P]) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open = slices.DeleteFunc(j.open, func(w attempt[P]) bool { return sameWrite(w.change, c) })
	if sameWrite(j.told, c) {
		return false
	}
	j.told = c
	return true
}

func (j *journal[P]) add(old State[P], c Change[P]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if sameWrite(j.told, c) || slices.ContainsFunc(j.open, func(w attempt[P]) bool { return sameWrite(w.change, c) }) {
		return
	}
	if len(j.open) == maxOpen {
		j.open = slices.Delete(j.open, 0, 1)
	}
	j.open = append(j.open, attempt[P]{old, c})
}

// take returns the attempt that made the object what it is, and forgets what can no longer be written: everything, if the
// state was left by another write since.
func (j *journal[P]) take(m *Machine[P], state State[P], left bool) (c Change[P], ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var kept []attempt[P]
	for _, w := range j.open {
		switch {
		case m.landed(state, w):
			c, ok = w.change, true // of several that look alike one was written
		case !left && untouched(state, w.old):
			kept = append(kept, w)
		}
	}
	j.open = kept
	return c, ok
}

// landed says whether the object is as the attempt leaves it, also after somebody moved it on to an external phase.
func (m *Machine[P]) landed(state State[P], w attempt[P]) bool {
	if w.change.Terminal && m.specs[state.Phase].External && !state.Completed.IsZero() {
		state.Phase = w.change.To
	}
	return done(state, w.old, w.change)
}

// sameWrite leaves out From: Load may write a recorded change from an earlier phase.
func sameWrite[P ~string](a, b Change[P]) bool {
	return a.UID == b.UID && a.To == b.To && a.Reason == b.Reason && a.Message == b.Message && a.At.Equal(b.At)
}

// bring writes c to the object and observes it. A write that may have been done without an answer, or behind a panic, is
// kept for the next Load.
func (a *Applier[P]) bring(ctx, bounded context.Context, from State[P], c Change[P]) (State[P], error) {
	open := true
	defer func() {
		if open {
			a.journal.add(from, c)
		}
	}()
	next, ours, err := a.write(bounded, from, c)
	open = err != nil && ours
	switch {
	case err != nil:
		return from, err
	case ours:
		a.settle(ctx, from, true)
		a.observe(ctx, c)
	default: // somebody else wrote it, or an earlier try of ours that came late
		a.settle(ctx, next, false)
	}
	return next, nil
}

// settle observes the attempt that led to this state, if there is one. Left says that the object is no longer in it.
func (a *Applier[P]) settle(ctx context.Context, state State[P], left bool) {
	if c, ok := a.journal.take(a.machine, state, left); ok {
		a.observe(ctx, c)
	}
}
