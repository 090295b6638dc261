package operations

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// turn is the right to change one key. It is held by one call at a time and carries the state as that call found it.
type turn struct {
	m     *Map
	key   Key
	entry *entry
	epoch uint64
	state *state // nil: cold

	before *state // as it was when the turn began
	kept   bool   // what was committed last is what others see
}

// begin waits for the key's turn. The caller must call end.
func (m *Map) begin(ctx context.Context, key Key) (*turn, error) {
	if err := m.check(key); err != nil {
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
	return &turn{m: m, key: key, entry: e, epoch: e.epoch, state: e.state, before: e.state}, nil
}

// end tells what has changed and gives the turn back.
func (t *turn) end(ctx context.Context) {
	defer t.leave() // also when a hook ends the goroutine
	t.tell(ctx)
}

// leave gives the turn back.
func (t *turn) leave() {
	t.setTelling(false)
	<-t.entry.turn
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.m.release(t.key, t.entry)
}

func (t *turn) setTelling(telling bool) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.entry.telling = telling
}

// commit makes st what every later call sees, unless the key was evicted since the turn began.
func (t *turn) commit(st *state) {
	t.state = st
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.kept = t.entry.epoch == t.epoch; t.kept {
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
// nothing was written, another is a conflict, which stays until the key is loaded or confirmed.
func (t *turn) settle(ctx context.Context) (*state, error) {
	if t.state.pending == nil {
		return t.state, nil
	}
	found, err := t.m.read(ctx, t.key)
	if err != nil {
		return nil, fmt.Errorf("settle the last write of operations of %s: %w", t.key, err)
	}
	if !t.recognize(found) {
		return nil, t.conflict(errors.New("the last write got no answer"))
	}
	return t.state, nil
}

// recognize makes what the store holds known, if it is what this map wrote, and reports whether it is.
func (t *turn) recognize(found *state) bool {
	st := t.state
	switch next := *st; {
	case st.pending != nil && found.exists && found.list.Equal(*st.pending):
		t.written(*st.pending, found.version)
	case found.version == st.version, t.owns(found):
		next.stored, next.version = found.list, found.version
		if st.pending != nil {
			next.pending, next.void = nil, t.withVoid(*st.pending)
		}
		t.commit(&next)
	default:
		return false
	}
	return true
}

// owns reports whether a document in the store is one that this map wrote: what it knows, or a late write.
func (t *turn) owns(found *state) bool {
	st := t.state
	switch {
	case !found.exists:
		return false
	case st.version != "" && found.list.Equal(st.stored):
		return true
	case len(st.void) == 0:
		return false
	}
	d, err := t.digest(found.list)
	return err == nil && slices.Contains(st.void, d)
}

// digest stands for a list, whatever became of its compression.
type digest [sha256.Size]byte

func (t *turn) digest(list List) (digest, error) {
	sum := sha256.New()
	err := t.m.form.writeText(sum, t.key, list, t.m.opts.MaxBytes)
	return digest(sum.Sum(nil)), err
}

// maxVoid is how many writes that may still arrive are remembered.
const maxVoid = 256

// withVoid returns void with one more list.
func (t *turn) withVoid(list List) []digest {
	void := t.state.void
	d, err := t.digest(list)
	if err != nil || slices.Contains(void, d) {
		return void
	}
	return append(slices.Clone(void[max(0, len(void)-maxVoid+1):]), d)
}

// write stores the list and commits it. When the store fails, the committed list stays as it is.
func (t *turn) write(ctx context.Context, list List) error {
	data, err := t.m.encode(t.key, list)
	if err != nil {
		return fmt.Errorf("operations of %s: %w", t.key, err)
	}
	for late := false; ; late = true {
		version, err := write(ctx, t.m.store, t.m.form.FileName(t.key.Name), data, t.state.version)
		switch {
		case err == nil:
			t.written(list, version)
			return nil
		case !errors.Is(err, ErrConflict):
			// Even an error that claims that nothing was written is not trusted: the next call reads first.
			t.doubt(list)
			return fmt.Errorf("operations of %s: %w", t.key, err)
		}
		found, rerr := t.m.read(ctx, t.key)
		switch {
		case errors.Is(rerr, ErrForeignRecord):
			return t.conflict(errors.Join(err, rerr))
		case rerr != nil:
			t.doubt(list)
			return fmt.Errorf("operations of %s: %w: conflict, and what is there cannot be read: %w", t.key, ErrUnknownOutcome, rerr)
		case found.exists && found.list.Equal(list): // this very write, sent twice on the way
			t.written(list, found.version)
			return nil
		case late || !t.owns(found):
			return t.conflict(err)
		}
		next := *t.state
		next.stored, next.version = found.list, found.version
		t.commit(&next)
	}
}

// doubt marks the key: it is not known whether the list was written.
func (t *turn) doubt(list List) {
	next := *t.state
	next.pending = &list
	t.commit(&next)
}

// written commits what the store is known to hold. A list that was committed before keeps its revision.
func (t *turn) written(list List, version string) {
	next := state{rev: t.state.rev, list: list, exists: true, stored: list, version: version}
	if !t.state.exists || !t.state.list.Equal(list) {
		next.rev = new(revision)
	}
	t.commit(&next)
}

// conflict returns the error for a document that this map did not write.
func (t *turn) conflict(cause error) error {
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
