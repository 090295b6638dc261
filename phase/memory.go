package phase

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// Memory is an [Object] in memory, for tests and for work that need not survive the process. Make one with [NewMemory].
// It is safe for concurrent use.
type Memory[P ~string] struct {
	mu      sync.Mutex // protects the fields below
	state   State[P]
	version int
	changes []Change[P]
}

// NewMemory returns an object in the given state. An empty UID becomes "memory"; Version is set by the object.
func NewMemory[P ~string](state State[P]) *Memory[P] {
	if state.UID == "" {
		state.UID = "memory"
	}
	state.Version = "1"
	return &Memory[P]{state: state, version: 1}
}

// Get returns the state. It fails only if ctx has ended.
func (o *Memory[P]) Get(ctx context.Context) (State[P], error) {
	if err := ctx.Err(); err != nil {
		return State[P]{}, fmt.Errorf("get phase: %w", context.Cause(ctx))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state, nil
}

// Update is the compare-and-swap of [Object]. An object whose phase is empty is compared by its version alone.
func (o *Memory[P]) Update(ctx context.Context, old State[P], c Change[P]) (State[P], error) {
	if err := ctx.Err(); err != nil {
		return State[P]{}, fmt.Errorf("update phase: %w", context.Cause(ctx))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	sameVersion := old.Version == o.state.Version
	samePhase := old.Phase == o.state.Phase || o.state.Phase == ""
	if old.UID != "" && old.UID != o.state.UID {
		return State[P]{}, fmt.Errorf("%w: object has uid %q, not %q", ErrConflict, o.state.UID, old.UID)
	}
	if !samePhase || !sameVersion && old.Version != "" {
		return State[P]{}, fmt.Errorf("%w: object is in phase %q at version %s, not %q at %s",
			ErrConflict, o.state.Phase, o.state.Version, old.Phase, old.Version)
	}
	next := c.Result(o.state)
	o.version++
	next.Version = strconv.Itoa(o.version)
	o.state = next
	o.changes = append(o.changes, c)
	return next, nil
}

// Changes returns every change that was written, in order. The slice is the caller's.
func (o *Memory[P]) Changes() []Change[P] {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.changes)
}
