package operations_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// X1: what no constructor made answers with an error that says so; it neither panics nor leaves a lock behind.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	ctx, add := t.Context(), func(l *operations.List) error { return l.Add(op("x")) }
	for name, m := range map[string]*operations.Map{"zero map": {}, "nil map": nil} {
		m.Evict(testKey)
		m.EvictAll()
		if !m.Unfenced() {
			t.Errorf("%s: fenced", name)
		}
		for range 2 { // a lock that is left behind shows at the second call
			_, get := m.Get(ctx, testKey)
			_, peek := m.Peek(ctx, testKey)
			_, load := m.Load(ctx, testKey)
			_, _, lenient := m.LoadLenient(ctx, testKey)
			_, put := m.Put(ctx, operations.Record{Key: testKey})
			_, progress := m.UploadProgressAndPut(ctx, operations.Record{Key: testKey})
			_, update := m.Update(ctx, testKey, add)
			_, complete := m.Complete(ctx, testKey)
			wantNotMade(t, name, get, peek, load, lenient, put, progress, update, complete, m.Upload(ctx, testKey), m.Remove(ctx, testKey))
		}
	}
	for name, p := range map[string]*operations.Poller{"zero poller": {}, "nil poller": nil} {
		p.Wake(testKey)
		p.Forget(testKey)
		_, step := p.Step(ctx, testKey)
		_, run := p.Run(ctx, testKey)
		wantNotMade(t, name, step, run, p.Register(ctx, testKey, op("x")), p.Cancel(ctx, testKey, ""))
	}
	_, poller := operations.NewPoller(&operations.Map{}, nil, operations.PollerOptions{})
	wantNotMade(t, "poller of a zero map", poller)
	for name, s := range map[string]operations.Remover{
		"zero file store": &operations.FileStore{}, "nil file store": (*operations.FileStore)(nil),
		"zero write-once store": &operations.WriteOnceStore{}, "nil write-once store": (*operations.WriteOnceStore)(nil),
	} {
		_, _, read := s.Read(ctx, "x")
		_, write := s.Write(ctx, "x", nil, "")
		wantNotMade(t, name, read, write, s.Remove(ctx, "x", "1"))
		if f, ok := s.(operations.Finisher); ok {
			wantNotMade(t, name, f.Finish(ctx, "x", nil, nil))
			if s.Capabilities() != (operations.Capabilities{}) {
				t.Errorf("%s: it promises something", name)
			}
		}
		if _, err := operations.NewMap(s, operations.BackupForm, operations.MapOptions{}); err == nil {
			t.Errorf("%s: a map takes it", name)
		}
		if _, err := operations.NewWriteOnceStore(s, s); err == nil {
			t.Errorf("%s: a write-once store takes it", name)
		}
	}
	mustUpdate(t, newMap(t, &operations.MemoryStore{}), testKey, add)
}

func wantNotMade(t *testing.T, name string, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if err == nil || !contains(err, "not made by") {
			t.Errorf("%s, call %d: %v", name, i, err)
		}
	}
}

func TestUpdateWithoutFunction(t *testing.T) {
	t.Parallel()
	if _, err := newMap(t, operations.NewMemoryStore()).Update(t.Context(), testKey, nil); err == nil || !contains(err, "function is nil") {
		t.Errorf("Update without a function: %v", err)
	}
}

// panickingCaps is a store that panics when it is asked what it can.
type panickingCaps struct{ *operations.MemoryStore }

func (panickingCaps) Capabilities() operations.Capabilities { panic("no capabilities") }

// X1: a panic of what the user gave does not come out: of a store's Capabilities, of a comparison.
func TestPanicsOfStoresAndComparisons(t *testing.T) {
	t.Parallel()
	store := panickingCaps{operations.NewMemoryStore()}
	if !newMap(t, store).Unfenced() {
		t.Error("a store that cannot say what it can counts as fenced")
	}
	once, err := operations.NewWriteOnceStore(store, panickingCaps{operations.NewMemoryStore()})
	if err != nil {
		t.Fatal(err)
	}
	if once.Capabilities() != (operations.Capabilities{}) {
		t.Error("a store that cannot say what it can promises something")
	}
	if err := once.Finish(t.Context(), "x", []byte("1"), nil); err != nil {
		t.Fatal(err)
	}
	err = once.Finish(t.Context(), "x", []byte("2"), func([]byte) bool { panic("cannot compare") })
	if _, ok := errors.AsType[*operations.PanicError](err); !ok || errors.Is(err, operations.ErrConflict) {
		t.Errorf("Finish = %v, want the panic", err)
	}
}

// O1, X1: a hook may call Get for its key, and that does not wait for the hook's own turn, though the key was evicted
// meanwhile and though another Get already waits to load it.
func TestGetInHookOfEvictedKey(t *testing.T) {
	t.Parallel()
	for name, join := range map[string]bool{"alone": false, "while another Get waits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var m *operations.Map
				told, outside := 0, make(chan error, 1)
				hooks := operations.MapHooks{Changed: func(ctx context.Context, c operations.Change) {
					if told++; told > 1 {
						return
					}
					m.EvictAll()
					if join {
						go func() {
							_, err := m.Get(ctx, c.Key)
							outside <- err
						}()
						synctest.Wait()
					}
					if rec, err := m.Get(ctx, c.Key); err != nil || rec.List.Len() != 1 {
						t.Errorf("Get in the hook: %d operations, %v", rec.List.Len(), err)
					}
				}}
				m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{Hooks: hooks})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				mustUpdateIn(ctx, t, m)
				if join {
					if err := <-outside; err != nil {
						t.Errorf("the other Get: %v", err)
					}
				}
				if d := time.Since(began); d != 0 {
					t.Errorf("the hook held the key for %v", d)
				}
				if rec, err := m.Get(ctx, testKey); err != nil || rec.List.Len() != 1 {
					t.Errorf("Get afterwards: %d operations, %v", rec.List.Len(), err)
				}
			})
		})
	}
}

func mustUpdateIn(ctx context.Context, t *testing.T, m *operations.Map) {
	t.Helper()
	if _, err := m.Update(ctx, testKey, func(l *operations.List) error { return l.Add(op("x")) }); err != nil {
		t.Error(err)
	}
}

// exiting is a store whose next call ends its goroutine, as a test's Fatal does.
type exiting struct {
	*operations.MemoryStore
	exit bool
}

func (s *exiting) Read(ctx context.Context, name string) ([]byte, string, error) {
	if s.exit {
		s.exit = false
		runtime.Goexit()
	}
	return s.MemoryStore.Read(ctx, name)
}

// O4, X1: a goroutine that ends inside a store or a hook takes neither the key's turn nor its load with it.
func TestGoroutineEndsInside(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		call   func(ctx context.Context, m *operations.Map) error
		store  bool
	}{
		"load in a store": {
			reason: "every later Get would wait for a load that nobody does", store: true,
			call: func(ctx context.Context, m *operations.Map) error { _, err := m.Get(ctx, testKey); return err },
		},
		"load in a hook": {
			reason: "the turn would never be given back",
			call:   func(ctx context.Context, m *operations.Map) error { _, err := m.Get(ctx, testKey); return err },
		},
		"update in a hook": {
			reason: "the turn would never be given back",
			call: func(ctx context.Context, m *operations.Map) error {
				_, err := m.Update(ctx, testKey, func(l *operations.List) error { return l.Add(op("x")) })
				return err
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				hook := !tc.store
				hooks := operations.MapHooks{Changed: func(context.Context, operations.Change) {
					if hook {
						hook = false
						runtime.Goexit()
					}
				}}
				m, err := operations.NewMap(&exiting{operations.NewMemoryStore(), tc.store}, operations.BackupForm, operations.MapOptions{Hooks: hooks})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if err := tc.call(ctx, m); err != nil {
						t.Errorf("the call came back: %v", err)
					}
				}()
				synctest.Wait()
				if _, err := m.Update(ctx, testKey, func(l *operations.List) error { return l.Merge(op("y")) }); err != nil {
					t.Errorf("%s: Update: %v", tc.reason, err)
				}
				m.Evict(testKey)
				if _, err := m.Get(ctx, testKey); err != nil {
					t.Errorf("%s: Get: %v", tc.reason, err)
				}
			})
		})
	}
}
