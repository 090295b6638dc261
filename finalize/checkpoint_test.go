package finalize_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/internal/golden"
)

// world is what hooks change: objects by name, and how often each was written.
type world struct {
	objects map[string]string
	effects map[string]int
}

// hooks change the world idempotently, with failures, waits and warnings on the way.
func (w *world) hooks() []finalize.Hook {
	do := func(name string, result func() error) func(context.Context) error {
		return func(context.Context) error {
			err := result()
			if err == nil {
				w.effects[name]++
				w.objects[name] = "done"
			}
			return err
		}
	}
	success := func() error { return nil }
	return []finalize.Hook{
		{Name: "release", Run: do("release", success)},
		{Name: "update", Retries: 2, Run: do("update", func() error {
			if w.effects["update tried"]++; w.effects["update tried"] < 3 {
				return errors.New("conflict")
			}
			return nil
		})},
		{Name: "wait", Run: do("wait", func() error {
			if w.effects["wait tried"]++; w.effects["wait tried"] < 3 {
				return finalize.Later(time.Second, "pv")
			}
			return nil
		})},
		{Name: "breaks", Run: do("breaks", func() error {
			return errors.Join(finalize.Item("app", "data", errors.New("refused")), finalize.Warning(finalize.Item("", "pv-1", errors.New("odd"))))
		})},
		{Name: "needs", Needs: []string{"breaks"}, Run: do("needs", success)},
		{Name: "volumeinfo", After: []string{"release", "update", "wait", "needs"}, Run: do("volumeinfo", success)},
	}
}

// F2, fin-20: with a crash after every single checkpoint write, the counts, the results and the objects are those of one
// run, and nothing that was recorded as done is done again.
func TestCrashAfterEveryWrite(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, doc *memory) (*world, finalize.Report, int) {
		t.Helper()
		w := &world{objects: map[string]string{}, effects: map[string]int{}}
		for lives := 1; ; lives++ {
			r := mustNew(t, w.hooks(), finalize.Options{Checkpoint: doc, UID: "backup-1", Parallelism: 1})
			res, err := r.Step(t.Context())
			for err == nil && !res.Done {
				time.Sleep(res.RequeueAfter)
				res, err = r.Step(t.Context())
			}
			if err == nil {
				return w, res.Report, lives
			}
			doc.set(func(m *memory) { m.dead = false }) // the process is gone, the next one starts
		}
	}
	synctest.Test(t, func(t *testing.T) {
		whole := &memory{}
		wantWorld, want, _ := run(t, whole)
		if whole.writes < 7 || want.Errors() != 2 || want.Warnings() != 1 {
			t.Fatalf("without a crash: %d writes, report %+v", whole.writes, want)
		}
		for k := 1; k <= whole.writes; k++ {
			doc := &memory{crashAt: k}
			world, got, lives := run(t, doc)
			if lives != 2 {
				t.Errorf("crash after write %d: %d lives, want 2", k, lives)
			}
			ignore := cmpopts.IgnoreFields(finalize.HookReport{}, "Duration")
			if got.Started.IsZero() {
				t.Errorf("crash after write %d: the report has no start", k)
			}
			got.Started = want.Started // each k begins later
			if diff := cmp.Diff(want, got, ignore) + cmp.Diff(want.Results(), got.Results()); diff != "" {
				t.Errorf("crash after write %d: report (-want +got):\n%s", k, diff)
			}
			if diff := cmp.Diff(wantWorld.objects, world.objects); diff != "" {
				t.Errorf("crash after write %d: objects (-want +got):\n%s", k, diff)
			}
			for name, n := range world.effects {
				if n != wantWorld.effects[name] {
					t.Errorf("crash after write %d: %s happened %d times, want %d", k, name, n, wantWorld.effects[name])
				}
			}
			if doc.writes != whole.writes {
				t.Errorf("crash after write %d: %d writes in both lives, want %d: unchanged content is not written", k, doc.writes, whole.writes)
			}
		}
	})
}

// A crash between an effect and its record repeats the effect, and only that.
func TestCrashBeforeTheRecord(t *testing.T) {
	t.Parallel()
	doc := &memory{}
	w := &world{objects: map[string]string{}, effects: map[string]int{}}
	hooks := w.hooks()[:1]
	first := mustNew(t, hooks, finalize.Options{Checkpoint: doc})
	hooks[0].After = nil
	if _, err := first.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The process dies before the write that followed the effect.
	doc.data = bytes.Replace(doc.data, []byte(`"state":"succeeded","attempts":1`), []byte(`"state":"pending"`), 1)
	if res, err := mustNew(t, hooks, finalize.Options{Checkpoint: doc}).Step(t.Context()); err != nil || !res.Done || w.effects["release"] != 2 {
		t.Errorf("Step = %+v, %v, effect %d times, want it repeated", res, err, w.effects["release"])
	}
}

// X8: the checkpoint's form is held by a golden file, which today's program resumes.
func TestCheckpointForm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		doc := &memory{}
		w := &world{objects: map[string]string{}, effects: map[string]int{}}
		opts := finalize.Options{Checkpoint: doc, UID: "backup-1", Parallelism: 1}
		if _, err := mustNew(t, w.hooks(), opts).Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "checkpoint-v1.json", doc.data)
		resumed := &memory{data: readFile(t, "checkpoint-v1.json")}
		opts.Checkpoint = resumed
		report, err := mustNew(t, w.hooks(), opts).Run(t.Context())
		if err != nil || !report.Done() || w.effects["release"] != 1 {
			t.Errorf("Run from the golden file = %+v, %v, released %d times", report, err, w.effects["release"])
		}
	})
}

// X8: a hook that this program does not have stays in the checkpoint for the one that has.
func TestForeignHookIsKept(t *testing.T) {
	t.Parallel()
	doc := &memory{data: []byte(`{"version":1,"started":"2026-05-02T10:00:00Z","hooks":{"later release":{"state":"succeeded","attempts":1}}}`)}
	res, err := mustNew(t, []finalize.Hook{{Name: "a", Run: ok}}, finalize.Options{Checkpoint: doc}).Step(t.Context())
	if err != nil || !res.Done || len(res.Report.Hooks) != 1 || !strings.Contains(string(doc.data), "later release") {
		t.Errorf("Step = %+v, %v, checkpoint %s", res, err, doc.data)
	}
}

// X8, F7: a checkpoint that cannot be understood is refused with a typed error, nothing is run or written, and MaxTotal
// still ends the work.
func TestCheckpointRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data string
		want error
	}{
		"foreign":       {`{"version":1,"uid":"other","started":"2026-05-02T10:00:00Z"}`, finalize.ErrForeignCheckpoint},
		"no owner":      {`{"version":1,"started":"2026-05-02T10:00:00Z"}`, finalize.ErrForeignCheckpoint},
		"newer":         {`{"version":2,"uid":"mine","started":"2026-05-02T10:00:00Z"}`, finalize.ErrMalformedCheckpoint},
		"no version":    {`{"uid":"mine"}`, finalize.ErrMalformedCheckpoint},
		"no start":      {`{"version":1,"uid":"mine"}`, finalize.ErrMalformedCheckpoint},
		"no json":       {`version: 1`, finalize.ErrMalformedCheckpoint},
		"null hook":     {`{"version":1,"uid":"mine","started":"2026-05-02T10:00:00Z","hooks":{"a":null}}`, finalize.ErrMalformedCheckpoint},
		"unknown state": {`{"version":1,"uid":"mine","started":"2026-05-02T10:00:00Z","hooks":{"a":{"state":"odd"}}}`, finalize.ErrMalformedCheckpoint},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				doc := &memory{data: []byte(tc.data)}
				r := mustNew(t, []finalize.Hook{{Name: "a", Run: func(context.Context) error {
					t.Error("a hook was run")
					return nil
				}}}, finalize.Options{Checkpoint: doc, UID: "mine"})
				for range 2 {
					if _, err := r.Run(t.Context()); !errors.Is(err, tc.want) || !errors.Is(err, finalize.ErrCheckpoint) {
						t.Errorf("Run = %v, want %v", err, tc.want)
					}
				}
				time.Sleep(time.Hour)
				res, err := r.Step(t.Context())
				if err != nil || !res.Done || !errors.Is(res.Report.CheckpointErr, tc.want) || res.Report.Errors() != 1 {
					t.Errorf("Step after MaxTotal = %+v, %v, want the end with an error", res, err)
				}
				if doc.writes != 0 || string(doc.data) != tc.data {
					t.Errorf("the checkpoint was written: %s", doc.data)
				}
			})
		})
	}
}

// F7: with a store that is down finalize ends by its bound, and the report names the store.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	errDown := errors.New("507 insufficient storage")
	t.Run("from the start", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			r := mustNew(t, []finalize.Hook{{Name: "a", OnFailure: finalize.Fail, Run: ok}}, finalize.Options{Checkpoint: &memory{down: errDown}})
			if _, err := r.Step(t.Context()); !errors.Is(err, errDown) || !errors.Is(err, finalize.ErrCheckpoint) {
				t.Errorf("Step = %v, want the store's error as ErrCheckpoint", err)
			}
			report, err := r.Run(t.Context())
			if err != nil || !errors.Is(report.CheckpointErr, errDown) || report.Errors() != 1 || !report.Fatal() {
				t.Errorf("Run = %+v, %v, want the end with the store's error", report, err)
			}
			if took := time.Since(start); took < time.Hour || took > time.Hour+time.Minute {
				t.Errorf("Run took %v, want MaxTotal and at most one pause", took)
			}
		})
	})
	t.Run("meanwhile", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			doc := &memory{}
			calls := map[string]int{}
			r := mustNew(t, []finalize.Hook{
				{Name: "a", Run: func(context.Context) error {
					calls["a"]++
					doc.set(func(m *memory) { m.down = errDown })
					return nil
				}},
				{Name: "b", After: []string{"a"}, Run: func(context.Context) error { calls["b"]++; return nil }},
			}, finalize.Options{Checkpoint: doc})
			if _, err := r.Step(t.Context()); !errors.Is(err, errDown) || calls["b"] != 0 {
				t.Errorf("Step = %v with %v, want the store's error and no further hook", err, calls)
			}
			report, err := r.Run(t.Context())
			if err != nil || !errors.Is(report.CheckpointErr, errDown) || calls["a"] != 1 || calls["b"] != 1 || report.Errors() != 1 {
				t.Errorf("Run = %+v, %v with %v, want every hook run once and the store's error", report, err, calls)
			}
		})
	})
	t.Run("for a while", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			doc := &memory{down: errDown}
			time.AfterFunc(20*time.Minute, func() { doc.set(func(m *memory) { m.down = nil }) })
			report, err := mustNew(t, []finalize.Hook{{Name: "a", Run: ok}}, finalize.Options{Checkpoint: doc}).Run(t.Context())
			if err != nil || report.CheckpointErr != nil || report.Errors() != 0 {
				t.Errorf("Run = %+v, %v, want success once the store is back", report, err)
			}
		})
	})
}

// deafDocument ignores its context.
type deafDocument struct {
	memory

	hang chan struct{}
	out  atomic.Int32
}

func (d *deafDocument) Save(ctx context.Context, data []byte) error {
	d.out.Add(1)
	<-d.hang
	d.out.Add(-1)
	return d.memory.Save(ctx, data)
}

// X1: a store that ignores its context holds nobody up, and at most one write of it is out.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		doc := &deafDocument{hang: make(chan struct{})}
		defer func() { close(doc.hang); synctest.Wait() }()
		start := time.Now()
		r := mustNew(t, []finalize.Hook{{Name: "a", Run: ok}}, finalize.Options{Checkpoint: doc})
		if _, err := r.Step(t.Context()); !errors.Is(err, finalize.ErrCheckpoint) || time.Since(start) != 35*time.Second {
			t.Errorf("Step = %v after %v, want ErrCheckpoint after the timeout and the grace, 35s", err, time.Since(start))
		}
		report, err := r.Run(t.Context())
		if err != nil || report.CheckpointErr == nil || states(report)["a"] != finalize.Succeeded || doc.out.Load() != 1 {
			t.Errorf("Run = %+v, %v, %d writes out", report, err, doc.out.Load())
		}
		if took := time.Since(start); took > time.Hour+2*time.Minute {
			t.Errorf("Run took %v", took)
		}
	})
}

// What ended is recorded although the context ended with it, and a clock that runs backwards makes nothing endless.
func TestOddClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() time.Time { return start.Add(-time.Since(start)) }
		report, err := mustNew(t, []finalize.Hook{{Name: "a", Run: func(context.Context) error {
			return finalize.Later(time.Minute, "x")
		}}}, finalize.Options{Clock: clock, Checkpoint: &memory{}}).Run(t.Context())
		if err != nil || states(report)["a"] != finalize.Failed || time.Since(start) > time.Hour+time.Minute {
			t.Errorf("Run = %+v, %v after %v", report, err, time.Since(start))
		}
	})
}

// No checkpoint makes a panic, and one that is refused is not written.
func FuzzCheckpoint(f *testing.F) {
	f.Add(readFile(f, "checkpoint-v1.json"))
	f.Add([]byte(`{"version":1,"uid":"backup-1","started":"2026-05-02T10:00:00Z","hooks":{"release":{"state":"failed","items":[{}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc := &memory{data: data}
		r, err := finalize.New([]finalize.Hook{{Name: "release", Run: ok}, {Name: "volumeinfo", Run: ok}}, finalize.Options{Checkpoint: doc, UID: "backup-1"})
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Step(t.Context())
		switch {
		case err != nil && (!errors.Is(err, finalize.ErrCheckpoint) || doc.writes > 0):
			t.Errorf("Step = %v after %d writes", err, doc.writes)
		case err == nil && !res.Done:
			t.Errorf("Step = %+v, want done", res)
		}
		_ = fmt.Sprint(res.Report.Results(), res.Report.Errors())
	})
}

func readFile(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
