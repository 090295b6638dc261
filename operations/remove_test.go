package operations_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
)

// ops-23: the record of operations that have ended can be removed, by whoever completed it and by a sweeper that knows
// nothing of it, and never while one of them runs; an old copy does not bring it back.
func TestMapRemove(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	m := newMap(t, store)
	old := mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	sweeper := newMap(t, store)
	for who, of := range map[string]*operations.Map{"owner": m, "sweeper": sweeper} {
		running, _ := errors.AsType[*operations.RunningError](of.Remove(t.Context(), testKey))
		if running == nil || running.Summary.Running != 1 {
			t.Errorf("Remove by the %s while a runs = %v, want a RunningError", who, running)
		}
	}
	mustUpdate(t, m, testKey, setPhase("a", operations.PhaseCompleted))
	want, err := m.Complete(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), testKey); err != nil {
		t.Errorf("Remove = %v", err)
	}
	if rec, err := m.Peek(t.Context(), testKey); err != nil || !rec.Missing() {
		t.Errorf("the record is %+v, %v, want none", rec.Summary(), err)
	}
	if completed, _ := errors.AsType[*operations.CompletedError](second(m.Get(t.Context(), testKey))); completed == nil || completed.Summary != want {
		t.Errorf("Get = %v, want the tombstone with %+v", completed, want)
	}
	if _, err := m.UploadProgressAndPut(t.Context(), old); !errors.Is(err, operations.ErrCompleted) {
		t.Errorf("a put of an old copy = %v, want ErrCompleted", err)
	}
	if err := sweeper.Remove(t.Context(), testKey); err != nil {
		t.Errorf("Remove of what is gone = %v", err)
	}
}

// O3, ops-23: a removal that failed, met another writer or unstored changes removes nothing that is not known.
func TestMapRemoveRefuses(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	m := newMap(t, store)
	if err := m.Remove(t.Context(), operations.Key{}); err == nil {
		t.Error("Remove of the zero Key gave no error")
	}
	mustUpdate(t, m, testKey, func(l *operations.List) error {
		o := op("a")
		o.Status.Phase = operations.PhaseFailed
		return l.Add(o)
	})
	if err := m.Remove(t.Context(), testKey); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Remove on a store that cannot = %v, want ErrUnsupported", err)
	}
	store.hooks(func(context.Context, string, string) error { return errAny }, nil)
	if err := m.Remove(t.Context(), testKey); !errors.Is(err, errAny) {
		t.Errorf("Remove on a store that is down = %v, want its error", err)
	}
	store.hooks(nil, nil)
	rec, err := m.Get(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.List.Add(op("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), testKey); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("Remove with a change that is not stored = %v, want ErrConflict", err)
	}
	changing := &changedMeanwhile{MemoryStore: operations.NewMemoryStore()}
	m = newMap(t, changing)
	mustUpdate(t, m, testKey, func(l *operations.List) error {
		o := op("a")
		o.Status.Phase = operations.PhaseFailed
		return l.Add(o)
	})
	if err := m.Remove(t.Context(), testKey); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("Remove of what another process changes = %v, want ErrConflict", err)
	}
	if rec, err := m.Peek(t.Context(), testKey); err != nil || rec.Missing() {
		t.Errorf("the other process's record is gone: %v", err)
	}
}

// changedMeanwhile is a store in which another process writes before a removal arrives.
type changedMeanwhile struct{ *operations.MemoryStore }

func (s *changedMeanwhile) Remove(ctx context.Context, name, old string) error {
	data, version, err := s.Read(ctx, name)
	if err == nil {
		_, err = s.Write(ctx, name, data, version)
	}
	return errors.Join(err, s.MemoryStore.Remove(ctx, name, old))
}

// O7: of a write-once store the working copy is removed, and the finished document stays and is what is read.
func TestMapRemoveWriteOnce(t *testing.T) {
	t.Parallel()
	working, final := operations.NewMemoryStore(), newWorm()
	m := newMap(t, writeOnce(t, working, final))
	mustUpdate(t, m, testKey, func(l *operations.List) error {
		o := op("a")
		o.Status.Phase = operations.PhaseCompleted
		return l.Add(o)
	})
	want, err := m.Complete(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Remove(t.Context(), testKey); err != nil {
			t.Errorf("Remove = %v", err)
		}
	}
	if _, _, err := working.Read(t.Context(), docName); !errors.Is(err, operations.ErrNotFound) {
		t.Errorf("the working copy is still there: %v", err)
	}
	rec, err := m.Peek(t.Context(), testKey)
	if err != nil || rec.Summary() != want {
		t.Errorf("the finished record is %+v, %v, want %+v", rec.Summary(), err, want)
	}
	final.checkPuts(t, 1)
}

// O3, ops-23: a key that was removed without being completed first is completed by that, until it is evicted.
func TestMapRemoveCloses(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	m := newMap(t, store)
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	mustUpdate(t, m, testKey, setPhase("a", operations.PhaseFailed))
	if err := m.Remove(t.Context(), testKey); err != nil {
		t.Fatalf("Remove = %v", err)
	}
	add := func(l *operations.List) error { return l.Add(op("b")) }
	if completed, _ := errors.AsType[*operations.CompletedError](second(m.Get(t.Context(), testKey))); completed == nil || completed.Summary.Failed != 1 {
		t.Errorf("Get = %v, want the tombstone", completed)
	}
	if _, err := m.Update(t.Context(), testKey, add); !errors.Is(err, operations.ErrCompleted) {
		t.Errorf("Update = %v, want ErrCompleted", err)
	}
	if _, err := m.Put(t.Context(), operations.Record{Key: testKey}); !errors.Is(err, operations.ErrCompleted) {
		t.Errorf("Put of a new record = %v, want ErrCompleted", err)
	}
	m.Evict(testKey)
	mustUpdate(t, m, testKey, add)
}
