package finalize_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

// O6, F5: what becomes of a snapshot, its record and its results is decided on what the store holds, whatever the map of
// this process remembers.
func TestHooksReadTheStore(t *testing.T) {
	t.Parallel()
	running, ended := operation("slow", operations.PhaseInProgress, ""), operation("slow", operations.PhaseFailed, "storage full")
	for name, tc := range map[string]struct {
		cached, stored []operations.Operation
		want           string
	}{
		"ended since":      {[]operations.Operation{running}, []operations.Operation{ended}, "destroy app/slow"},
		"registered since": {nil, []operations.Operation{ended}, "destroy app/slow"},
		"runs since":       {nil, []operations.Operation{running}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := operations.NewMemoryStore()
			newMap := func() *operations.Map {
				m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			mine, theirs := newMap(), newMap()
			if tc.cached != nil {
				if _, err := mine.Update(t.Context(), key, func(l *operations.List) error { return l.Add(tc.cached...) }); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := mine.Get(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			_, err := theirs.Update(t.Context(), key, func(l *operations.List) error {
				return errors.Join(l.Merge(tc.stored...), l.Set(tc.stored...))
			})
			if err != nil {
				t.Fatal(err)
			}
			snaps, doc := newFakeSnapshots("slow"), recordsDoc(t, cutRecord("slow"))
			results, err := finalize.OperationResults(mine, key)(t.Context())
			if want := map[bool]int{true: 1}[tc.want != ""]; err != nil || results.Errors.Len() != want {
				t.Errorf("OperationResults = %+v, %v, want %d errors", results, err, want)
			}
			r := mustNew(t, []finalize.Hook{finalize.ReleaseSnapshots(snaps, owner, mine, key), finalize.WriteVolumeInfo(doc, mine, key)}, finalize.Options{})
			res, err := r.Step(t.Context())
			if err != nil || res.Report.Hooks[0].State == finalize.Succeeded != (tc.want != "") {
				t.Errorf("Step = %+v, %v", res, err)
			}
			if got := strings.Join(snaps.calls(), ", "); got != tc.want {
				t.Errorf("removed %q, want %q", got, tc.want)
			}
			if rec := recordsOf(t, doc)[0]; rec.Final() != (tc.want != "") {
				t.Errorf("record = %+v", rec)
			}
		})
	}
}

// downUntil is operations on a store that fails for a while.
type downUntil struct {
	*operations.Map
	back time.Time
	err  error
}

func (d downUntil) Peek(ctx context.Context, k operations.Key) (operations.Record, error) {
	if time.Now().Before(d.back) {
		return operations.Record{}, d.err
	}
	return d.Map.Peek(ctx, k)
}

// F7, F5: a store that is down for a while holds the release up and fails nothing; a record that cannot be read fails it.
func TestReleaseRidesOutTheStore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		down time.Duration
		want finalize.State
	}{
		"down for a while": {errors.New("store is down"), 5 * time.Minute, finalize.Succeeded},
		"down for long":    {errors.New("store is down"), 2 * time.Hour, finalize.Failed},
		"not readable":     {operations.ErrMalformed, 5 * time.Minute, finalize.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ops := downUntil{opsMap(t, operation("good", operations.PhaseCompleted, "")), start.Add(tc.down), tc.err}
				snaps := newFakeSnapshots("good")
				h := runOnce(t, finalize.ReleaseSnapshots(snaps, owner, ops, key)).Hooks[0]
				if h.State != tc.want || (tc.want == finalize.Succeeded) == snaps.there[ref("good")] {
					t.Errorf("hook = %+v, objects %v", h, snaps.there)
				}
				if tc.want == finalize.Failed && !strings.Contains(h.Error, tc.err.Error()) {
					t.Errorf("hook = %+v, want it to say %v", h, tc.err)
				}
			})
		})
	}
}
