package operations_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// O4, ops-16: the record of another owner of the same name is neither adopted nor overwritten.
func TestMapForeignRecord(t *testing.T) {
	t.Parallel()
	theirs := operations.Key{Namespace: "app", Name: testKey.Name, UID: "other-uid"}
	tests := map[string]func(l *operations.List) error{
		"with operations": func(l *operations.List) error { return l.Add(op("a")) },
		"empty list":      func(*operations.List) error { return nil },
	}
	for name, fill := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newRecorder(operations.NewMemoryStore())
			rec := operations.Record{Key: theirs}
			if err := fill(&rec.List); err != nil {
				t.Fatal(err)
			}
			if _, err := newMap(t, store).UploadProgressAndPut(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			store.reset()
			m := newMap(t, store)
			calls := map[string]error{
				"Get":                  second(m.Get(t.Context(), testKey)),
				"Peek":                 second(m.Peek(t.Context(), testKey)),
				"Load":                 second(m.Load(t.Context(), testKey)),
				"Put":                  second(m.Put(t.Context(), operations.Record{Key: testKey})),
				"UploadProgressAndPut": second(m.UploadProgressAndPut(t.Context(), operations.Record{Key: testKey})),
				"Update":               second(m.Update(t.Context(), testKey, func(l *operations.List) error { return l.Add(op("b")) })),
				"Complete":             second(m.Complete(t.Context(), testKey)),
			}
			for call, err := range calls {
				if !errors.Is(err, operations.ErrForeignRecord) {
					t.Errorf("%s = %v, want ErrForeignRecord", call, err)
				}
			}
			if _, writes := store.counts(); len(writes) > 0 {
				t.Errorf("%d writes, want none", len(writes))
			}
		})
	}
}

// O4: the owner of a record that appears behind the map's back is told, not overwritten.
func TestMapForeignRecordLater(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	m := newMap(t, store)
	if _, err := m.Get(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	theirs := operations.Key{Name: testKey.Name, UID: "other-uid"}
	mustUpdate(t, newMap(t, store), theirs, func(l *operations.List) error { return l.Add(op("a")) })
	_, err := m.Update(t.Context(), testKey, func(l *operations.List) error { return l.Add(op("a")) })
	if !errors.Is(err, operations.ErrConflict) || !errors.Is(err, operations.ErrForeignRecord) {
		t.Errorf("Update = %v, want a conflict with a foreign record", err)
	}
}

// O7: a deposed owner gets a conflict, again and again, until it loads. An identical document is success.
func TestMapTwoOwners(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	old, heir := newMap(t, store), newMap(t, store)
	mustUpdate(t, old, testKey, func(l *operations.List) error { return l.Add(op("a"), op("b")) })
	mustUpdate(t, heir, testKey, setPhase("a", operations.PhaseCompleted))
	for range 2 {
		if _, err := old.Update(t.Context(), testKey, setPhase("a", operations.PhaseFailed)); !errors.Is(err, operations.ErrConflict) {
			t.Fatalf("Update of the deposed owner = %v, want ErrConflict", err)
		}
	}
	if rec := mustUpdate(t, old, testKey, setPhase("a", operations.PhaseCompleted)); rec.Summary().Completed != 1 {
		t.Errorf("an identical document: %+v, want success", rec.Summary())
	}
	mustUpdate(t, heir, testKey, func(*operations.List) error { return nil })
	if _, err := heir.Load(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, heir, testKey, setPhase("b", operations.PhaseCompleted))
	if _, err := old.Load(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	if sum, err := old.Complete(t.Context(), testKey); err != nil || sum.Completed != 2 {
		t.Errorf("Complete after Load = %+v, %v", sum, err)
	}
}

// O2: the interleaving of Velero's PR 5971: a describe reads, the terminal upload happens, the describe uploads what it
// has, the key is deleted. The store never ends with a record that runs.
func TestMapDescribeAfterTerminalUpload(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	m := newMap(t, store)
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	describe, err := m.Get(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	progress, _ := describe.List.Get("a")
	progress.Status.Completed = 7
	if err := describe.List.Set(progress); err != nil {
		t.Fatal(err)
	}
	terminal := mustUpdate(t, m, testKey, setPhase("a", operations.PhaseCompleted))
	if _, err := m.UploadProgressAndPut(t.Context(), describe); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("late describe = %v, want ErrConflict", err)
	}
	if err := m.Upload(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Complete(t.Context(), testKey); err != nil {
		t.Fatal(err)
	}
	if _, err := m.UploadProgressAndPut(t.Context(), describe); !errors.Is(err, operations.ErrCompleted) {
		t.Errorf("describe after completion = %v, want ErrCompleted", err)
	}
	m.Evict(testKey)
	if _, err := m.UploadProgressAndPut(t.Context(), describe); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("describe after eviction = %v, want ErrConflict", err)
	}
	got, err := m.Peek(t.Context(), testKey)
	if err != nil || !got.List.Equal(terminal.List) {
		t.Errorf("the store holds %+v, %v, want the terminal record", got.Summary(), err)
	}
}

// O2: a write without an answer is typed and marks the key; the next call reads first and knows what happened.
func TestMapUnknownOutcome(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		before  error // returned instead of the write
		after   error // returned after the write
		between func(t *testing.T, store operations.Store)
		want    error
		writes  int // of the second try
	}{
		"written":                 {reason: "our document there is success", after: operations.ErrUnknownOutcome},
		"not written":             {reason: "the old one is written again", before: operations.ErrUnknownOutcome, writes: 1},
		"failed":                  {reason: "a store that claims not to have written is not trusted", after: errors.New("broken pipe")},
		"written by another":      {reason: "another document is a conflict", before: operations.ErrUnknownOutcome, between: meanwhile, want: operations.ErrConflict},
		"written and overwritten": {reason: "another document is a conflict", after: operations.ErrUnknownOutcome, between: meanwhile, want: operations.ErrConflict},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newRecorder(operations.NewMemoryStore())
			m := newMap(t, store)
			rec := mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
			if err := rec.List.Add(op("b")); err != nil {
				t.Fatal(err)
			}
			store.hooks(
				func(_ context.Context, verb, _ string) error {
					if verb == "write" {
						return tc.before
					}
					return nil
				},
				func(context.Context, string) error { return tc.after },
			)
			cause := tc.before
			if cause == nil {
				cause = tc.after
			}
			if _, err := m.UploadProgressAndPut(t.Context(), rec); !errors.Is(err, cause) {
				t.Errorf("first try = %v, want %v", err, cause)
			}
			if got, err := m.Get(t.Context(), testKey); err != nil || got.List.Len() != 1 {
				t.Errorf("after the first try the map holds %d operations, %v, want the old one", got.List.Len(), err)
			}
			store.hooks(nil, nil)
			if tc.between != nil {
				tc.between(t, store)
			}
			for range 2 {
				store.reset()
				got, err := m.UploadProgressAndPut(t.Context(), rec)
				if !errors.Is(err, tc.want) {
					t.Fatalf("%s: second try = %v, want %v", tc.reason, err, tc.want)
				}
				if tc.want != nil {
					continue // and again, until it is loaded
				}
				if _, writes := store.counts(); len(writes) != tc.writes {
					t.Errorf("%s: %d writes, want %d", tc.reason, len(writes), tc.writes)
				}
				if got.List.Len() != 2 {
					t.Errorf("%s: %d operations, want 2", tc.reason, got.List.Len())
				}
				break
			}
			if _, err := m.Load(t.Context(), testKey); err != nil {
				t.Fatal(err)
			}
			mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Merge(op("z")) })
		})
	}
}

// meanwhile lets another owner write.
func meanwhile(t *testing.T, store operations.Store) {
	t.Helper()
	mustUpdate(t, newMap(t, store), testKey, func(l *operations.List) error { return l.Add(op("x")) })
}

// O2: a write of this map that arrives late, after it was found not to have been done, is not another writer's: neither
// for the next write nor for the one that finds out about the next without an answer.
func TestMapLateWrite(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &holding{Store: operations.NewMemoryStore()}
			m := newMap(t, store)
			rec := mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
			unanswered := func(id string) (deliver func() error) {
				t.Helper()
				store.hold = true
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := m.Update(ctx, testKey, func(l *operations.List) error { return l.Add(op(id)) }); !errors.Is(err, operations.ErrUnknownOutcome) {
					t.Fatalf("Update = %v, want ErrUnknownOutcome", err)
				}
				store.hold = false
				return store.held
			}
			deliver := unanswered("late")
			if _, err := m.Put(t.Context(), rec); err != nil { // finds out that nothing was written
				t.Fatal(err)
			}
			if again {
				unanswered("never")
			}
			if err := deliver(); err != nil {
				t.Fatal(err)
			}
			if err := rec.List.Add(op("b")); err != nil {
				t.Fatal(err)
			}
			if _, err := m.UploadProgressAndPut(t.Context(), rec); err != nil {
				t.Errorf("after the late write: %v, want success", err)
			}
			if got, err := m.Peek(t.Context(), testKey); err != nil || !got.List.Equal(rec.List) {
				t.Errorf("the store holds %d operations, %v, want a and b", got.List.Len(), err)
			}
		})
	}
}

// holding keeps a write back until it is delivered.
type holding struct {
	operations.Store
	hold bool
	held func() error
}

func (h *holding) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	if !h.hold {
		return h.Store.Write(ctx, name, data, old)
	}
	data = bytes.Clone(data)
	h.held = func() error {
		_, err := h.Store.Write(context.WithoutCancel(ctx), name, data, old)
		return err
	}
	<-ctx.Done()
	return "", ctx.Err()
}

// O7: a map on a store without conditional replace says so.
func TestMapUnfenced(t *testing.T) {
	t.Parallel()
	if newMap(t, operations.NewMemoryStore()).Unfenced() {
		t.Error("Unfenced() of a memory store = true")
	}
	if !newMap(t, unfenced{operations.NewMemoryStore()}).Unfenced() {
		t.Error("Unfenced() of a store without conditions = false")
	}
}

type unfenced struct{ operations.Store }

func (unfenced) Capabilities() operations.Capabilities {
	return operations.Capabilities{ConditionalCreate: true}
}

// O13: a record that cannot be read is never overwritten.
func TestMapUnreadableRecord(t *testing.T) {
	t.Parallel()
	var entryWithoutID bytes.Buffer
	zip := gzip.NewWriter(&entryWithoutID)
	if _, err := zip.Write([]byte(`[{"spec":{"backupUID":"uid-1"},"status":{}}]`)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"no gzip": []byte("hello"), "no ID": entryWithoutID.Bytes(), "empty file": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newRecorder(operations.NewMemoryStore())
			if _, err := store.Write(t.Context(), operations.BackupForm.FileName(testKey.Name), data, ""); err != nil {
				t.Fatal(err)
			}
			store.reset()
			m := newMap(t, store)
			_, err := m.Update(t.Context(), testKey, func(l *operations.List) error { return l.Add(op("a")) })
			if !errors.Is(err, operations.ErrMalformed) {
				t.Errorf("Update = %v, want ErrMalformed", err)
			}
			if _, writes := store.counts(); len(writes) > 0 {
				t.Error("the unreadable record was overwritten")
			}
		})
	}
}

// O13: no path made of a key leaves the store's prefix, and no key makes a call panic.
func TestMapRefusesBadKeys(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	m := newMap(t, store)
	for _, key := range []operations.Key{
		{},
		{Name: "x"},
		{Name: "..", UID: "u"},
		{Name: "../x", UID: "u"},
		{Name: "a/b", UID: "u"},
		{Name: "A", UID: "u"},
		{Name: "x", Namespace: "a/b", UID: "u"},
		{Name: "x", UID: "a b"},
		{Name: "x", UID: "a\x00"},
	} {
		for call, err := range map[string]error{
			"Get":      second(m.Get(t.Context(), key)),
			"Put":      second(m.Put(t.Context(), operations.Record{Key: key})),
			"Update":   second(m.Update(t.Context(), key, func(*operations.List) error { return nil })),
			"Upload":   m.Upload(t.Context(), key),
			"Complete": second(m.Complete(t.Context(), key)),
			"Load":     second(m.Load(t.Context(), key)),
			"Peek":     second(m.Peek(t.Context(), key)),
		} {
			if err == nil {
				t.Errorf("%s(%q) succeeded", call, key)
			}
		}
		m.Evict(key)
	}
	if reads, writes := store.counts(); reads != 0 || len(writes) != 0 {
		t.Errorf("%d reads and %d writes, want none", reads, len(writes))
	}
}

// ops-7, O3: an operation that has ended stays as it ended, whatever is put.
func TestMapTerminalIsFinal(t *testing.T) {
	t.Parallel()
	m := newMap(t, operations.NewMemoryStore())
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	rec := mustUpdate(t, m, testKey, setPhase("a", operations.PhaseCanceled))
	for _, phase := range []operations.Phase{operations.PhaseInProgress, operations.PhaseCompleted, operations.PhaseFailed, ""} {
		if _, err := m.Update(t.Context(), testKey, setPhase("a", phase)); !errors.Is(err, operations.ErrTerminal) {
			t.Errorf("Set to %q = %v, want ErrTerminal", phase, err)
		}
		o := op("a")
		o.Status.Phase = phase
		list, err := operations.NewList(op("new"), o) // at another place, in a list of its own
		if err != nil {
			t.Fatal(err)
		}
		next := rec
		next.List = list
		if _, err := m.Put(t.Context(), next); !errors.Is(err, operations.ErrTerminal) {
			t.Errorf("Put with %q = %v, want ErrTerminal", phase, err)
		}
	}
}

func TestNewMapRefusesBadArguments(t *testing.T) {
	t.Parallel()
	_, err := operations.NewMap(nil, 0, operations.MapOptions{MaxBytes: -1})
	for _, want := range []string{"store is nil", "form", "MaxBytes"} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("NewMap() = %v, want it to name %q", err, want)
		}
	}
}

// O2: writes that fail are remembered, so that a late one is known again, but not for ever and not whole.
func TestMapFailedWritesAreForgotten(t *testing.T) { // not parallel: it measures the heap
	store := newRecorder(operations.NewMemoryStore())
	m := newMap(t, store)
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	store.hooks(func(_ context.Context, verb, _ string) error {
		if verb == "write" {
			return errors.New("no space left on device")
		}
		return nil
	}, nil)
	heap := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := heap()
	for i := range 400 {
		_, err := m.Update(t.Context(), testKey, func(l *operations.List) error {
			return l.Add(op(strings.Repeat("y", 20_000) + strconv.Itoa(i)))
		})
		if err == nil {
			t.Fatal("Update on a full store succeeded")
		}
	}
	if grown := heap() - before; grown > 4<<20 { // as lists it would be 8 MB and more
		t.Errorf("400 failed writes left %d bytes", grown)
	}
	runtime.KeepAlive(m)
}
