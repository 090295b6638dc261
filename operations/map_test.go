package operations_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

func TestMapLife(t *testing.T) {
	t.Parallel()
	store := operations.NewMemoryStore()
	m := newMap(t, store)
	rec := mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Merge(op("a"), op("b")) })
	if got, want := rec.Summary(), (operations.Summary{Total: 2, Running: 2}); got != want {
		t.Fatalf("Summary() = %+v, want %+v", got, want)
	}
	if _, err := m.Complete(t.Context(), testKey); !errors.Is(err, operations.ErrRunning) {
		t.Fatalf("Complete while running = %v, want ErrRunning", err)
	}
	mustUpdate(t, m, testKey, setPhase("a", operations.PhaseCompleted))
	mustUpdate(t, m, testKey, setPhase("b", operations.PhaseFailed))
	sum, err := m.Complete(t.Context(), testKey)
	if want := (operations.Summary{Total: 2, Completed: 1, Failed: 1}); err != nil || sum != want {
		t.Fatalf("Complete() = %+v, %v, want %+v", sum, err, want)
	}
	again, err := newMap(t, store).Get(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sum, again.Summary()); diff != "" {
		t.Errorf("after a restart the summary differs (-before +after):\n%s", diff)
	}
}
