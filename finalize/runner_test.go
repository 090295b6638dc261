package finalize_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/finalize"
)

// F1: independent hooks run at the same time up to the limit, each after those it names.
func TestHooksRunInParallelAndInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var l log
		run := func(name string, d time.Duration) func(context.Context) error {
			return func(context.Context) error {
				l.add(fmt.Sprintf("%v start %s", time.Since(start), name))
				time.Sleep(d)
				l.add(fmt.Sprintf("%v end %s", time.Since(start), name))
				return nil
			}
		}
		r := mustNew(t, []finalize.Hook{
			{Name: "a", Run: run("a", 2*time.Second)},
			{Name: "b", Run: run("b", 3*time.Second)},
			{Name: "c", Run: run("c", 4*time.Second)},
			{Name: "d", After: []string{"a", "b"}, Run: run("d", 5*time.Second)},
		}, finalize.Options{Parallelism: 2})
		res, err := r.Step(t.Context())
		if err != nil || !res.Done {
			t.Fatalf("Step = %+v, %v", res, err)
		}
		got := l.all()
		if got[0] > got[1] { // two start at once
			got[0], got[1] = got[1], got[0]
		}
		want := []string{
			"0s start a", "0s start b", "2s end a", "2s start c", "3s end b", "3s start d", "6s end c", "8s end d",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// F3, fin-22: a failure, a panic, a timeout and an abandoned hook stop no other, and the report lists every one.
func TestFaultsAreContained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer func() { close(release); synctest.Wait() }()
		r := mustNew(t, []finalize.Hook{
			{Name: "fails", OnFailure: finalize.Warn, Run: func(context.Context) error { return errors.New("no\nluck") }},
			{Name: "panics", OnFailure: finalize.Fail, Run: func(context.Context) error { panic("boom") }},
			{Name: "exits", Run: func(context.Context) error { runtime.Goexit(); return nil }},
			{Name: "slow", Timeout: time.Second, Run: untilDone},
			{Name: "deaf", Timeout: 3 * time.Second, Run: func(context.Context) error { <-release; return nil }},
			{Name: "needs", Needs: []string{"deaf"}, Run: ok},
			{Name: "needs that", Needs: []string{"needs"}, Run: ok},
			{Name: "last", After: []string{"fails", "panics", "exits", "slow", "deaf", "needs that"}, Run: ok},
		}, finalize.Options{Parallelism: 8, Grace: 2 * time.Second})
		start := time.Now()
		res, err := r.Step(t.Context())
		if err != nil || !res.Done {
			t.Fatalf("Step = %+v, %v", res, err)
		}
		// X1: after its deadline plus grace the call returns without the hook.
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("Step took %v, want 5s: the deaf hook's timeout and the grace", took)
		}
		want := map[string]finalize.State{
			"fails": finalize.Failed, "panics": finalize.Failed, "exits": finalize.Failed, "slow": finalize.Failed, "deaf": finalize.Abandoned,
			"needs": finalize.Skipped, "needs that": finalize.Skipped, "last": finalize.Succeeded,
		}
		if diff := cmp.Diff(want, states(res.Report)); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		wantResults := finalize.Results{
			Warnings: finalize.ResultSet{Velero: []string{"hook fails: no; luck"}},
			Errors: finalize.ResultSet{Velero: []string{
				"hook panics: panic: boom",
				"hook exits: callback ended its goroutine",
				"hook slow: hook timed out after 1s",
				"hook deaf: abandoned callback: it ignored the end of its context",
				"hook needs: skipped: it needs deaf, which is abandoned",
				"hook needs that: skipped: it needs needs, which is skipped",
			}},
		}
		if diff := cmp.Diff(wantResults, res.Report.Results()); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		if r := res.Report; r.Errors() != 6 || r.Warnings() != 1 || !r.Fatal() || !r.Done() {
			t.Errorf("errors %d, warnings %d, fatal %v, done %v, want 6, 1, true, true", r.Errors(), r.Warnings(), r.Fatal(), r.Done())
		}
	})
}

// X1: at most one call of a hook exists, and the late result of an abandoned one is dropped.
func TestAbandonedHookStaysAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calls atomic.Int32
		r := mustNew(t, []finalize.Hook{{Name: "deaf", Timeout: time.Second, Retries: 5, Run: func(context.Context) error {
			calls.Add(1)
			<-release
			return nil
		}}}, finalize.Options{Checkpoint: &memory{}})
		first, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		close(release)
		synctest.Wait()
		second, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" || states(second)["deaf"] != finalize.Abandoned || calls.Load() != 1 {
			t.Errorf("after the late result: %v with %d calls, want abandoned with 1:\n%s", states(second), calls.Load(), diff)
		}
	})
}

// F2: a step does not wait for what must wait, and a wait ends (F7) with what was waited for.
func TestLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		doc := &memory{}
		var calls int
		r := mustNew(t, []finalize.Hook{
			{Name: "bind", Run: func(context.Context) error {
				calls++
				return errors.Join(finalize.Item("app", "logs", errors.New("forbidden")), finalize.Later(7*time.Minute, "pv of app/data is not bound"))
			}},
			{Name: "other", Run: ok},
			{Name: "after", After: []string{"bind"}, Run: ok},
		}, finalize.Options{Checkpoint: doc, MaxTotal: time.Hour})
		res, err := r.Step(t.Context())
		if err != nil || res.Done || res.RequeueAfter != 7*time.Minute || time.Since(start) != 0 {
			t.Fatalf("Step = %+v, %v after %v, want to come back in 7m at once", res, err, time.Since(start))
		}
		want := map[string]finalize.State{"bind": finalize.Waiting, "other": finalize.Succeeded, "after": finalize.Pending}
		if diff := cmp.Diff(want, states(res.Report)); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		writes := doc.writes
		for range 3 { // too early: nothing is called
			if res, err = r.Step(t.Context()); err != nil || res.RequeueAfter != 7*time.Minute {
				t.Fatalf("early Step = %+v, %v", res, err)
			}
		}
		time.Sleep(7 * time.Minute)
		if _, err := r.Step(t.Context()); err != nil || calls != 2 || doc.writes != writes {
			t.Errorf("second call: %d calls, %d writes (%v), want 2 and none: nothing changed", calls, doc.writes-writes, err)
		}
		report, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("the wait ended after %v, want MaxTotal, 1h", took)
		}
		items := []finalize.Entry{
			{Message: "gave up after 1h0m0s: waited for: pv of app/data is not bound"},
			{Namespace: "app", Name: "logs", Message: "forbidden"},
		}
		if h := report.Hooks[0]; h.State != finalize.Failed || h.Attempts != 0 || !slices.Equal(h.Items, items) {
			t.Errorf("hook = %+v, want failed with what it waited for, and with what else it had to say", h)
		}
		if states(report)["after"] != finalize.Succeeded {
			t.Errorf("states = %v, want the hook after it to have run", states(report))
		}
	})
}

// F2: failures are retried with growing pauses; a hook that runs meanwhile does not hold up the retry.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		r := mustNew(t, []finalize.Hook{
			{Name: "flaky", Retries: 7, Run: func(context.Context) error {
				at = append(at, time.Since(start))
				if len(at) == 8 {
					return nil
				}
				return errors.New("connection refused")
			}},
			{Name: "long", Run: func(context.Context) error { time.Sleep(5 * time.Second); return nil }},
			{Name: "never", Retries: 1, Run: func(context.Context) error { return errors.New("no") }},
		}, finalize.Options{})
		report, err := r.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second, 61 * time.Second, 91 * time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if f, n := report.Hooks[0], report.Hooks[2]; f.State != finalize.Succeeded || f.Attempts != 8 || n.State != finalize.Failed || n.Attempts != 2 {
			t.Errorf("report = %+v", report)
		}
		if report.Errors() != 1 {
			t.Errorf("Errors() = %d, want 1: only the last attempt counts", report.Errors())
		}
	})
}

// F7: once MaxTotal has passed nothing is retried, and what was never called is called once, also after a long time down.
func TestMaxTotalPassedWhileDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		doc := &memory{}
		var volumeInfo, later int
		hooks := []finalize.Hook{
			{Name: "wait", Run: func(context.Context) error { later++; return finalize.Later(time.Minute, "x") }},
			{Name: "flaky", Retries: 100, Run: func(context.Context) error { return errors.New("still no") }},
			{Name: "volumeinfo", After: []string{"wait", "flaky"}, Run: func(context.Context) error { volumeInfo++; return nil }},
		}
		if res, err := mustNew(t, hooks, finalize.Options{Checkpoint: doc}).Step(t.Context()); err != nil || res.Done {
			t.Fatalf("Step = %+v, %v", res, err)
		}
		time.Sleep(48 * time.Hour)
		res, err := mustNew(t, hooks, finalize.Options{Checkpoint: doc}).Step(t.Context())
		if err != nil || !res.Done || volumeInfo != 1 || later != 2 {
			t.Fatalf("Step after two days = %+v, %v, volume info written %d times, waited %d times", res, err, volumeInfo, later)
		}
		if h := res.Report.Hooks[1]; h.State != finalize.Failed || h.Error != "still no" || h.Attempts != 1 {
			t.Errorf("flaky = %+v, want failed with its last error", h)
		}
	})
}

// X2: the end of the caller's context ends the step, says so, counts no attempt, and what was done meanwhile is recorded.
func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		doc := &memory{}
		var calls atomic.Int32
		hooks := []finalize.Hook{
			{Name: "cut off", Run: func(ctx context.Context) error {
				if calls.Add(1) > 1 {
					return nil
				}
				return untilDone(ctx)
			}},
			{Name: "finishes", Run: func(ctx context.Context) error { <-ctx.Done(); return nil }},
			{Name: "next", After: []string{"finishes"}, Run: ok},
		}
		cause := errors.New("lease lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		res, err := mustNew(t, hooks, finalize.Options{Checkpoint: doc}).Step(ctx)
		if !errors.Is(err, cause) || res.Done {
			t.Fatalf("Step = %+v, %v, want the cause", res, err)
		}
		restarted := mustNew(t, hooks, finalize.Options{Checkpoint: doc})
		if _, err := restarted.Step(ctx); !errors.Is(err, cause) {
			t.Errorf("Step with an ended context = %v, want the cause", err)
		}
		report, err := restarted.Run(t.Context())
		if err != nil || report.Errors() != 0 || calls.Load() != 2 {
			t.Fatalf("Run = %+v, %v with %d calls", report, err, calls.Load())
		}
		for _, h := range report.Hooks {
			if h.State != finalize.Succeeded || h.Attempts != 1 {
				t.Errorf("%+v, want one attempt", h)
			}
		}
	})
}

// X1: a hook that ignores a cancelled step is waited for the grace, never called a second time while it is out, and
// abandoned by the next step, unless it has returned by then.
func TestCancelOfDeafHook(t *testing.T) {
	t.Parallel()
	for name, returns := range map[string]bool{"returns in time": true, "never returns": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				var calls, out atomic.Int32
				r := mustNew(t, []finalize.Hook{{Name: "deaf", Run: func(context.Context) error {
					if out.Add(1) > 1 {
						t.Error("two calls at the same time")
					}
					defer out.Add(-1)
					if calls.Add(1) == 1 {
						<-release
						return errors.New("late")
					}
					return nil
				}}}, finalize.Options{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				if _, err := r.Step(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 6*time.Second {
					t.Errorf("Step = %v after %v, want the deadline after 1s and the grace of 5s", err, time.Since(start))
				}
				want := map[string]finalize.State{"deaf": finalize.Abandoned}
				if returns {
					close(release)
					synctest.Wait()
					want["deaf"] = finalize.Succeeded
				}
				report, err := r.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, states(report)); diff != "" {
					t.Errorf("states (-want +got):\n%s", diff)
				}
				if !returns {
					close(release)
				}
			})
		})
	}
}

// X4: every start, wait and end is observed once, and an observer's panic hurts nobody.
func TestObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		attempts := 0
		r := mustNew(t, []finalize.Hook{
			{Name: "flaky", Retries: 1, Run: func(context.Context) error {
				if attempts++; attempts == 1 {
					return errors.New("no")
				}
				return nil
			}},
			{Name: "needs", Needs: []string{"flaky"}, Run: func(context.Context) error { return errors.New("bad") }},
			{Name: "skipped", Needs: []string{"needs"}, Run: ok},
		}, finalize.Options{Observer: finalize.Observer{
			Started: func(_ context.Context, hook string, attempt int) {
				got = append(got, fmt.Sprintf("start %s %d", hook, attempt))
				panic("observer")
			},
			Waiting: func(_ context.Context, hook, why string, d time.Duration) {
				got = append(got, fmt.Sprintf("wait %s %v: %s", hook, d, why))
			},
			Ended: func(_ context.Context, h finalize.HookReport) {
				got = append(got, fmt.Sprintf("end %s %s", h.Name, h.State))
			},
		}})
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"start flaky 1", "wait flaky 1s: no", "start flaky 2", "end flaky succeeded", "start needs 1", "end needs failed", "end skipped skipped",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("observed (-want +got):\n%s", diff)
		}
	})
}

// A hook sees what came before it.
func TestSoFar(t *testing.T) {
	t.Parallel()
	var seen finalize.Report
	r := mustNew(t, []finalize.Hook{
		{Name: "first", Run: func(context.Context) error { return finalize.Warning(finalize.Item("app", "data", errors.New("odd"))) }},
		{Name: "second", After: []string{"first"}, Run: func(ctx context.Context) error {
			seen, _ = finalize.SoFar(ctx)
			return nil
		}},
	}, finalize.Options{})
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen.Warnings() != 1 || states(seen)["first"] != finalize.Succeeded || states(seen)["second"] != finalize.Pending {
		t.Errorf("SoFar = %+v", seen)
	}
	if _, ok := finalize.SoFar(t.Context()); ok {
		t.Error("SoFar found a report outside of a hook")
	}
}

// Steps of one runner take turns, and waiting for a turn honours the context.
func TestConcurrentSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := mustNew(t, []finalize.Hook{{Name: "slow", Run: func(context.Context) error {
			calls.Add(1)
			time.Sleep(time.Minute)
			return nil
		}}}, finalize.Options{})
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			time.Sleep(time.Millisecond)
			if _, err := r.Step(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Step while another one runs = %v, want its own deadline", err)
			}
		}()
		for range 3 {
			if res, err := r.Step(t.Context()); err != nil || !res.Done {
				t.Errorf("Step = %+v, %v", res, err)
			}
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls, want one", calls.Load())
		}
	})
}

func TestNoHooks(t *testing.T) {
	t.Parallel()
	res, err := mustNew(t, nil, finalize.Options{}).Step(t.Context())
	if err != nil || !res.Done || res.Report.Errors() != 0 || res.Report.Fatal() {
		t.Errorf("Step of no hooks = %+v, %v, want done", res, err)
	}
}
