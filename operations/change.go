package operations

import (
	"context"
	"errors"
	"fmt"
)

// Load reads the record from the store and makes it what the map knows, in place of anything else: changes that were
// only put, a conflict, a completion.
func (m *Map) Load(ctx context.Context, key Key) (Record, error) {
	t, err := m.begin(ctx, key)
	if err != nil {
		return Record{}, err
	}
	defer t.end(ctx)
	st, err := m.read(ctx, key)
	if err != nil {
		return Record{}, fmt.Errorf("load operations of %s: %w", key, err)
	}
	t.commit(st)
	return st.record(key)
}

// Put commits the record in memory; [Map.Upload], or any later change that writes, stores it. It returns the record
// with its new version. A record that was overtaken since it was read is a [ConflictError], one without version is too
// unless there is nothing yet, and for a completed key it is a [CompletedError]. An operation that had ended and would
// not have is [ErrTerminal]. Only a key the map does not know, or whose last write got no answer, is read first.
func (m *Map) Put(ctx context.Context, rec Record) (Record, error) {
	return m.replace(ctx, rec, false)
}

// UploadProgressAndPut stores the record and commits it in one step: when the store fails, the map stays as it was and
// the error is returned. It writes any content that the store does not hold, and nothing otherwise. What [Map.Put]
// refuses, it refuses before it writes.
func (m *Map) UploadProgressAndPut(ctx context.Context, rec Record) (Record, error) {
	return m.replace(ctx, rec, true)
}

func (m *Map) replace(ctx context.Context, rec Record, durable bool) (Record, error) {
	t, err := m.begin(ctx, rec.Key)
	if err != nil {
		return Record{}, err
	}
	defer t.end(ctx)
	if t.state == nil && rec.base != nil {
		return Record{}, &ConflictError{Key: rec.Key, Reason: "the record was read before the key was evicted"}
	}
	before := t.state
	st, err := t.open(ctx)
	if err != nil {
		return Record{}, err
	}
	late := before != nil && before.pending != nil && before.rev == rec.base && st.list.Equal(rec.List) // it was written
	if !late {
		if err := st.accepts(rec); err != nil {
			return Record{}, err
		}
	}
	if err := t.put(ctx, rec.List, durable); err != nil {
		return Record{}, err
	}
	return t.state.record(rec.Key)
}

// accepts returns a conflict unless the record was read from this state.
func (st *state) accepts(rec Record) error {
	switch {
	case rec.base == st.rev, rec.base == nil && !st.exists:
		return nil
	case rec.base == nil:
		return &ConflictError{Key: rec.Key, Reason: "there is a record already"}
	}
	return &ConflictError{Key: rec.Key, Reason: "the record has changed since it was read"}
}

// put commits the list, in the store first when it must be durable.
func (t *turn) put(ctx context.Context, list List, durable bool) error {
	st := t.state
	if err := st.list.mayReplace(&list); err != nil {
		return fmt.Errorf("operations of %s: %w", t.key, err)
	}
	next := *st
	if !st.exists || !st.list.Equal(list) {
		next.rev, next.list, next.exists = new(revision), list, true
	}
	if durable && next.dirty() {
		return t.write(ctx, list)
	}
	t.commit(&next)
	return nil
}

// Update reads, changes and stores the record in one step. fn gets a list of its own; when it returns an error or
// panics nothing is changed and the error is returned, wrapped. When fn changed something, or a Put left something
// unwritten, the store is written before Update returns; when the store fails, the map stays as it was. fn runs in the
// key's turn: it must be quick and must not call the map for the same key.
func (m *Map) Update(ctx context.Context, key Key, fn func(*List) error) (Record, error) {
	if fn == nil {
		return Record{}, fmt.Errorf("update operations of %s: the function is nil", key)
	}
	return m.update(ctx, key, func(l *List) (bool, error) { return true, fn(l) })
}

// update is Update; the store is written when fn says that the change must be durable.
func (m *Map) update(ctx context.Context, key Key, fn func(*List) (durable bool, err error)) (Record, error) {
	t, err := m.begin(ctx, key)
	if err != nil {
		return Record{}, err
	}
	defer t.end(ctx)
	st, err := t.open(ctx)
	if err != nil {
		return Record{}, err
	}
	list, durable := st.list, false
	err = contain(func() (err error) {
		durable, err = fn(&list)
		return err
	})
	if err != nil {
		return Record{}, fmt.Errorf("update operations of %s: %w", key, err)
	}
	if st.exists || !list.Equal(st.list) {
		if err := t.put(ctx, list, durable); err != nil {
			return Record{}, err
		}
	}
	return t.state.record(key)
}

// Upload stores what a Put left unwritten, and nothing otherwise: it can only ever write what was committed last. A key
// the map does not know, and a completed one, have nothing unwritten.
func (m *Map) Upload(ctx context.Context, key Key) error {
	t, err := m.begin(ctx, key)
	if err != nil {
		return err
	}
	defer t.end(ctx)
	if t.state == nil || t.state.completed {
		return nil
	}
	st, err := t.settle(ctx)
	if err != nil || !st.dirty() {
		return err
	}
	return t.write(ctx, st.list)
}

// Complete stores what is unwritten and closes the key in one step: from then on every change is refused, and Get
// returns, as a [CompletedError]. It returns the summary, again when it is called again. While operations run it is a
// [RunningError] and the key stays open. A key without document has nothing to write and can be completed.
//
// On a [Finisher], such as a [WriteOnceStore], the document is finished before the key is closed: one that is finished
// already must have the same operations, or it is a [ConflictError]. A key without document has nothing to finish.
//
// Neither is decided by an old answer: Complete reads the store once and takes over what another process wrote. Only
// when nothing runs and something is unwritten it does not, since that write is a [ConflictError] then.
func (m *Map) Complete(ctx context.Context, key Key) (Summary, error) {
	t, err := m.begin(ctx, key)
	if err != nil {
		return Summary{}, err
	}
	defer t.end(ctx)
	st := t.state
	switch {
	case st == nil:
		st, err = t.load(ctx)
	case st.completed:
		return st.summary, nil
	case st.dirty() && st.list.Summary().Running == 0:
		st, err = t.settle(ctx)
	default:
		st, err = t.confirm(ctx)
	}
	if err != nil {
		return Summary{}, err
	}
	sum := st.list.Summary()
	if sum.Running > 0 {
		return Summary{}, &RunningError{Key: key, Summary: sum}
	}
	if st.dirty() {
		if err := t.write(ctx, st.list); err != nil {
			return Summary{}, err
		}
	}
	if err := t.finish(ctx); err != nil {
		return Summary{}, err
	}
	t.commit(&state{rev: new(revision), exists: t.state.exists, version: t.state.version, completed: true, summary: sum})
	return sum, nil
}

// finish stores the document for good, on a store that keeps such documents apart.
func (t *turn) finish(ctx context.Context) error {
	store, ok := t.m.store.(Finisher)
	list := t.state.list
	if !ok || !t.state.exists {
		return nil
	}
	data, err := t.m.encode(t.key, list)
	if err == nil {
		err = contain(func() error {
			return store.Finish(ctx, t.m.form.FileName(t.key.Name), data, func(found []byte) bool {
				other, err := t.m.form.decode(t.key, found, t.m.opts.MaxBytes)
				return err == nil && other.Equal(list)
			})
		})
	}
	switch {
	case errors.Is(err, ErrConflict):
		return &ConflictError{Key: t.key, Reason: "another document was finished", Err: err}
	case err != nil:
		return fmt.Errorf("finish operations of %s: %w", t.key, err)
	}
	return nil
}
