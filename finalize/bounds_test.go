package finalize_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

// F2: hooks that wait longer than they pause do not keep a step busy, and one is asked again while another's first call is
// out.
func TestStepReturnsWhenAllWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var calls log
		hook := func(name string, took time.Duration) finalize.Hook {
			return finalize.Hook{Name: name, Run: func(context.Context) error {
				calls.add(fmt.Sprint(name, " ", time.Since(start)))
				time.Sleep(took)
				took = 20 * time.Second
				return finalize.Later(10*time.Second, "an operation")
			}}
		}
		r := mustNew(t, []finalize.Hook{hook("a", 20*time.Second), hook("b", 5*time.Second)}, finalize.Options{})
		res, err := r.Step(t.Context())
		if err != nil || res.Done || time.Since(start) != 35*time.Second {
			t.Errorf("Step = %+v, %v after %v, want to come back after 35s", res, err, time.Since(start))
		}
		if diff := cmp.Diff([]string{"a 0s", "b 0s", "b 15s"}, calls.sorted()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if _, err := r.Step(t.Context()); err != nil || len(calls.all()) < 4 {
			t.Errorf("the next step made no call: %v, %v", calls.all(), err)
		}
	})
}

// X1: a clock that panics, or gives a time that no checkpoint can hold, breaks nothing, also over a restart.
func TestClockFails(t *testing.T) {
	t.Parallel()
	for name, clock := range map[string]func() time.Time{
		"panics":    func() time.Time { panic("clock") },
		"zero time": func() time.Time { return time.Time{} },
		"year 0":    func() time.Time { return time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC) },
		"year 1e4":  func() time.Time { return time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -2*3600)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				opts := finalize.Options{Clock: clock, Checkpoint: &memory{}}
				for range 2 {
					res, err := mustNew(t, []finalize.Hook{{Name: "a", Run: ok}}, opts).Step(t.Context())
					if err != nil || !res.Done || res.Report.Errors() != 0 {
						t.Errorf("Step = %+v, %v, want done", res, err)
					}
				}
			})
		})
	}
}

// F2: times without a limit are as long as they can be, and not over before they began, also for a clock that goes back.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const never = time.Duration(math.MaxInt64)
		start := time.Now()
		opts := finalize.Options{
			MaxTotal: never, Grace: never, StoreTimeout: never, Checkpoint: &memory{},
			Clock: func() time.Time { return start.Add(-time.Since(start)) },
		}
		again := true
		hook := finalize.Hook{Name: "a", Timeout: never, Run: func(context.Context) error {
			time.Sleep(time.Minute)
			if again {
				again = false
				return finalize.Later(time.Minute, "x")
			}
			return nil
		}}
		report, err := mustNew(t, []finalize.Hook{hook}, opts).Run(t.Context())
		if err != nil || states(report)["a"] != finalize.Succeeded {
			t.Errorf("Run = %+v, %v, want success", report, err)
		}
	})
}

// F4: the same message is there once, also one that no file can hold as it is.
func TestResultsAreText(t *testing.T) {
	t.Parallel()
	doc := operations.NewSlot(operations.NewMemoryStore(), "results")
	var more finalize.Results
	more.Errors.Add("app", "bad \xff name")
	more.Errors.AddVelero("\xff")
	more.Warnings.Cluster = []string{"\xfe"}
	more.Warnings.Namespaces = map[string][]string{"n\xff": {"x"}, "n\xfe": {"x", "y"}}
	var got finalize.Results
	for range 2 {
		var err error
		if got, err = finalize.AddResults(t.Context(), doc, more); err != nil {
			t.Fatal(err)
		}
	}
	want := finalize.Results{
		Errors:   finalize.ResultSet{Velero: []string{"\uFFFD"}, Namespaces: map[string][]string{"app": {"bad \uFFFD name"}}},
		Warnings: finalize.ResultSet{Cluster: []string{"\uFFFD"}, Namespaces: map[string][]string{"n\uFFFD": {"x", "y"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// F2, F7: a hook with more faults than a checkpoint can hold ends all the same, and what is left out is counted.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		doc := &memory{}
		hooks := []finalize.Hook{{Name: "many", Run: func(context.Context) error {
			all := make([]error, 0, n)
			for i := range n {
				all = append(all, finalize.Item("app", fmt.Sprint("v", i), errors.New(strings.Repeat("e", 2000))))
			}
			return errors.Join(all...)
		}}}
		report, err := mustNew(t, hooks, finalize.Options{Checkpoint: doc}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		items := report.Hooks[0].Items
		if last := items[len(items)-1]; len(items) < 1000 || last.Message != fmt.Sprintf("%d more are left out", n-len(items)+1) || last.Warning {
			t.Errorf("%d items, the last is %+v", len(items), last)
		}
		if len(doc.data) > 5<<20 {
			t.Errorf("the checkpoint has %d bytes", len(doc.data))
		}
		again, err := mustNew(t, hooks, finalize.Options{Checkpoint: doc}).Run(t.Context())
		if diff := cmp.Diff(report, again); err != nil || diff != "" {
			t.Errorf("after a restart, %v (-want +got):\n%s", err, diff)
		}
	})
}

// F2: a checkpoint's write that had no answer and arrives late is the runner's own.
func TestLateCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lateStore{MemoryStore: operations.NewMemoryStore(), late: 2}
		hook := func(name string, d time.Duration) finalize.Hook {
			return finalize.Hook{Name: name, Run: func(context.Context) error { time.Sleep(d); return nil }}
		}
		opts := finalize.Options{Checkpoint: operations.NewSlot(store, "checkpoint"), UID: "u"}
		start := time.Now()
		report, err := mustNew(t, []finalize.Hook{hook("a", time.Second), hook("b", 2*time.Second)}, opts).Run(t.Context())
		if err != nil || report.Errors() != 0 || time.Since(start) > 10*time.Second || store.deliver != nil {
			t.Errorf("Run = %+v, %v after %v", report, err, time.Since(start))
		}
	})
}

// lateStore does not answer one write, and does it just before the write after it.
type lateStore struct {
	*operations.MemoryStore
	late    int // the write that is late
	deliver func() error
}

func (s *lateStore) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	if s.late--; s.late == 0 {
		data := append([]byte(nil), data...)
		s.deliver = func() error {
			_, err := s.MemoryStore.Write(context.WithoutCancel(ctx), name, data, old)
			return err
		}
		return "", operations.ErrUnknownOutcome
	}
	if s.deliver != nil {
		if err := s.deliver(); err != nil {
			return "", err
		}
		s.deliver = nil
	}
	return s.MemoryStore.Write(ctx, name, data, old)
}
