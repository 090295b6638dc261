package operations

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
)

// MapOptions are the options of a [Map]. The zero MapOptions work.
type MapOptions struct {
	// MaxBytes is the size of a document before compression from which it is neither read nor written, with
	// [ErrTooLarge]. Defaults to [DefaultMaxBytes].
	MaxBytes int64
	// Hooks are called when a record changes. The zero MapHooks call nothing.
	Hooks MapHooks
}

// Map holds the operations of many backups or restores, each under its [Key], and their record in a [Store]. For each
// key every call is one step with respect to every other; the package comment says what that means. Keys never wait for
// each other. It is safe for concurrent use. The zero Map is not usable: [NewMap] makes one.
//
// What the map has read it remembers, that there is nothing too, and it does not hear of what other processes write. So
// its answers are for the process that owns the backup. One that has just become the owner, because it won the leader
// election or took over this one backup, calls [Map.EvictAll] or [Map.Evict] before it goes on: otherwise Get can answer
// with what was true when it was the owner last, and Put and Update end in conflicts until the key is loaded. A process
// that only looks on calls [Map.Peek].
//
// [Map.Complete] and the [Poller] protect themselves: they say that nothing runs, or that something still does, only
// after they have asked the store, and take over what they find there.
type Map struct {
	store Store
	form  Form
	opts  MapOptions
	zips  sync.Pool // of *gzip.Writer, which are large

	mu      sync.Mutex // protects entries and what entry says; held for a few instructions, never over a call
	entries map[Key]*entry
}

// entry is what the map knows of one key.
type entry struct {
	// turn has capacity one: whoever has put a value in may change the key. Waiting for it honours ctx.
	turn chan struct{}

	// The following is protected by Map.mu.
	state  *state  // last committed state; nil when cold
	flight *flight // the load that every Get of a cold key waits for
	epoch  uint64  // raised by Evict: a commit of an older epoch is dropped
	users  int     // calls that hold a pointer to this entry
	// telling: the turn has committed all it will and calls the hooks. A load that waited for it could wait for itself.
	telling bool
}

// state is what was committed for a key. It is never changed.
type state struct {
	rev    *revision // new with every change of list
	list   List
	exists bool // a document is in the store, or something was put

	stored  List   // what the store is known to hold
	version string // the store's version of that; empty: no document

	pending *List // a write of this list got no answer
	// void are the last documents whose write got no answer and was then found not to be done. It may still be done,
	// late, and is then no other writer's.
	void []digest

	completed bool
	summary   Summary // of a completed key
}

// NewMap returns an empty map over the store. It returns every fault of its arguments, each naming what is wrong.
func NewMap(store Store, form Form, opts MapOptions) (*Map, error) {
	var faults []error
	if isNil(store) {
		faults = append(faults, errors.New("store is nil"))
	}
	if err := form.validate(); err != nil {
		faults = append(faults, err)
	}
	if opts.MaxBytes < 0 || opts.MaxBytes == math.MaxInt64 {
		faults = append(faults, errors.New("option MaxBytes is out of range"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("operations map: %w", err)
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	return &Map{store: store, form: form, opts: opts, entries: map[Key]*entry{}}, nil
}

// check returns why there can be no call for the key.
func (m *Map) check(key Key) error {
	if m == nil || m.entries == nil {
		return errors.New("the operations map was not made by NewMap")
	}
	return key.Validate()
}

// encode returns the document of the list.
func (m *Map) encode(key Key, list List) ([]byte, error) {
	zip, ok := m.zips.Get().(*gzip.Writer)
	if !ok {
		zip = gzip.NewWriter(nil)
	}
	defer m.zips.Put(zip)
	return m.form.encodeWith(zip, key, list, m.opts.MaxBytes)
}

// Unfenced reports whether the store cannot replace conditionally: another process that still believes to own a backup
// can then overwrite its record unseen. So does a map whose store panics when it is asked.
func (m *Map) Unfenced() bool {
	return m == nil || m.entries == nil || !capabilities(m.store).ConditionalReplace
}

// Get returns what was committed last. For a key that the map knows it waits for nothing, whatever the store is doing.
// Any other key is loaded once, however many ask at the same time. A document that is not there is an empty list, and
// that answer is kept too; see [Record.Missing]. A completed key is a [CompletedError] with its summary.
func (m *Map) Get(ctx context.Context, key Key) (Record, error) {
	if err := m.check(key); err != nil {
		return Record{}, err
	}
	for {
		st, f, lead := m.lookUp(key)
		switch {
		case st != nil:
			return st.record(key)
		case f == nil:
			return m.Peek(ctx, key)
		case lead:
			return m.lead(ctx, key, f)
		}
		select {
		case <-f.done:
			if f.err != nil && !f.ownEnd {
				return Record{}, f.err
			}
		case <-ctx.Done():
			return Record{}, fmt.Errorf("load operations of %s: %w", key, context.Cause(ctx))
		}
	}
}

// Peek reads the record from the store and neither uses nor changes what the map knows. It is for readers that do not
// own the backup. The record cannot be put.
func (m *Map) Peek(ctx context.Context, key Key) (Record, error) {
	if err := m.check(key); err != nil {
		return Record{}, err
	}
	st, err := m.read(ctx, key)
	if err != nil {
		return Record{}, fmt.Errorf("peek at operations of %s: %w", key, err)
	}
	return st.record(key)
}

// Evict forgets what the map knows of the key, unwritten changes and completion included; the next call loads it. It
// waits for nothing: a call that runs for the key ends as it would have, and its result is not kept. Records read
// before are refused by Put. Call it when this process becomes the owner of the key, and when the owner is deleted.
func (m *Map) Evict(key Key) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok {
		m.forget(key, e)
	}
}

// EvictAll evicts every key: for a process that has just become the owner of all, as the winner of a leader election,
// whose answers from before may be old. Call it before the first step as the owner.
func (m *Map) EvictAll() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, e := range m.entries {
		m.forget(key, e)
	}
}

// forget makes the entry cold, and drops it when no call uses it. The caller holds mu.
func (m *Map) forget(key Key, e *entry) {
	e.state = nil
	e.epoch++
	if e.users == 0 {
		delete(m.entries, key)
	}
}

// record returns the state as the caller's own value.
func (st *state) record(key Key) (Record, error) {
	if st.completed {
		return Record{}, &CompletedError{Key: key, Summary: st.summary}
	}
	return Record{Key: key, List: st.list, base: st.rev, exists: st.exists}, nil
}

// dirty reports whether the store does not hold what was committed.
func (st *state) dirty() bool {
	return st.exists && (st.version == "" || !st.list.Equal(st.stored))
}
