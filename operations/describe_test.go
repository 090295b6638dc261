package operations_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// O2, O3: Velero's PR 5971 once more, with the describe's upload under way in the store when the terminal upload and the
// deletion are asked for. Whether that upload is slow, fails, is done without an answer, or is done late, and whether it
// begins before or after the terminal one, the store never ends with a record that runs.
func TestMapDescribeDuringTerminalUpload(t *testing.T) {
	t.Parallel()
	upload := map[string]func(ctx context.Context, write func() error) error{
		"slow":  func(_ context.Context, write func() error) error { return write() },
		"fails": func(context.Context, func() error) error { return errAny },
		"lost when done": func(_ context.Context, write func() error) error {
			return errors.Join(operations.ErrUnknownOutcome, write())
		},
		"hangs until ends": func(ctx context.Context, _ func() error) error { <-ctx.Done(); return context.Cause(ctx) },
		"done late": func(_ context.Context, write func() error) error {
			time.AfterFunc(time.Hour, func() { _ = write() }) // too late
			return operations.ErrUnknownOutcome
		},
	}
	for name, fate := range upload {
		for _, describeFirst := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { replay(t, fate, describeFirst) })
			})
		}
	}
}

// describing is a store whose writes by a describe have another fate.
type describing struct {
	*operations.MemoryStore
	fate func(ctx context.Context, write func() error) error
}

type byDescribe struct{}

func (s *describing) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	time.Sleep(time.Second)
	if ctx.Value(byDescribe{}) == nil {
		return s.MemoryStore.Write(ctx, name, data, old)
	}
	err = s.fate(ctx, func() (err error) {
		version, err = s.MemoryStore.Write(context.WithoutCancel(ctx), name, data, old)
		return err
	})
	return version, err
}

func replay(t *testing.T, fate func(context.Context, func() error) error, describeFirst bool) {
	t.Helper()
	store := &describing{MemoryStore: operations.NewMemoryStore(), fate: fate}
	m := newMap(t, store)
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("a")) })
	var wg sync.WaitGroup
	wg.Go(func() { // the describe: it puts progress, and uploads what changed
		if !describeFirst {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), byDescribe{}, true), time.Minute)
		defer cancel()
		rec, err := m.Get(ctx, testKey)
		if err != nil {
			return
		}
		progress, _ := rec.List.Get("a")
		progress.Status.Completed = 7
		if rec.List.Set(progress) == nil {
			_, _ = m.UploadProgressAndPut(ctx, rec)
		}
		_ = m.Upload(ctx, testKey)
	})
	wg.Go(func() { // the controller: the end, and the deletion
		if describeFirst {
			time.Sleep(time.Millisecond)
		}
		for range 3 {
			if _, err := m.Update(t.Context(), testKey, setPhase("a", operations.PhaseCompleted)); err == nil {
				break
			}
		}
		if _, err := m.Complete(t.Context(), testKey); err != nil {
			t.Errorf("Complete = %v", err)
		}
		m.Evict(testKey)
	})
	wg.Wait()
	time.Sleep(2 * time.Hour) // late writes
	rec, err := m.Peek(t.Context(), testKey)
	if want := (operations.Summary{Total: 1, Completed: 1}); err != nil || rec.Summary() != want {
		t.Errorf("the store holds %+v, %v, want %+v", rec.Summary(), err, want)
	}
}

// ops-11: after many owners have come and gone there are as many goroutines as before.
func TestCyclesLeaveNothing(t *testing.T) { // not parallel: it counts goroutines
	store := operations.NewMemoryStore()
	m := newMap(t, store)
	p, err := operations.NewPoller(m, map[string]operations.Action{"test": doneAction{}}, operations.PollerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for _, key := range benchKeys(300) {
		mustUpdate(t, m, key, func(l *operations.List) error { return l.Add(op("a"), op("b")) })
		res, err := p.Step(t.Context(), key)
		if err != nil || !res.Done {
			t.Fatalf("Step = %+v, %v, want done", res, err)
		}
		if _, err := m.Complete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if err := m.Remove(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		m.Evict(key)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines after the cycles, %d before", after, before)
	}
	if n := operations.MapKeys(m); n > 0 {
		t.Errorf("the map still knows %d keys", n)
	}
}

// doneAction says that everything is done.
type doneAction struct{}

func (doneAction) Progress(context.Context, string) (operations.Progress, error) {
	return operations.Progress{State: operations.StateCompleted}, nil
}

func (doneAction) Cancel(context.Context, string) error { return nil }
