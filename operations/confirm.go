package operations

import (
	"context"
	"fmt"
)

// confirm makes sure that what the map says is what the store holds, see [turn.confirm], and returns it. A key that the
// map does not know is loaded, a completed one stays so.
func (m *Map) confirm(ctx context.Context, key Key) (Record, error) {
	t, err := m.begin(ctx, key)
	if err != nil {
		return Record{}, err
	}
	defer t.end(ctx)
	switch {
	case t.state == nil:
		_, err = t.load(ctx)
	case !t.state.completed:
		_, err = t.confirm(ctx)
	}
	if err != nil {
		return Record{}, err
	}
	return t.state.record(key)
}

// confirm reads the store. What another writer wrote there is taken over, and what was put and is not stored yet stays
// on top of it where it does not contradict. A document that is not there any more is a conflict: operations of which
// nothing is written down are not operations that have ended.
func (t *turn) confirm(ctx context.Context) (*state, error) {
	found, err := t.m.read(ctx, t.key)
	if err != nil {
		return nil, fmt.Errorf("confirm operations of %s: %w", t.key, err)
	}
	st := t.state
	switch {
	case t.recognize(found):
	case !found.exists:
		return nil, &ConflictError{Key: t.key, Reason: "the document is not in the store any more"}
	default:
		if st.dirty() {
			found.list = rebase(st.stored, st.list, found.list)
		}
		t.commit(found)
	}
	return t.state, nil
}
