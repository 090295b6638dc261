package operationstest

import (
	"context"
	"errors"
	"sync"

	"github.com/sheetanchor/sheetanchor/operations"
)

// twoOwners lets a process that does not know that it was deposed go on.
func twoOwners(c *check) {
	if !fenced(c.open()) {
		return
	}
	key := c.key("record")
	deposed, owner := c.openMap(c.open()), c.openMap(c.open())
	if _, err := deposed.Update(c.Context(), key, merge("a")); err != nil {
		c.fatalf("Update = %v", err)
	}
	old, err := deposed.Get(c.Context(), key)
	if err != nil {
		c.fatalf("Get = %v", err)
	}
	if _, err := owner.Update(c.Context(), key, finish("a")); err != nil {
		c.fatalf("Update of the new owner = %v", err)
	}
	if _, err := owner.Complete(c.Context(), key); err != nil {
		c.fatalf("Complete of the new owner = %v", err)
	}
	if _, err := deposed.Update(c.Context(), key, merge("b")); !errors.Is(err, operations.ErrConflict) {
		c.errorf("Update of the deposed owner = %v, want ErrConflict", err)
	}
	if err := old.List.Merge(operation("c", operations.PhaseInProgress)); err != nil {
		c.fatalf("Merge = %v", err)
	}
	if _, err := deposed.UploadProgressAndPut(c.Context(), old); !errors.Is(err, operations.ErrConflict) {
		c.errorf("UploadProgressAndPut of the deposed owner = %v, want ErrConflict", err)
	}
	rec, err := owner.Peek(c.Context(), key)
	if want := (operations.Summary{Total: 1, Completed: 1}); err != nil || rec.Summary() != want {
		c.errorf("the record is %+v, %v, want %+v", rec.Summary(), err, want)
	}
	if _, err := deposed.Load(c.Context(), key); err != nil {
		c.errorf("Load of the deposed owner = %v", err)
	}
	if sum, err := deposed.Complete(c.Context(), key); err != nil || sum.Completed != 1 {
		c.errorf("Complete of who has loaded again = %+v, %v, want the same end", sum, err)
	}
}

// stale is a store of which a read may answer as it did the first time.
type stale struct {
	operations.Store

	mu      sync.Mutex
	old     bool
	data    []byte
	version string
}

func (s *stale) set(old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = old
}

// Read implements operations.Store.
func (s *stale) Read(ctx context.Context, name string) (data []byte, version string, err error) {
	s.mu.Lock()
	old, data, version := s.old, append([]byte(nil), s.data...), s.version
	s.mu.Unlock()
	if old {
		return data, version, nil
	}
	data, version, err = s.Store.Read(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.version == "" {
		s.data, s.version = append([]byte(nil), data...), version
	}
	return data, version, err
}

// staleReads lets a process decide by what was true before.
func staleReads(c *check) {
	if !fenced(c.open()) {
		return
	}
	key := c.key("record")
	if _, err := c.openMap(c.open()).Update(c.Context(), key, merge("a")); err != nil {
		c.fatalf("Update = %v", err)
	}
	view := &stale{Store: c.open()}
	m := c.openMap(view)
	if _, err := m.Get(c.Context(), key); err != nil {
		c.fatalf("Get = %v", err)
	}
	if err := c.retry(c.openMap(c.open()), key, merge("b")); err != nil {
		c.fatalf("Update = %v", err)
	}
	view.set(true)
	if _, err := m.Load(c.Context(), key); err != nil {
		c.fatalf("Load = %v", err)
	}
	if _, err := m.Update(c.Context(), key, merge("c")); err == nil {
		c.errorf("an update of what was read before another's change gave no error")
	}
	view.set(false)
	if rec, err := m.Peek(c.Context(), key); err != nil || rec.List.Len() != 2 {
		c.errorf("the record has %d operations, %v, want those of the two writers that read", rec.List.Len(), err)
	}
	if err := c.retry(m, key, merge("c")); err != nil {
		c.errorf("Update after reading again = %v", err)
	}
	if rec, err := m.Peek(c.Context(), key); err != nil || rec.List.Len() != 3 {
		c.errorf("the record has %d operations, %v, want 3", rec.List.Len(), err)
	}
}
