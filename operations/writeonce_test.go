package operations_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
)

// worm is a store that keeps what was put for good, and counts each put of a name.
type worm struct {
	*operations.MemoryStore

	puts map[string][][]byte
	fail func(done bool) error // of a put, before and after it is done
}

func newWorm() *worm {
	return &worm{MemoryStore: operations.NewMemoryStore(), puts: map[string][][]byte{}}
}

func (w *worm) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	if w.fail != nil {
		if err := w.fail(false); err != nil {
			return "", err
		}
	}
	version, err := w.MemoryStore.Write(ctx, name, data, old)
	if err != nil {
		return "", err
	}
	w.puts[name] = append(w.puts[name], bytes.Clone(data))
	if w.fail != nil {
		if err := w.fail(true); err != nil {
			return "", err
		}
	}
	return version, nil
}

// checkPuts checks that no name was put more than once.
func (w *worm) checkPuts(t *testing.T, want int) {
	t.Helper()
	if len(w.puts) != want {
		t.Errorf("%d documents are finished, want %d", len(w.puts), want)
	}
	for name, puts := range w.puts {
		if len(puts) != 1 {
			t.Errorf("%s was put %d times", name, len(puts))
		}
	}
}

func writeOnce(t *testing.T, working, final operations.Store) *operations.WriteOnceStore {
	t.Helper()
	s, err := operations.NewWriteOnceStore(working, final)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// O7, ops-10: progress goes to the working store only; the Velero-named document is put once, when the key is completed,
// however often it is completed and by however many processes, and however its put was answered.
func TestWriteOnce(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(done bool) error{
		"answered":       nil,
		"answer is lost": func(done bool) error { return map[bool]error{true: operations.ErrUnknownOutcome}[done] },
		"fails once":     once(false),
		"lost once":      once(true),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			working, final := operations.NewMemoryStore(), newWorm()
			final.fail = fail
			m := newMap(t, writeOnce(t, working, final))
			mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a"), op("b")) })
			mustUpdate(t, m, testKey, setPhase("a", operations.PhaseCompleted))
			if _, err := m.Complete(t.Context(), testKey); !errors.Is(err, operations.ErrRunning) {
				t.Errorf("Complete while b runs = %v, want ErrRunning", err)
			}
			final.checkPuts(t, 0)
			last := mustUpdate(t, m, testKey, setPhase("b", operations.PhaseFailed))
			_, err := m.Complete(t.Context(), testKey)
			if err != nil {
				_, err = m.Complete(t.Context(), testKey)
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // a restart, and another process
				other := newMap(t, writeOnce(t, working, final))
				if sum, err := other.Complete(t.Context(), testKey); err != nil || sum != last.Summary() {
					t.Errorf("Complete again = %+v, %v, want %+v", sum, err, last.Summary())
				}
			}
			final.checkPuts(t, 1)
			data, _, err := final.Read(t.Context(), docName)
			if err != nil {
				t.Fatal(err)
			}
			if list, err := operations.BackupForm.Decode(testKey, data); err != nil || !list.Equal(last.List) {
				t.Errorf("the finished document is %v, %v, want the last record", list, err)
			}
		})
	}
}

// once returns a failure of the first put.
func once(done bool) func(bool) error {
	first := true
	return func(now bool) error {
		if now != done || !first {
			return nil
		}
		first = false
		return errAny
	}
}

// O7: what is finished and says something else is a conflict, and is not overwritten; what says the same in other bytes is
// not.
func TestWriteOnceMeetsAnother(t *testing.T) {
	t.Parallel()
	done := op("a")
	done.Status.Phase = operations.PhaseCompleted
	list, err := operations.NewList(done)
	if err != nil {
		t.Fatal(err)
	}
	data, err := operations.BackupForm.Encode(testKey, list)
	if err != nil {
		t.Fatal(err)
	}
	text := string(gunzip(t, data))
	tests := map[string]struct {
		reason   string
		finished []byte
		want     error
	}{
		"other bytes": {"Velero writes no owner and other spaces", zipped(t, "", " "+strings.ReplaceAll(text, ",", " , ")), nil},
		"other words": {"it ended in another way", zipped(t, "", strings.ReplaceAll(text, "Completed", "Failed")), operations.ErrConflict},
		"no record":   {"it cannot be read", []byte("x"), operations.ErrConflict},
	}
	for name, tc := range tests {
		for _, conditional := range []bool{true, false} {
			var final operations.Store = newWorm()
			if !conditional {
				final = unfencedStore{final}
			}
			before, err := final.Write(t.Context(), docName, tc.finished, "")
			if err != nil {
				t.Fatal(err)
			}
			working := operations.NewMemoryStore()
			if _, err := working.Write(t.Context(), docName, data, ""); err != nil {
				t.Fatal(err)
			}
			_, err = newMap(t, writeOnce(t, working, final)).Complete(t.Context(), testKey)
			_, isConflict := errors.AsType[*operations.ConflictError](err)
			if !errors.Is(err, tc.want) || isConflict != (tc.want != nil) {
				t.Errorf("%s: Complete = %v, want %v, because %s", name, err, tc.want, tc.reason)
			}
			if got, version, err := final.Read(t.Context(), docName); err != nil || version != before || !bytes.Equal(got, tc.finished) {
				t.Errorf("%s: the finished document was changed: %v", name, err)
			}
		}
	}
}

// unfencedStore promises nothing.
type unfencedStore struct{ operations.Store }

func (unfencedStore) Capabilities() operations.Capabilities { return operations.Capabilities{} }

// O7: once the working store was cleared, the finished document is what is read, and nothing changes it.
func TestWriteOnceCleared(t *testing.T) {
	t.Parallel()
	final := newWorm()
	m := newMap(t, writeOnce(t, operations.NewMemoryStore(), final))
	mustUpdate(t, m, testKey, func(l *operations.List) error {
		o := op("a")
		o.Status.Phase = operations.PhaseCanceled
		return l.Add(o)
	})
	want, err := m.Complete(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	store := writeOnce(t, operations.NewMemoryStore(), final)
	m = newMap(t, store)
	rec, err := m.Get(t.Context(), testKey)
	if err != nil || rec.Summary() != want || rec.Missing() {
		t.Errorf("Get = %+v, %v, want %+v", rec.Summary(), err, want)
	}
	if _, err := m.Update(t.Context(), testKey, func(l *operations.List) error { return l.Add(op("late")) }); !errors.Is(err, operations.ErrCompleted) {
		t.Errorf("Update of what is finished = %v, want ErrCompleted", err)
	}
	if _, err := store.Write(t.Context(), docName, []byte("x"), ""); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("create beside what is finished = %v, want ErrConflict", err)
	}
	if _, err := store.Write(t.Context(), docName, []byte("x"), "finished:old"); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("replace of another version = %v, want ErrConflict", err)
	}
	if sum, err := m.Complete(t.Context(), testKey); err != nil || sum != want {
		t.Errorf("Complete again = %+v, %v, want %+v", sum, err, want)
	}
	final.checkPuts(t, 1)
}

// O7: a store that is down is an error that says which, and what cannot be found out stays unknown.
func TestWriteOnceErrors(t *testing.T) {
	t.Parallel()
	down := func(context.Context, string, string) error { return errAny }
	good := func(context.Context, string, string) error { return nil }
	for name, tc := range map[string]struct {
		working, final func(context.Context, string, string) error
		text           string
	}{"working": {down, good, "working store"}, "final": {good, down, "final store"}} {
		working, final := newRecorder(operations.NewMemoryStore()), newRecorder(operations.NewMemoryStore())
		working.hooks(tc.working, nil)
		final.hooks(tc.final, nil)
		s := writeOnce(t, working, final)
		_, _, rerr := s.Read(t.Context(), docName)
		_, werr := s.Write(t.Context(), docName, []byte("x"), "")
		for _, err := range []error{rerr, werr} {
			if !errors.Is(err, errAny) || errors.Is(err, operations.ErrNotFound) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s is down: %v, want its error, naming it", name, err)
			}
		}
		if err := s.Finish(t.Context(), docName, []byte("x"), nil); (err != nil) != (name == "final") {
			t.Errorf("%s is down: Finish = %v", name, err)
		}
		final.Store = unfencedStore{final.Store}
		if err := s.Finish(t.Context(), docName, []byte("x"), nil); (err != nil) != (name == "final") {
			t.Errorf("%s is down and unfenced: Finish again = %v", name, err)
		}
	}
	if _, err := operations.NewWriteOnceStore(nil, nil); err == nil || !contains(err, "working store is nil") || !contains(err, "final store is nil") {
		t.Errorf("NewWriteOnceStore of nothing = %v, want both faults", err)
	}
}

// O7: the working store says what can be relied on.
func TestWriteOnceCapabilities(t *testing.T) {
	t.Parallel()
	s := writeOnce(t, unfencedStore{operations.NewMemoryStore()}, operations.NewMemoryStore())
	if s.Capabilities() != (operations.Capabilities{}) || !newMap(t, s).Unfenced() {
		t.Errorf("Capabilities() = %+v, want none", s.Capabilities())
	}
}

// listed is a store whose values cannot be compared.
type listed struct {
	operations.Store
	_ []string
}

// O7: a store that is both would be written again and again; what cannot be told apart is no panic.
func TestWriteOnceOfOneStore(t *testing.T) {
	t.Parallel()
	memory := operations.NewMemoryStore()
	for name, tc := range map[string]struct {
		reason         string
		working, final operations.Store
		refused        bool
	}{
		"one pointer":           {"it is one store", memory, memory, true},
		"equal values":          {"both are one store behind a value", unfencedStore{memory}, unfencedStore{memory}, true},
		"two stores":            {"each has documents of its own", memory, operations.NewMemoryStore(), false},
		"two types":             {"a value around a store may keep them elsewhere", memory, unfencedStore{memory}, false},
		"not comparable":        {"comparing would panic", listed{Store: memory}, listed{Store: memory}, false},
		"not comparable inside": {"comparing would panic", unfencedStore{listed{Store: memory}}, unfencedStore{listed{Store: memory}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := operations.NewWriteOnceStore(tc.working, tc.final)
			if refused := err != nil && contains(err, "working store and the final store are the same"); refused != tc.refused || !refused && err != nil {
				t.Errorf("%s: NewWriteOnceStore() = %v, want that it refuses: %t", tc.reason, err, tc.refused)
			}
		})
	}
}
