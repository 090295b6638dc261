package backuptest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrStore is what a troubled call of a [Store] returns when its fault names no other error.
var ErrStore = errors.New("store: 503 slow down")

// storeOf is a store of documents, such as the operations.Store of this module. C is what it says of itself.
type storeOf[C any] interface {
	Read(ctx context.Context, name string) (data []byte, version string, err error)
	Write(ctx context.Context, name string, data []byte, old string) (version string, err error)
	Capabilities() C
}

// Store is a store of documents with faults, and a log of what was asked of it. It is an operations.Store if the one below is:
// C is then operations.Capabilities. It is safe for concurrent use if the one below is.
type Store[C any] struct {
	inner   storeOf[C]
	shared  *storeState
	process *Process
}

type storeState struct {
	mu     sync.Mutex
	faults []*setStoreFault // guarded by mu, as are their counts
	calls  []StoreCall      // guarded by mu
}

// NewStore returns a store on another, which does the work:
//
//	store := backuptest.NewStore(operations.NewMemoryStore())
//
// On a nil one, reads and writes are errors.
func NewStore[C any](inner storeOf[C]) *Store[C] {
	return &Store[C]{inner: inner, shared: &storeState{}}
}

// In returns the store as the process sees it: its writes are effects of the process. Faults and log are shared with s.
func (s *Store[C]) In(p *Process) *Store[C] {
	return &Store[C]{inner: s.inner, shared: s.shared, process: p}
}

// StoreCall is one call of a [Store].
type StoreCall struct {
	// Op is "read" or "write".
	Op string
	// Name is the document's.
	Name string
	// At is when the call began and Took how long it took.
	At   time.Time
	Took time.Duration
	// Size is the length of what was read or was to be written, in bytes.
	Size int
	// Err is what the call returned.
	Err error
}

// Calls returns the calls that have ended, in the order of their ends. The caller owns the slice.
func (s *Store[C]) Calls() []StoreCall {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	return append([]StoreCall(nil), s.shared.calls...)
}

// Capabilities are those of the store below.
func (s *Store[C]) Capabilities() (c C) {
	if s.inner == nil {
		return c
	}
	return s.inner.Capabilities()
}

var errNoStore = errors.New("the store below is nil")

// Read reads a document, unless a fault forbids it.
func (s *Store[C]) Read(ctx context.Context, name string) (data []byte, version string, err error) {
	if s.inner == nil {
		return nil, "", errNoStore
	}
	if s.process != nil {
		var done func()
		ctx, done = s.process.tie(ctx)
		defer done()
		defer func() {
			if s.process.Crashed() {
				data, version, err = nil, "", ErrCrashed
			}
		}()
		if s.process.Crashed() {
			return nil, "", ErrCrashed
		}
	}
	call := StoreCall{Op: storeRead, Name: name, At: time.Now()}
	err = s.shared.meet(ctx, call, func(f StoreFault) (err error) {
		data, version, err = s.inner.Read(ctx, name)
		if f.Action == StoreTear {
			data = data[:len(data)/2]
		}
		return err
	})
	if err != nil {
		data, version = nil, ""
	}
	call.Size = len(data)
	s.shared.end(call, err)
	return data, version, err
}

// Write writes a document, unless a fault forbids it.
func (s *Store[C]) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	if s.inner == nil {
		return "", errNoStore
	}
	do := func(ctx context.Context) error {
		call := StoreCall{Op: storeWrite, Name: name, At: time.Now(), Size: len(data)}
		err := s.shared.meet(ctx, call, func(StoreFault) (err error) {
			version, err = s.inner.Write(ctx, name, data, old)
			return err
		})
		s.shared.end(call, err)
		return err
	}
	if s.process == nil {
		err = do(ctx)
	} else {
		err = s.process.Do(ctx, storeWrite+" "+name, do)
	}
	if err != nil {
		return "", err
	}
	return version, nil
}

func (s *storeState) end(call StoreCall, err error) {
	call.Took, call.Err = time.Since(call.At), err
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}
