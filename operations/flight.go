package operations

import (
	"context"
	"errors"
)

// flight is one load of a cold key, shared by every Get that meets it.
type flight struct {
	done chan struct{} // closed at the end; the following is set before
	err  error
	// ownEnd says that err is due to the end of the leader's own context: the others try again.
	ownEnd bool
}

// lookUp returns the committed state of the key or, for a cold one, the flight to wait for. lead says that the caller
// has to fly it. Without either, the hooks of the key are being called, and the store has to be read beside them.
func (m *Map) lookUp(key Key) (st *state, f *flight, lead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	if e.state != nil {
		return e.state, nil, false
	}
	if e.telling {
		return nil, nil, false
	}
	if e.flight != nil {
		return nil, e.flight, false
	}
	e.flight = &flight{done: make(chan struct{})}
	e.users++ // until the flight has landed
	return nil, e.flight, true
}

// lead loads the key for everybody who waits for the flight.
func (m *Map) lead(ctx context.Context, key Key, f *flight) (Record, error) {
	f.ownEnd = true                          // unless the load says otherwise: a store or a hook may end the goroutine
	f.err = errors.New("the load was ended") // for nobody: the others try again
	defer m.land(key, f)
	st, err := m.fly(ctx, key)
	f.err, f.ownEnd = err, ctx.Err() != nil
	if err != nil {
		return Record{}, err
	}
	return st.record(key)
}

// fly loads the key in its turn.
func (m *Map) fly(ctx context.Context, key Key) (*state, error) {
	t, err := m.begin(ctx, key)
	if err != nil {
		return nil, err
	}
	defer t.end(ctx)
	return t.load(ctx)
}

// land lets those go on who wait for the flight.
func (m *Map) land(key Key, f *flight) {
	m.mu.Lock()
	e := m.entries[key]
	e.flight = nil
	m.release(key, e)
	m.mu.Unlock()
	close(f.done)
}

// entry returns the entry of the key, which is made if it is missing. The caller holds mu.
func (m *Map) entry(key Key) *entry {
	e, ok := m.entries[key]
	if !ok {
		e = &entry{turn: make(chan struct{}, 1)}
		m.entries[key] = e
	}
	return e
}

// release ends one use of the entry and drops it when it is cold and nobody needs it. The caller holds mu.
func (m *Map) release(key Key, e *entry) {
	if e.users--; e.users == 0 && e.state == nil {
		delete(m.entries, key)
	}
}
