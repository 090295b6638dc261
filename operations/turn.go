package operations

import (
	"context"
	"errors"
	"fmt"
)

// turn is the right to change one key. It is held by one call at a time and carries the state as that call found it.
type turn struct {
	m     *Map
	key   Key
	entry *entry
	epoch uint64
	state *state // nil: cold
}

// begin waits for the key's turn. The caller must call end.
func (m *Map) begin(ctx context.Context, key Key) (*turn, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	e := m.entry(key)
	e.users++
	m.mu.Unlock()
	if err := takeTurn(ctx, e.turn); err != nil {
		m.mu.Lock()
		m.release(key, e)
		m.mu.Unlock()
		return nil, fmt.Errorf("operations of %s: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return &turn{m: m, key: key, entry: e, epoch: e.epoch, state: e.state}, nil
}

// end gives the turn back.
func (t *turn) end() {
	<-t.entry.turn
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.m.release(t.key, t.entry)
}

// commit makes st what every later call sees, unless the key was evicted since the turn began.
func (t *turn) commit(st *state) {
	t.state = st
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.entry.epoch == t.epoch {
		t.entry.state = st
	}
}

// load returns the committed state, which it reads from the store when the key is cold.
func (t *turn) load(ctx context.Context) (*state, error) {
	if t.state != nil {
		return t.state, nil
	}
	st, err := t.m.read(ctx, t.key)
	if err != nil {
		return nil, fmt.Errorf("load operations of %s: %w", t.key, err)
	}
	t.commit(st)
	return st, nil
}

// open loads the key, settles a write of unknown outcome and refuses a completed key: what every change begins with.
func (t *turn) open(ctx context.Context) (*state, error) {
	st, err := t.load(ctx)
	if err != nil {
		return nil, err
	}
	if st.completed {
		return nil, &CompletedError{Key: t.key, Summary: st.summary}
	}
	return t.settle(ctx)
}

// settle reads the store after a write that got no answer: our document there was the answer, the old one means that
// nothing was written, another is a conflict, which stays until the key is loaded.
func (t *turn) settle(ctx context.Context) (*state, error) {
	st := t.state
	if st.pending == nil {
		return st, nil
	}
	found, err := t.m.read(ctx, t.key)
	if err != nil {
		return nil, fmt.Errorf("settle the last write of operations of %s: %w", t.key, err)
	}
	switch next := *st; {
	case found.exists && found.list.Equal(*st.pending):
		t.written(*st.pending, found.version)
	case found.version == st.version || found.exists && st.version != "" && found.list.Equal(st.stored):
		next.version, next.pending = found.version, nil
		t.commit(&next)
	default:
		return nil, &ConflictError{Key: t.key, Reason: "the store holds what another writer wrote"}
	}
	return t.state, nil
}

// write stores the list and commits it. When the store fails, the committed list stays as it is.
func (t *turn) write(ctx context.Context, list List) error {
	st := t.state
	data, err := t.m.form.encode(t.key, list, t.m.opts.MaxBytes)
	if err != nil {
		return fmt.Errorf("operations of %s: %w", t.key, err)
	}
	version, err := write(ctx, t.m.store, t.m.form.FileName(t.key.Name), data, st.version)
	switch {
	case err == nil:
		t.written(list, version)
		return nil
	case errors.Is(err, ErrConflict):
		return t.conflict(ctx, list, err)
	}
	// Even an error that claims that nothing was written is not trusted: the next call reads first.
	next := *st
	next.pending = &list
	t.commit(&next)
	return fmt.Errorf("operations of %s: %w", t.key, err)
}

// written commits what the store is known to hold. A list that was committed before keeps its revision.
func (t *turn) written(list List, version string) {
	next := state{rev: t.state.rev, list: list, exists: true, stored: list, version: version}
	if !t.state.exists || !t.state.list.Equal(list) {
		next.rev = new(revision)
	}
	t.commit(&next)
}

// conflict finds out whether the document in the way of a write is that write itself, sent twice on the way.
func (t *turn) conflict(ctx context.Context, list List, cause error) error {
	found, err := t.m.read(ctx, t.key)
	switch {
	case err != nil:
		return &ConflictError{Key: t.key, Reason: "the store holds what another writer wrote", Err: errors.Join(cause, err)}
	case found.exists && found.list.Equal(list):
		t.written(list, found.version)
		return nil
	}
	return &ConflictError{Key: t.key, Reason: "the store holds what another writer wrote", Err: cause}
}

// read returns what the store holds for the key as a state of its own.
func (m *Map) read(ctx context.Context, key Key) (*state, error) {
	data, version, err := read(ctx, m.store, m.form.FileName(key.Name))
	if errors.Is(err, ErrNotFound) {
		return &state{rev: new(revision)}, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := m.form.decode(key, data, m.opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	return &state{rev: new(revision), list: list, exists: true, stored: list, version: version}, nil
}
