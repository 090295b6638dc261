package operations_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// twoActions makes a poller with the actions "test" and "other".
func twoActions(t *testing.T, test, other operations.Action, opts operations.PollerOptions, ops ...operations.Operation) (*operations.Map, *operations.Poller) {
	t.Helper()
	m := newMap(t, operations.NewMemoryStore())
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(ops...) })
	p, err := operations.NewPoller(m, map[string]operations.Action{"test": test, "other": other}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return m, p
}

func otherOp(id string) operations.Operation {
	o := op(id)
	o.Action = "other"
	return o
}

// O9, ops-15, ops-22: while one action hangs until its deadline, the operations of another are asked on time, and what
// they say is committed on time.
func TestPollerStuckActionDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 6} { // one, and more than the action has room for
		stuckBesideGood(t, n)
	}
}

func stuckBesideGood(t *testing.T, n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stuck := newScript(func(ctx context.Context, _ string) (operations.Progress, error) {
			<-ctx.Done()
			return operations.Progress{}, context.Cause(ctx)
		})
		good := newScript(endAfter(4*time.Second, operations.StateCompleted))
		var ended atomic.Int64
		start := time.Now()
		opts := operations.PollerOptions{Hooks: operations.PollerHooks{
			Changed: func(_ context.Context, _ operations.Key, o operations.Operation) {
				if o.Status.Phase == operations.PhaseCompleted {
					ended.Store(int64(time.Since(start)))
				}
			},
		}}
		ops := []operations.Operation{otherOp("good")}
		for i := range n {
			ops = append(ops, op(fmt.Sprint("stuck-", i)))
		}
		m, p := twoActions(t, stuck, good, opts, ops...)
		res, err := p.Step(t.Context(), testKey)
		if err != nil || res.Done {
			t.Fatalf("Step() = %+v, %v", res, err)
		}
		want := []string{"+0.000s progress good", "+1.000s progress good", "+2.000s progress good", "+3.000s progress good", "+4.000s progress good"}
		if diff := cmp.Diff(want, good.lines()); diff != "" {
			t.Errorf("the good action was asked (-want +got):\n%s", diff)
		}
		if got := time.Duration(ended.Load()); got < 4*time.Second || got > 4200*time.Millisecond {
			t.Errorf("the end of the good operation was committed after %v, want 4s and the time to gather answers", got)
		}
		if rec, err := m.Get(t.Context(), testKey); err != nil || rec.Summary().Completed != 1 {
			t.Errorf("Get() = %+v, %v", rec.Summary(), err)
		}
		if got := len(stuck.twice); got > 0 {
			t.Errorf("asked twice at once about %v", stuck.twice)
		}
	})
}

// X1: an action that ignores its context is left behind after the grace time, at most once for an operation, its late
// answer is dropped, and it is named.
func TestPollerAbandonedCallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var deaf atomic.Bool
		deaf.Store(true)
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			if deaf.Load() {
				<-release
				return operations.Progress{State: operations.StateFailed, Error: "too late"}, nil
			}
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		start := time.Now()
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 31*time.Second {
			t.Errorf("Step returned after %v, want the call's deadline and grace, 31s", got)
		}
		checkNotes(t, res.Notes, operations.ErrAbandonedCallback)
		for range 3 {
			time.Sleep(5 * time.Second)
			start = time.Now()
			res, err = p.poller.Step(t.Context(), testKey)
			if err != nil || time.Since(start) > 0 {
				t.Errorf("Step beside an abandoned callback took %v, %v, want no time", time.Since(start), err)
			}
			checkNotes(t, res.Notes, operations.ErrAbandonedCallback)
		}
		if got := action.lines(); len(got) != 1 {
			t.Errorf("asked %v, want once: one callback for an operation", got)
		}
		deaf.Store(false)
		close(release)
		synctest.Wait()
		if got, want := p.run(t), (operations.Summary{Total: 1, Completed: 1}); got != want {
			t.Errorf("Run() = %+v, want %+v: the late answer is dropped", got, want)
		}
	})
}

// O10, X1: also an operation whose callback never returns ends, as abandoned.
func TestPollerStuckForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			<-release
			return operations.Progress{}, nil
		})
		opts := operations.PollerOptions{Deadline: 10 * time.Minute, CancelGrace: time.Minute}
		p := newPoll(t, action, opts, op("a"))
		start := time.Now()
		if got, want := p.run(t), (operations.Summary{Total: 1, Abandoned: 1}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
		if got := time.Since(start); got != 11*time.Minute {
			t.Errorf("ended after %v, want deadline and grace", got)
		}
		close(release)
		synctest.Wait()
	})
}

// O9: times without a limit are as long as they can be, and not over before they began.
func TestPollerNoLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const never = time.Duration(math.MaxInt64)
		action := newScript(endAfter(4*time.Second, operations.StateCompleted))
		p := newPoll(t, action, operations.PollerOptions{
			CallTimeout: never, CallGrace: never, Deadline: never, CancelGrace: never, ErrorBudget: never, StoreTimeout: never,
		}, op("a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if sum, err := p.poller.Run(ctx, testKey); err != nil || sum.Completed != 1 {
			t.Errorf("Run() = %+v, %v, want completed", sum, err)
		}
	})
}

// X1: a Step whose ctx ends returns after what it started, and loses nothing it has learnt.
func TestPollerStepCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		action := newScript(func(ctx context.Context, id string) (operations.Progress, error) {
			if id == "quick" && asked.Add(1) == 1 {
				return operations.Progress{State: operations.StateCompleted}, nil
			}
			<-ctx.Done()
			return operations.Progress{}, ctx.Err()
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("quick"), op("slow"))
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errAny)
		defer cancel()
		if _, err := p.poller.Step(ctx, testKey); !errors.Is(err, errAny) {
			t.Errorf("Step = %v, want the cause of the end", err)
		}
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if got := p.op(t, "quick").Status.Phase; got != operations.PhaseCompleted || asked.Load() != 1 {
			t.Errorf("phase = %s after %d questions, want Completed after one", got, asked.Load())
		}
	})
}

// O9: no more calls of one action run at once than its limit says.
func TestPollerConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most int
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		var ops []operations.Operation
		for _, id := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			ops = append(ops, op(id))
		}
		p := newPoll(t, action, operations.PollerOptions{ActionConcurrency: map[string]int{"test": 3}}, ops...)
		start := time.Now()
		p.run(t)
		if most != 3 || time.Since(start) != 300*time.Millisecond {
			t.Errorf("%d calls at once, %v in all, want 3 and 300ms", most, time.Since(start))
		}
	})
}

// manyScript is an action that is asked about all of its operations at once.
type manyScript struct {
	*script
	rounds [][]string
	many   func(ctx context.Context, ids []string) (map[string]operations.ProgressResult, error)
}

func (s *manyScript) ProgressMany(ctx context.Context, ids []string) (map[string]operations.ProgressResult, error) {
	s.rounds = append(s.rounds, slices.Clone(ids))
	return s.many(ctx, ids)
}

// O9: one round for all operations of an action that can; a missing answer, an error and a panic are errors of each.
func TestPollerProgressMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := &manyScript{script: newScript(nil)}
		done := map[string]operations.ProgressResult{
			"a": {Progress: operations.Progress{State: operations.StateCompleted}},
			"b": {Err: errors.New("not now")},
		}
		answers := []func() (map[string]operations.ProgressResult, error){
			func() (map[string]operations.ProgressResult, error) { return done, nil }, // c is missing
			func() (map[string]operations.ProgressResult, error) { return nil, errors.New("API down") },
			func() (map[string]operations.ProgressResult, error) { panic("nil map") },
			func() (map[string]operations.ProgressResult, error) {
				return map[string]operations.ProgressResult{"b": done["a"], "c": done["a"], "stranger": done["a"]}, nil
			},
		}
		action.many = func(context.Context, []string) (map[string]operations.ProgressResult, error) {
			return answers[len(action.rounds)-1]()
		}
		p := newPoll(t, action, operations.PollerOptions{Jitter: 1}, op("a"), op("b"), op("c"))
		for round, want := range []int{2, 2, 2, 0} { // notes
			res, err := p.poller.Step(t.Context(), testKey)
			if err != nil || len(res.Notes) != want {
				t.Errorf("round %d: %d notes, %v, want %d", round, len(res.Notes), err, want)
			}
			time.Sleep(res.RequeueAfter)
		}
		want := [][]string{{"a", "b", "c"}, {"b", "c"}, {"b", "c"}, {"b", "c"}}
		if diff := cmp.Diff(want, action.rounds); diff != "" {
			t.Errorf("rounds (-want +got):\n%s", diff)
		}
		if got := slices.Sorted(maps.Keys(action.running)); len(got) > 0 {
			t.Errorf("asked one by one about %v", got)
		}
	})
}
