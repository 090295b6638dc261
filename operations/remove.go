package operations

import (
	"context"
	"errors"
	"fmt"
)

// Remove removes the record of a key from the store: for an owner that has ended and whose records are kept no longer. It
// reads the store first and refuses to remove operations that run, which is a [RunningError], and changes that were only
// put, which is a [ConflictError]. Whether the owner itself has ended, and for how long, is the caller's to know. A record
// that does not exist is removed. Afterwards the key is completed, so that an old copy cannot bring it back, until it is
// evicted.
//
// The store must be a [Remover]; otherwise the error is [errors.ErrUnsupported]. Of a [WriteOnceStore] the working copy
// goes and the finished document stays.
func (m *Map) Remove(ctx context.Context, key Key) error {
	t, err := m.begin(ctx, key)
	if err != nil {
		return err
	}
	defer t.end(ctx)
	found, err := m.read(ctx, key)
	if err != nil {
		return fmt.Errorf("remove operations of %s: %w", key, err)
	}
	sum := found.list.Summary()
	switch st := t.state; {
	case sum.Running > 0:
		return &RunningError{Key: key, Summary: sum}
	case st != nil && !st.completed && st.dirty():
		return &ConflictError{Key: key, Reason: "it has changes that are not stored"}
	}
	if found.exists {
		err := remove(ctx, m.store, m.form.FileName(key.Name), found.version)
		switch {
		case errors.Is(err, ErrConflict):
			return t.conflict(err)
		case err != nil && !errors.Is(err, ErrNotFound):
			return fmt.Errorf("remove operations of %s: %w", key, err)
		}
	}
	if t.state != nil && t.state.completed {
		return nil
	}
	t.commit(&state{rev: new(revision), exists: true, completed: true, summary: sum})
	return nil
}
