package backuptest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/operations"
)

var _ operations.Store = (*backuptest.Store[operations.Capabilities])(nil)

// B3: each fault of a store does to a call what it says.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fault  backuptest.StoreFault
		want   error // of the write
		done   bool
		took   time.Duration
	}{
		"nothing":     {"the zero fault does nothing", backuptest.StoreFault{}, nil, true, 0},
		"slow":        {"it waits first", backuptest.StoreFault{Latency: 3 * time.Second}, nil, true, 3 * time.Second},
		"too slow":    {"the context ends the wait", backuptest.StoreFault{Latency: time.Hour}, context.DeadlineExceeded, false, time.Minute},
		"fail":        {"it has an error of its own", backuptest.StoreFault{Action: backuptest.StoreFail}, backuptest.ErrStore, false, 0},
		"conflict":    {"an Err alone means to fail with it", backuptest.StoreFault{Err: operations.ErrConflict}, operations.ErrConflict, false, 0},
		"lost answer": {"it is written", backuptest.StoreFault{Action: backuptest.StoreLoseAnswer, Err: operations.ErrUnknownOutcome}, operations.ErrUnknownOutcome, true, 0},
		"hang":        {"it is not written", backuptest.StoreFault{Action: backuptest.StoreHang}, context.DeadlineExceeded, false, time.Minute},
		"hung answer": {"it is written", backuptest.StoreFault{Action: backuptest.StoreHangAnswer}, context.DeadlineExceeded, true, time.Minute},
		"torn":        {"only reads are torn", backuptest.StoreFault{Action: backuptest.StoreTear}, nil, true, 0},
		"reads":       {"the call is a write", backuptest.StoreFault{Op: "read", Action: backuptest.StoreFail}, nil, true, 0},
		"other":       {"the document is another", backuptest.StoreFault{Name: "b", Action: backuptest.StoreFail}, nil, true, 0},
		"later":       {"the call is the first", backuptest.StoreFault{Nth: 2, Action: backuptest.StoreFail}, nil, true, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := backuptest.NewStore(operations.NewMemoryStore())
				remove := store.Fault(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				version, err := store.Write(ctx, "a", []byte("text"), "")
				if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || (version == "") != (tc.want != nil) {
					t.Errorf("Write = %q, %v, want %v: %s", version, err, tc.want, tc.reason)
				}
				if took := time.Since(start); took != tc.took {
					t.Errorf("Write took %v, want %v: %s", took, tc.took, tc.reason)
				}
				remove()
				remove()
				data, _, err := store.Read(t.Context(), "a")
				if done := err == nil && string(data) == "text"; done != tc.done {
					t.Errorf("Read = %q, %v, want done: %v, %s", data, err, tc.done, tc.reason)
				}
			})
		})
	}
}

// B3: a read can be torn, the log has every call, and the first fault that is due acts.
func TestStoreReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := backuptest.NewStore(operations.NewMemoryStore())
		if !store.Capabilities().ConditionalCreate {
			t.Errorf("capabilities %+v, want those of the store below", store.Capabilities())
		}
		if _, err := store.Write(t.Context(), "a", []byte("text"), ""); err != nil {
			t.Fatal(err)
		}
		store.Fault(backuptest.StoreFault{Op: "read", Nth: 2, Action: backuptest.StoreTear, Latency: time.Second})
		store.Fault(backuptest.StoreFault{Op: "read", Nth: 2, Times: 2, Err: operations.ErrNotFound})
		for i, want := range []string{"text", "te", "", "text"} {
			data, version, err := store.Read(t.Context(), "a")
			if string(data) != want || (err != nil) != (want == "") || (version == "") != (want == "") {
				t.Errorf("read %d = %q, %q, %v, want %q", i+1, data, version, err, want)
			}
		}
		type call struct {
			Op   string
			Size int
			Took time.Duration
			Bad  bool
		}
		var got []call
		for _, c := range store.Calls() {
			got = append(got, call{c.Op + " " + c.Name, c.Size, c.Took, c.Err != nil})
		}
		want := []call{{"write a", 4, 0, false}, {"read a", 4, 0, false}, {"read a", 2, time.Second, false}, {"read a", 0, 0, true}, {"read a", 4, 0, false}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls -want +got:\n%s", diff)
		}
	})
}

// B3: a store's writes are effects of the process that makes them, and a dead process reads nothing.
func TestStoreInAProcess(t *testing.T) {
	t.Parallel()
	world := backuptest.NewStore(operations.NewMemoryStore())
	ctx, p := backuptest.NewProcess(t.Context(), map[int]backuptest.Trouble{2: backuptest.CrashAfter})
	store := world.In(p)
	version, err := store.Write(ctx, "a", []byte("1"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Write(ctx, "a", []byte("2"), version); !isCrash(err) {
		t.Errorf("second write = %v, want a crash", err)
	}
	if _, _, err := store.Read(ctx, "a"); !isCrash(err) {
		t.Errorf("read = %v, want that the process is dead", err)
	}
	if data, _, err := world.Read(t.Context(), "a"); err != nil || string(data) != "2" {
		t.Errorf("the world has %q, %v, want what was written last", data, err)
	}
	if diff := cmp.Diff([]string{"write a", "write a"}, p.Effects()); diff != "" {
		t.Errorf("effects -want +got:\n%s", diff)
	}
}

func operationsStore() operations.Store { return operations.NewMemoryStore() }

func slot(store operations.Store) *operations.Slot { return operations.NewSlot(store, "intents") }
