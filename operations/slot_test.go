package operations_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// The other packages of the module declare this interface each for itself.
var _ interface {
	Load(ctx context.Context) ([]byte, error)
	Save(ctx context.Context, data []byte) error
} = (*operations.Slot)(nil)

func mustSave(t *testing.T, s *operations.Slot, data string) {
	t.Helper()
	if err := s.Save(t.Context(), []byte(data)); err != nil {
		t.Fatalf("Save(%q): %v", data, err)
	}
}

func checkLoad(t *testing.T, s *operations.Slot, want string) {
	t.Helper()
	if got, err := s.Load(t.Context()); err != nil || string(got) != want {
		t.Errorf("Load() = %q, %v, want %q", got, err, want)
	}
}

// O7: a document is absent, saved, changed, and found again by the next process.
func TestSlotLife(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	s := operations.NewSlot(store, "doc")
	if got, err := s.Load(t.Context()); err != nil || got != nil {
		t.Errorf("Load of nothing = %v, %v, want nil, nil", got, err)
	}
	mustSave(t, s, "one")
	mustSave(t, s, "two")
	checkLoad(t, s, "two")
	restarted := operations.NewSlot(store, "doc")
	mustSave(t, restarted, "three") // without looking first
	checkLoad(t, restarted, "three")
	mustSave(t, operations.NewSlot(store, "doc"), "three")
	if err := operations.NewSlot(store, "../doc").Save(t.Context(), nil); !errors.Is(err, operations.ErrMalformed) {
		t.Errorf("Save of a bad name = %v, want ErrMalformed", err)
	}
}

// O7: what another writer wrote is not overwritten, unless it is the same.
func TestSlotConflict(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	old, heir := operations.NewSlot(store, "doc"), operations.NewSlot(store, "doc")
	mustSave(t, old, "one")
	mustSave(t, heir, "two")
	for range 2 {
		if err := old.Save(t.Context(), []byte("three")); !errors.Is(err, operations.ErrConflict) {
			t.Errorf("Save of the deposed writer = %v, want ErrConflict", err)
		}
	}
	mustSave(t, old, "two")
	mustSave(t, old, "three")
	if err := heir.Save(t.Context(), []byte("four")); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("Save = %v, want ErrConflict", err)
	}
	checkLoad(t, heir, "three")
	mustSave(t, heir, "four")
}

// O2, O7: a write without an answer is found out, at once or by the next Save.
func TestSlotUnknownOutcome(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason    string
		before    error
		after     error
		readFails bool
		between   string // what another writer writes before the second try
		first     error
		second    error
		retry     string
	}{
		"written":                         {reason: "it is there", after: operations.ErrUnknownOutcome, retry: "new"},
		"not written":                     {reason: "it is not there", before: operations.ErrUnknownOutcome, first: operations.ErrUnknownOutcome, retry: "new"},
		"written, cannot be read":         {reason: "the next Save finds it", after: operations.ErrUnknownOutcome, readFails: true, first: operations.ErrUnknownOutcome, retry: "new"},
		"written, another follows":        {reason: "the next Save replaces it", after: operations.ErrUnknownOutcome, readFails: true, first: operations.ErrUnknownOutcome, retry: "newer"},
		"failed, another writer":          {reason: "it is not overwritten", before: errStore, between: "theirs", first: errStore, second: operations.ErrConflict, retry: "new"},
		"failed, the other writer agrees": {reason: "identical is success", before: errStore, between: "new", first: errStore, retry: "new"},
		"conflict with itself":            {reason: "sent twice on the way", after: operations.ErrConflict, retry: "new"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newRecorder(operations.NewMemoryStore())
			s := operations.NewSlot(store, "doc")
			mustSave(t, s, "old")
			store.hooks(
				func(_ context.Context, verb, _ string) error {
					if verb == "read" && tc.readFails {
						return errStore
					}
					if verb == "write" {
						return tc.before
					}
					return nil
				},
				func(context.Context, string) error { return tc.after },
			)
			if err := s.Save(t.Context(), []byte("new")); !errors.Is(err, tc.first) {
				t.Errorf("%s: first Save = %v, want %v", tc.reason, err, tc.first)
			}
			store.hooks(nil, nil)
			if tc.between != "" {
				mustSave(t, operations.NewSlot(store, "doc"), tc.between)
			}
			if err := s.Save(t.Context(), []byte(tc.retry)); !errors.Is(err, tc.second) {
				t.Errorf("%s: second Save = %v, want %v", tc.reason, err, tc.second)
			}
			if tc.second == nil {
				checkLoad(t, s, tc.retry)
			} else {
				checkLoad(t, s, tc.between)
			}
		})
	}
}

// X2: a call that waits for another honours its ctx.
func TestSlotTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newRecorder(operations.NewMemoryStore())
		store.hooks(func(ctx context.Context, _, _ string) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, nil)
		s := operations.NewSlot(store, "doc")
		hanging, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := make(chan error)
		go func() { done <- s.Save(hanging, []byte("x")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errAny)
		defer cancel()
		start := time.Now()
		if err := s.Save(ctx, []byte("y")); !errors.Is(err, errAny) || time.Since(start) != time.Second {
			t.Errorf("Save beside a hanging one = %v after %v, want the end of its ctx", err, time.Since(start))
		}
		if _, err := s.Load(ctx); !errors.Is(err, errAny) {
			t.Errorf("Load after the end of its ctx = %v, want the cause", err)
		}
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hanging Save = %v, want its deadline", err)
		}
	})
}

// X1: a panic of a store does not cross the API.
func TestSlotStorePanics(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	store.hooks(func(context.Context, string, string) error { panic("store") }, nil)
	s := operations.NewSlot(store, "doc")
	if _, err := s.Load(t.Context()); err == nil {
		t.Error("Load on a store that panics = nil")
	} else if _, ok := errors.AsType[*operations.PanicError](err); !ok {
		t.Errorf("Load = %v, want a PanicError", err)
	}
}

// X1: a slot that cannot work says why, and does not panic.
func TestSlotMisuse(t *testing.T) {
	t.Parallel()
	for want, slot := range map[string]*operations.Slot{
		`slot "a/doc": the store is nil`: operations.NewSlot(nil, "a/doc"),
		"the document name is empty":     operations.NewSlot(operations.NewMemoryStore(), ""),
		"neither a store nor a name":     operations.NewSlot(nil, ""),
		"not made by NewSlot":            {},
		"the slot is nil":                nil,
	} {
		_, err := slot.Load(t.Context())
		for call, err := range map[string]error{"Load": err, "Save": slot.Save(t.Context(), nil)} {
			if err == nil || !contains(err, want) {
				t.Errorf("%s() = %v, want %q", call, err, want)
			}
		}
	}
}

// O2: a write of the slot's own that had no answer and arrives late, before or after the slot found it missing, is not
// another writer's; what another wrote is.
func TestSlotLateWrite(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		arrives string // what is in the store when "two" is written
		want    error
	}{"own write": {"one", nil}, "another's": {"other", operations.ErrConflict}} {
		for _, before := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					mem := operations.NewMemoryStore()
					store := newRecorder(mem)
					s := operations.NewSlot(store, "doc")
					mustSave(t, s, "zero")
					_, version, err := mem.Read(t.Context(), "doc")
					if err != nil {
						t.Fatal(err)
					}
					fails := true
					arrive := func() {
						if _, err := mem.Write(t.Context(), "doc", []byte(tc.arrives), version); err != nil {
							t.Error(err)
						}
					}
					store.hooks(func(_ context.Context, verb, _ string) error {
						if verb == "write" && fails {
							return errStore
						}
						if verb == "write" && version != "" { // found missing, it arrives just now
							arrive()
							version = ""
						}
						return nil
					}, nil)
					if err := s.Save(t.Context(), []byte("one")); !errors.Is(err, errStore) {
						t.Fatalf("Save = %v, want %v", err, errStore)
					}
					if before { // the next write finds it missing too
						if err := s.Save(t.Context(), []byte("never")); !errors.Is(err, errStore) {
							t.Fatalf("Save = %v, want %v", err, errStore)
						}
						arrive()
						version = ""
					}
					fails = false
					for range 2 {
						if err := s.Save(t.Context(), []byte("two")); !errors.Is(err, tc.want) {
							t.Fatalf("Save = %v, want %v", err, tc.want)
						}
					}
					checkLoad(t, s, map[bool]string{true: "two", false: "other"}[tc.want == nil])
				})
			})
		}
	}
}
