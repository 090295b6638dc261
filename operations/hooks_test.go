package operations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// hookedMap returns a map that writes each change down.
func hookedMap(t *testing.T, store operations.Store) (*operations.Map, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var said []string
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{Hooks: operations.MapHooks{
		Changed: func(_ context.Context, c operations.Change) {
			mu.Lock()
			defer mu.Unlock()
			var ids []string
			for _, o := range c.Operations {
				ids = append(ids, o.ID+"="+string(o.Status.Phase))
			}
			said = append(said, fmt.Sprintf("%s %d/%d->%d/%d [%s] stored=%v completed=%v", c.Key.Name,
				c.Before.Running, c.Before.Total, c.After.Running, c.After.Total, strings.Join(ids, " "), c.Stored, c.Completed))
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return m, func() []string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { said = nil }()
		return slices.Clone(said)
	}
}

// X4: each change of a record is told once, in order, with what changed in it, without a call of the store; what failed
// and what changed nothing is not told.
func TestMapHooks(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	m, said := hookedMap(t, store)
	check := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, said()); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", what, diff)
		}
	}
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a"), op("b")) })
	check("the first change", "nightly 0/0->2/2 [a=InProgress b=InProgress] stored=true completed=false")
	mustUpdate(t, m, testKey, func(*operations.List) error { return nil })
	check("no change")
	mustUpdate(t, m, testKey, setPhase("b", operations.PhaseCompleted))
	check("an end", "nightly 2/2->1/2 [b=Completed] stored=true completed=false")
	rec, err := m.Get(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.List.Add(op("c")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	check("a put", "nightly 1/2->2/3 [c=InProgress] stored=false completed=false")
	if err := m.Upload(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	check("its upload, which changes nothing")
	store.hooks(func(context.Context, string, string) error { return errAny }, nil)
	if _, err := m.Update(t.Context(), testKey, setPhase("a", operations.PhaseFailed)); !errors.Is(err, errAny) {
		t.Fatalf("Update = %v", err)
	}
	check("a change that failed")
	store.hooks(nil, nil)
	mustUpdate(t, m, testKey, setPhase("a", operations.PhaseFailed))
	mustUpdate(t, m, testKey, setPhase("c", operations.PhaseAbandoned))
	check("the ends", "nightly 2/3->1/3 [a=Failed] stored=true completed=false", "nightly 1/3->0/3 [c=Abandoned] stored=true completed=false")
	if _, err := m.Complete(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	check("the completion", "nightly 0/3->0/3 [] stored=true completed=true")
	m.Evict(testKey)
	if _, err := m.Get(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	check("a load", "nightly 0/0->0/3 [a=Failed b=Completed c=Abandoned] stored=true completed=false")
	if _, err := m.Peek(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	check("a look")
}

// X4: a hook may ask the map for the record; one that panics changes nothing; one whose key was evicted meanwhile is not
// called.
func TestMapHooksMisbehave(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	var m *operations.Map
	calls := 0
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{Hooks: operations.MapHooks{
		Changed: func(ctx context.Context, c operations.Change) {
			calls++
			if rec, err := m.Get(ctx, c.Key); err != nil || rec.Summary() != c.After {
				t.Errorf("Get in the hook = %+v, %v, want %+v", rec.Summary(), err, c.After)
			}
			panic("hook")
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	store.hooks(nil, func(context.Context, string) error {
		m.Evict(testKey)
		return nil
	})
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("b")) })
	if calls != 1 {
		t.Errorf("the hook was called %d times, want once: what was evicted is not told", calls)
	}
	if rec, err := m.Peek(t.Context(), testKey); err != nil || rec.List.Len() != 2 {
		t.Errorf("the record has %d operations, %v, want 2", rec.List.Len(), err)
	}
}

// ops-20: no document is an empty list where nothing was attempted, and an error where something was.
func TestRecordExpect(t *testing.T) {
	t.Parallel()
	m := newMap(t, operations.NewMemoryStore())
	missing, err := m.Get(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := missing.Expect(0); err != nil {
		t.Errorf("nothing was attempted: %v", err)
	}
	if err := missing.Expect(3); !errors.Is(err, operations.ErrNotFound) || !contains(err, "app/nightly") || !contains(err, "3 were attempted") {
		t.Errorf("three were attempted: %v, want ErrNotFound that names the key", err)
	}
	there := mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	if err := there.Expect(3); err != nil {
		t.Errorf("there is a document: %v", err)
	}
}

// ops-21: a store that could not be opened leads to no call of it, also when the error was overlooked.
func TestStoreThatDidNotOpen(t *testing.T) {
	t.Parallel()
	if _, err := operations.NewMap(nil, operations.BackupForm, operations.MapOptions{}); err == nil {
		t.Error("NewMap of no store gave no error")
	}
	for name, store := range map[string]operations.Store{
		"file": (*operations.FileStore)(nil), "memory": (*operations.MemoryStore)(nil), "write-once": (*operations.WriteOnceStore)(nil),
	} {
		m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
		if err == nil || m != nil || !contains(err, "store is nil") {
			t.Errorf("NewMap of a nil %s store = %v, want an error that says so", name, err)
		}
	}
}

// ops-13: an end before, during or after the registration of an operation is counted once.
func TestEndAroundRegistration(t *testing.T) {
	t.Parallel()
	register := func(l *operations.List) error { return l.Merge(op("a")) }
	end := func(l *operations.List) error {
		o := op("a")
		o.Status.Phase = operations.PhaseCompleted
		if err := l.Merge(o); err != nil {
			return err
		}
		return l.Set(o)
	}
	orders := map[string]func(m *operations.Map){
		"before": func(m *operations.Map) { mustUpdate(t, m, testKey, end); mustUpdate(t, m, testKey, register) },
		"after":  func(m *operations.Map) { mustUpdate(t, m, testKey, register); mustUpdate(t, m, testKey, end) },
		"during": func(m *operations.Map) {
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() { _, _ = m.Update(t.Context(), testKey, register) })
				wg.Go(func() { _, _ = m.Update(t.Context(), testKey, end) })
			}
			wg.Wait()
		},
	}
	for name, run := range orders {
		m, said := hookedMap(t, operations.NewMemoryStore())
		run(m)
		rec, err := m.Get(t.Context(), testKey)
		if want := (operations.Summary{Total: 1, Completed: 1}); err != nil || rec.Summary() != want {
			t.Errorf("%s: %+v, %v, want %+v", name, rec.Summary(), err, want)
		}
		ends := 0
		for _, s := range said() {
			ends += strings.Count(s, "a=Completed")
		}
		if ends != 1 {
			t.Errorf("%s: the end was told %d times", name, ends)
		}
	}
}
