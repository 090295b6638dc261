package operations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// O3: completing is the final upload and the end of the key; a restart finds the record.
func TestMapLife(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	m := newMap(t, store)
	rec := mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Merge(op("a"), op("b")) })
	if got, want := rec.Summary(), (operations.Summary{Total: 2, Running: 2}); got != want {
		t.Fatalf("Summary() = %+v, want %+v", got, want)
	}
	running, ok := errors.AsType[*operations.RunningError](second(m.Complete(t.Context(), testKey)))
	if !ok || running.Summary.Running != 2 || !errors.Is(running, operations.ErrRunning) {
		t.Fatalf("Complete while running = %v, want a RunningError with the summary", running)
	}
	mustUpdate(t, m, testKey, setPhase("a", operations.PhaseCompleted))
	rec = mustUpdate(t, m, testKey, setPhase("b", operations.PhaseFailed))
	sum, err := m.Complete(t.Context(), testKey)
	if want := (operations.Summary{Total: 2, Completed: 1, Failed: 1}); err != nil || sum != want {
		t.Fatalf("Complete() = %+v, %v, want %+v", sum, err, want)
	}
	if again, err := m.Complete(t.Context(), testKey); err != nil || again != sum {
		t.Errorf("Complete() again = %+v, %v, want the same", again, err)
	}
	late := map[string]error{
		"Get":                  second(m.Get(t.Context(), testKey)),
		"Put":                  second(m.Put(t.Context(), rec)),
		"UploadProgressAndPut": second(m.UploadProgressAndPut(t.Context(), rec)),
		"Update":               second(m.Update(t.Context(), testKey, setPhase("a", operations.PhaseFailed))),
	}
	for name, err := range late {
		done, ok := errors.AsType[*operations.CompletedError](err)
		if !ok || done.Summary != sum || !errors.Is(err, operations.ErrCompleted) {
			t.Errorf("%s after Complete = %v, want a CompletedError with the summary", name, err)
		}
	}
	if err := m.Upload(t.Context(), testKey); err != nil {
		t.Errorf("Upload after Complete = %v, want nothing to do", err)
	}
	if back, err := m.Load(t.Context(), testKey); err != nil || back.Summary() != sum {
		t.Errorf("Load after Complete = %+v, %v, want the record", back, err)
	}
	restarted, err := newMap(t, store).Get(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sum, restarted.Summary()); diff != "" {
		t.Errorf("after a restart the summary differs (-before +after):\n%s", diff)
	}
}

func second[T any](_ T, err error) error { return err }

// O1: no caller's later mutation is seen by anyone else.
func TestMapCopies(t *testing.T) {
	t.Parallel()
	m := newMap(t, operations.NewMemoryStore())
	now := time.Unix(1_700_000_000, 0)
	mine := op("a")
	mine.Status.Created = &now
	mine.PostItems = []operations.ResourceID{{Resource: "pods", Name: "p"}}
	list, err := operations.NewList(mine)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := m.Put(t.Context(), operations.Record{Key: testKey, List: list})
	if err != nil {
		t.Fatal(err)
	}
	// What was put in, what came out, and what a third one gets: all are changed.
	now = now.Add(time.Hour)
	mine.PostItems[0].Name = "changed"
	out, _ := rec.List.Get("a")
	*out.Status.Created = time.Time{}
	out.PostItems[0].Name = "changed"
	for o := range rec.List.All() {
		*o.Status.Created = time.Time{}
		o.PostItems[0].Name = "changed"
	}
	if err := list.Add(op("b")); err != nil {
		t.Fatal(err)
	}
	if err := rec.List.Set(op("a")); err != nil {
		t.Fatal(err)
	}
	var leaked *operations.List
	if _, err := m.Update(t.Context(), testKey, func(l *operations.List) error { leaked = l; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := leaked.Add(op("c")); err != nil {
		t.Fatal(err)
	}
	got, err := m.Get(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := got.List.Get("a")
	if got.List.Len() != 1 || o.PostItems[0].Name != "p" || !o.Status.Created.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("the map holds %d operations, the first is %+v created %v, want it as it was put", got.List.Len(), o, o.Status.Created)
	}
}

// O1: Get returns the last committed state while a write hangs. O4, ops-15: other keys go on. O4: waiting for the turn
// honours ctx.
func TestMapHangingStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newRecorder(operations.NewMemoryStore())
		m := newMap(t, store)
		other := operations.Key{Namespace: "app", Name: "other", UID: "uid-2"}
		mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
		store.hooks(func(ctx context.Context, verb, name string) error {
			if verb == "write" && strings.Contains(name, testKey.Name) {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := m.Update(ctx, testKey, setPhase("a", operations.PhaseCompleted))
			if !errors.Is(err, operations.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Update of the hanging key = %v, want unknown outcome and the deadline", err)
			}
		})
		synctest.Wait()
		start := time.Now()
		rec, err := m.Get(t.Context(), testKey)
		if o, _ := rec.List.Get("a"); err != nil || o.Status.Phase != operations.PhaseInProgress {
			t.Errorf("Get beside a hanging write = %+v, %v, want the last committed state", o, err)
		}
		mustUpdate(t, m, other, func(l *operations.List) error { return l.Add(op("b")) })
		if took := time.Since(start); took > 0 {
			t.Errorf("Get, and Update of another key, took %v beside a hanging write", took)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errAny)
		defer cancel()
		if _, err := m.Put(ctx, rec); !errors.Is(err, errAny) || time.Since(start) != time.Minute {
			t.Errorf("Put beside a hanging write = %v after %v, want the end of its ctx", err, time.Since(start))
		}
		wg.Wait()
	})
}

// O6, ops-18: a cold key is read once however many ask, and an empty answer is an answer.
func TestMapLoadsOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(t *testing.T, store operations.Store)
		missing bool
		total   int
	}{
		"missing document": {prepare: func(*testing.T, operations.Store) {}, missing: true},
		"empty list": {prepare: func(t *testing.T, s operations.Store) {
			t.Helper()
			if _, err := newMap(t, s).UploadProgressAndPut(t.Context(), operations.Record{Key: testKey}); err != nil {
				t.Fatal(err)
			}
		}},
		"one operation": {total: 1, prepare: func(t *testing.T, s operations.Store) {
			t.Helper()
			mustUpdate(t, newMap(t, s), testKey, func(l *operations.List) error { return l.Add(op("a")) })
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newRecorder(operations.NewMemoryStore())
				tc.prepare(t, store)
				store.reset()
				store.hooks(func(context.Context, string, string) error { time.Sleep(time.Second); return nil }, nil)
				m := newMap(t, store)
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						rec, err := m.Get(t.Context(), testKey)
						if err != nil || rec.Missing() != tc.missing || rec.List.Len() != tc.total {
							t.Errorf("Get() = %+v, %v, want %d operations, missing %v", rec, err, tc.total, tc.missing)
						}
					})
				}
				wg.Wait()
				if _, err := m.Get(t.Context(), testKey); err != nil {
					t.Fatal(err)
				}
				if reads, _ := store.counts(); reads != 1 {
					t.Errorf("%d reads, want 1", reads)
				}
			})
		})
	}
}

// O6: a load that fails is one failure for all who wait for it, but the end of the loader's own ctx is only its own.
func TestMapLoadFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newRecorder(operations.NewMemoryStore())
		m := newMap(t, store)
		store.hooks(func(context.Context, string, string) error { time.Sleep(time.Second); return errStore }, nil)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := m.Get(t.Context(), testKey); !errors.Is(err, errStore) {
					t.Errorf("Get() = %v, want the store's error", err)
				}
			})
		}
		wg.Wait()
		if reads, _ := store.counts(); reads != 1 {
			t.Errorf("%d reads, want 1", reads)
		}

		store.hooks(func(ctx context.Context, _, _ string) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.NewTimer(time.Minute).C:
				return nil
			}
		}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wg.Go(func() {
			if _, err := m.Get(ctx, testKey); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Get of the impatient one = %v, want its deadline", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if rec, err := m.Get(t.Context(), testKey); err != nil || !rec.Missing() {
				t.Errorf("Get of the patient one = %+v, %v, want an answer", rec, err)
			}
		})
		wg.Wait()
	})
}

// O5, ops-17: concurrent updates lose nothing. Velero's Get, change, Put lost one.
func TestMapUpdateLosesNothing(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	m := newMap(t, store)
	const writers, each = 8, 8
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op(fmt.Sprintf("%d-%d", w, i))) })
			}
		})
	}
	wg.Wait()
	rec, err := newMap(t, store).Get(t.Context(), testKey)
	if err != nil || rec.List.Len() != writers*each {
		t.Errorf("stored %d operations, %v, want %d", rec.List.Len(), err, writers*each)
	}
}

// O5: a stale put is a typed conflict and changes nothing.
func TestMapConflicts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// stale returns a record that must be refused.
		stale func(t *testing.T, m *operations.Map) operations.Record
		reads int // of the refused put
	}{
		"overtaken by Update": {reason: "it changed since it was read", stale: func(t *testing.T, m *operations.Map) operations.Record {
			t.Helper()
			rec, _ := m.Get(t.Context(), testKey)
			mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("b")) })
			return rec
		}},
		"overtaken by Put": {reason: "it changed in memory", stale: func(t *testing.T, m *operations.Map) operations.Record {
			t.Helper()
			rec, _ := m.Get(t.Context(), testKey)
			next := rec
			if err := next.List.Add(op("b")); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Put(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			return rec
		}},
		"without version": {reason: "there is a record", stale: func(*testing.T, *operations.Map) operations.Record {
			return operations.Record{Key: testKey}
		}},
		"evicted": {reason: "O3: a version on an absent key", stale: func(t *testing.T, m *operations.Map) operations.Record {
			t.Helper()
			rec, _ := m.Get(t.Context(), testKey)
			m.Evict(testKey)
			return rec
		}},
		"evicted and loaded": {reason: "the version is of before", stale: func(t *testing.T, m *operations.Map) operations.Record {
			t.Helper()
			rec, _ := m.Get(t.Context(), testKey)
			m.EvictAll()
			if _, err := m.Get(t.Context(), testKey); err != nil {
				t.Fatal(err)
			}
			return rec
		}},
		"peeked": {reason: "a reader's record cannot be put", stale: func(t *testing.T, m *operations.Map) operations.Record {
			t.Helper()
			rec, err := m.Peek(t.Context(), testKey)
			if err != nil {
				t.Fatal(err)
			}
			return rec
		}},
		"of another map": {reason: "versions are of one map", stale: func(t *testing.T, _ *operations.Map) operations.Record {
			t.Helper()
			elsewhere := newMap(t, operations.NewMemoryStore())
			mustUpdate(t, elsewhere, testKey, func(l *operations.List) error { return l.Add(op("a")) })
			rec, _ := elsewhere.Get(t.Context(), testKey)
			return rec
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newRecorder(operations.NewMemoryStore())
			m := newMap(t, store)
			mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
			rec := tc.stale(t, m)
			if err := rec.List.Add(op("stale")); err != nil {
				t.Fatal(err)
			}
			store.reset()
			for _, put := range []func(context.Context, operations.Record) (operations.Record, error){m.Put, m.UploadProgressAndPut} {
				_, err := put(t.Context(), rec)
				if conflict, ok := errors.AsType[*operations.ConflictError](err); !ok || !errors.Is(err, operations.ErrConflict) || conflict.Key != testKey {
					t.Errorf("%s: put = %v, want a ConflictError of the key", tc.reason, err)
				}
			}
			if reads, writes := store.counts(); reads != 0 || len(writes) != 0 {
				t.Errorf("%s: %d reads and %d writes, want none", tc.reason, reads, len(writes))
			}
			if got, err := m.Get(t.Context(), testKey); err != nil {
				t.Error(err)
			} else if _, ok := got.List.Get("stale"); ok {
				t.Errorf("%s: the refused record is in the map", tc.reason)
			}
		})
	}
}

// O2: what is written, and when.
func TestMapWrites(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	m := newMap(t, store)
	expect := func(step string, want int) {
		t.Helper()
		if _, writes := store.counts(); len(writes) != want {
			t.Errorf("%s: %d writes, want %d", step, len(writes), want)
		}
		store.reset()
	}
	rec := mustUpdate(t, m, testKey, func(*operations.List) error { return nil })
	expect("an update of nothing that changes nothing", 0)
	if err := rec.List.Add(op("a")); err != nil {
		t.Fatal(err)
	}
	rec, err := m.Put(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	expect("a put", 0)
	if err := m.Upload(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	expect("the upload of a put", 1)
	if err := m.Upload(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	if rec, err = m.UploadProgressAndPut(t.Context(), rec); err != nil { // the upload left its version alone
		t.Fatal(err)
	}
	expect("uploads of what is stored", 0)
	if err := rec.List.Set(op("a")); err != nil { // the same again
		t.Fatal(err)
	}
	if rec, err = m.UploadProgressAndPut(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	expect("an equal list", 0)
	done := op("a")
	done.Status.Phase = operations.PhaseCompleted
	if err := rec.List.Set(done); err != nil {
		t.Fatal(err)
	}
	if _, err = m.Put(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Complete(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	expect("the completion of a put", 1)
	if _, err := m.Complete(t.Context(), operations.Key{Name: "none", UID: "u"}); err != nil {
		t.Fatal(err)
	}
	expect("the completion of nothing", 0)
	cold := newMap(t, store)
	if err := cold.Upload(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	if reads, _ := store.counts(); reads != 0 {
		t.Errorf("Upload of a cold key made %d reads, want none", reads)
	}
}

// O2: when fn or the store fails, the map is as it was.
func TestMapFailedChange(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	m := newMap(t, store)
	before := mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	changes := map[string]func() error{
		"fn fails": func() error {
			return second(m.Update(t.Context(), testKey, func(l *operations.List) error {
				if err := l.Add(op("b")); err != nil {
					return err
				}
				return errAny
			}))
		},
		"fn panics": func() error {
			return second(m.Update(t.Context(), testKey, func(*operations.List) error { panic(errAny) }))
		},
		"store fails": func() error {
			store.hooks(func(context.Context, string, string) error { return errAny }, nil)
			defer store.hooks(nil, nil)
			return second(m.Update(t.Context(), testKey, func(l *operations.List) error { return l.Add(op("b")) }))
		},
		"store panics": func() error {
			store.hooks(func(context.Context, string, string) error { panic(errAny) }, nil)
			defer store.hooks(nil, nil)
			rec, _ := m.Get(t.Context(), testKey)
			if err := rec.List.Add(op("b")); err != nil {
				return nil
			}
			return second(m.UploadProgressAndPut(t.Context(), rec))
		},
	}
	for name, change := range changes {
		if err := change(); !errors.Is(err, errAny) {
			t.Errorf("%s: error = %v, want the cause", name, err)
		}
		if got, err := m.Get(t.Context(), testKey); err != nil || !got.List.Equal(before.List) {
			t.Errorf("%s: the map holds %+v, %v, want what it held before", name, got.List, err)
		}
	}
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("b")) })
}
