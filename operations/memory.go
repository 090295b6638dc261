package operations

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// MemoryStore is a [Store] in memory, for tests and for programs that need no record after their end. It checks every
// condition. It is safe for concurrent use. The zero MemoryStore is empty.
type MemoryStore struct {
	mu   sync.Mutex // protects the fields below
	last uint64
	docs map[string]memoryDoc
}

type memoryDoc struct {
	data    []byte
	version string
}

var _ Remover = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{docs: map[string]memoryDoc{}}
}

// Read implements [Store].
func (s *MemoryStore) Read(ctx context.Context, name string) (data []byte, version string, err error) {
	if err := checkCall(ctx, "read", name); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, ok := s.docs[name]
	if !ok {
		return nil, "", fmt.Errorf("read %s: %w", name, ErrNotFound)
	}
	return slices.Clone(doc.data), doc.version, nil
}

// Write implements [Store].
func (s *MemoryStore) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	if err := checkCall(ctx, "write", name); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.docs[name].version != old {
		return "", fmt.Errorf("write %s: %w", name, ErrConflict)
	}
	if s.docs == nil {
		s.docs = map[string]memoryDoc{}
	}
	s.last++
	version = strconv.FormatUint(s.last, 10)
	s.docs[name] = memoryDoc{data: slices.Clone(data), version: version}
	return version, nil
}

// Remove implements [Remover].
func (s *MemoryStore) Remove(ctx context.Context, name, old string) error {
	if err := checkCall(ctx, "remove", name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch doc, ok := s.docs[name]; {
	case !ok:
		return fmt.Errorf("remove %s: %w", name, ErrNotFound)
	case doc.version != old:
		return fmt.Errorf("remove %s: %w", name, ErrConflict)
	}
	delete(s.docs, name)
	return nil
}

// Capabilities implements [Store]: both.
func (s *MemoryStore) Capabilities() Capabilities {
	return Capabilities{ConditionalCreate: true, ConditionalReplace: true}
}

// checkCall returns an error when ctx has ended or name is none a store can have.
func checkCall(ctx context.Context, verb, name string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("%s document: %w", verb, err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", verb, name, context.Cause(ctx))
	}
	return nil
}
