package operations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// script is an action whose answers are functions; it records when it was asked.
type script struct {
	mu       sync.Mutex
	start    time.Time
	log      []string // "+1.000s progress a"
	running  map[string]int
	twice    []string // operations that were asked about twice at the same time
	progress func(ctx context.Context, id string) (operations.Progress, error)
	cancel   func(ctx context.Context, id string) error
}

func newScript(progress func(ctx context.Context, id string) (operations.Progress, error)) *script {
	return &script{start: time.Now(), running: map[string]int{}, progress: progress}
}

func (s *script) enter(verb, id string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("+%.3fs %s %s", time.Since(s.start).Seconds(), verb, id))
	if s.running[id]++; s.running[id] > 1 {
		s.twice = append(s.twice, id)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[id]--
	}
}

func (s *script) Progress(ctx context.Context, id string) (operations.Progress, error) {
	defer s.enter("progress", id)()
	return s.progress(ctx, id)
}

func (s *script) Cancel(ctx context.Context, id string) error {
	defer s.enter("cancel", id)()
	if s.cancel == nil {
		return nil
	}
	return s.cancel(ctx, id)
}

func (s *script) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// poll is what most poller tests need: a map with operations and a poller with one action, "test".
type poll struct {
	store  *recorder
	m      *operations.Map
	poller *operations.Poller
}

func newPoll(t *testing.T, action operations.Action, opts operations.PollerOptions, ops ...operations.Operation) poll {
	t.Helper()
	store := newRecorder(operations.NewMemoryStore())
	m := newMap(t, store)
	mustUpdate(t, m, testKey, func(l *operations.List) error {
		now := time.Now()
		for i := range ops {
			ops[i].Status.Created = &now
		}
		return l.Add(ops...)
	})
	store.reset()
	p, err := operations.NewPoller(m, map[string]operations.Action{"test": action}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return poll{store: store, m: m, poller: p}
}

func (p poll) run(t *testing.T) operations.Summary {
	t.Helper()
	sum, err := p.poller.Run(t.Context(), testKey)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return sum
}

func (p poll) op(t *testing.T, id string) operations.Operation {
	t.Helper()
	rec, err := p.m.Peek(t.Context(), testKey)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := rec.List.Get(id)
	if !ok {
		t.Fatalf("operation %q is not in the store", id)
	}
	return o
}

// endAfter completes an operation that old.
func endAfter(d time.Duration, state operations.State) func(context.Context, string) (operations.Progress, error) {
	start := time.Now()
	return func(context.Context, string) (operations.Progress, error) {
		if time.Since(start) < d {
			return operations.Progress{State: operations.StateRunning}, nil
		}
		return operations.Progress{State: state}, nil
	}
}

// O9: fast, then slow, to the millisecond.
func TestPollerSchedule(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		opts   operations.PollerOptions
		end    time.Duration
		want   []string
	}{
		"defaults": {
			reason: "1 s for the first 10 s, then every 5 s",
			end:    20 * time.Second,
			want: []string{
				"+0.000s", "+1.000s", "+2.000s", "+3.000s", "+4.000s", "+5.000s", "+6.000s", "+7.000s", "+8.000s",
				"+9.000s", "+10.000s", "+15.000s", "+20.000s",
			},
		},
		"own numbers": {
			reason: "every number can be set",
			opts:   operations.PollerOptions{Fast: 250 * time.Millisecond, FastFor: 500 * time.Millisecond, Slow: 2 * time.Second},
			end:    3 * time.Second,
			want:   []string{"+0.000s", "+0.250s", "+0.500s", "+2.500s", "+4.500s"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				action := newScript(endAfter(tc.end, operations.StateCompleted))
				p := newPoll(t, action, tc.opts, op("a"))
				if got, want := p.run(t), (operations.Summary{Total: 1, Completed: 1}); got != want {
					t.Errorf("Run() = %+v, want %+v", got, want)
				}
				var got []string
				for _, line := range action.lines() {
					got = append(got, strings.Fields(line)[0])
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s: asked at (-want +got):\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// O9: a Step says when to come back, and asks nothing that is not due. Jitter only lengthens.
func TestPollerRequeueAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := newScript(endAfter(time.Hour, operations.StateCompleted))
		p := newPoll(t, action, operations.PollerOptions{Jitter: 0.5}, op("a"))
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil || res.Done {
			t.Fatalf("Step() = %+v, %v", res, err)
		}
		if res.RequeueAfter < time.Second || res.RequeueAfter > 1500*time.Millisecond {
			t.Errorf("RequeueAfter = %v, want 1s to 1.5s", res.RequeueAfter)
		}
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if got := len(action.lines()); got != 1 {
			t.Errorf("asked %d times, want once: the second Step came too early", got)
		}
		p.poller.Wake(testKey, "a")
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if got := len(action.lines()); got != 2 {
			t.Errorf("asked %d times after a wake-up, want twice", got)
		}
	})
}

// O9, ops-4: errors are ridden out and a later good answer wins.
func TestPollerTransientErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		errDown := errors.New("connection refused")
		action := newScript(func(context.Context, string) (operations.Progress, error) {
			if time.Since(start) < 9*time.Minute {
				return operations.Progress{}, errDown
			}
			return operations.Progress{State: operations.StateCompleted}, nil
		})
		p := newPoll(t, action, operations.PollerOptions{}, op("a"))
		res, err := p.poller.Step(t.Context(), testKey)
		if err != nil || len(res.Notes) != 1 || !errors.Is(res.Notes[0].Err, errDown) {
			t.Errorf("Step() = %+v, %v, want a note of the error", res, err)
		}
		if got, want := p.run(t), (operations.Summary{Total: 1, Completed: 1}); got != want {
			t.Errorf("Run() = %+v, want %+v", got, want)
		}
	})
}

// O9: outcomes that need no waiting.
func TestPollerOutcomes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		op     func(*operations.Operation)
		answer func() (operations.Progress, error)
		want   operations.Status
		note   error
	}{
		"permanent error": {
			reason: "an action that says Permanent is believed at once",
			answer: func() (operations.Progress, error) {
				return operations.Progress{}, operations.Permanent(errors.New("no such volume"))
			},
			want: operations.Status{Phase: operations.PhaseFailed, Error: "no such volume"},
		},
		"failure": {
			reason: "the action's text is kept",
			answer: func() (operations.Progress, error) {
				return operations.Progress{State: operations.StateFailed, Error: "disk full"}, nil
			},
			want: operations.Status{Phase: operations.PhaseFailed, Error: "disk full"},
		},
		"failure without a reason": {
			reason: "a failed operation always has an error",
			answer: func() (operations.Progress, error) { return operations.Progress{State: operations.StateFailed}, nil },
			want:   operations.Status{Phase: operations.PhaseFailed, Error: "the action reported a failure without a reason"},
		},
		"canceled by somebody else": {
			reason: "ops-7: canceled is an end of its own",
			answer: func() (operations.Progress, error) { return operations.Progress{State: operations.StateCanceled}, nil },
			want:   operations.Status{Phase: operations.PhaseCanceled, Error: "canceled"},
		},
		"unknown action": {
			reason: "ops-9: an operation nobody answers for fails at once",
			op:     func(o *operations.Operation) { o.Action = "gone" },
			answer: func() (operations.Progress, error) { return operations.Progress{}, nil },
			want:   operations.Status{Phase: operations.PhaseFailed, Error: `no action named "gone" is registered`},
		},
		"unknown state": {
			reason: "an unknown state counts as running and is reported",
			answer: func() (operations.Progress, error) { return operations.Progress{State: "Paused"}, nil },
			want:   operations.Status{Phase: operations.PhaseInProgress},
			note:   operations.ErrUnknownState,
		},
		"unknown phase in the record": {
			reason: "it counts as running and is reported; an answer replaces it",
			op:     func(o *operations.Operation) { o.Status.Phase = "Prepared" },
			answer: func() (operations.Progress, error) { return operations.Progress{State: operations.StateRunning}, nil },
			want:   operations.Status{Phase: operations.PhaseInProgress},
			note:   operations.ErrUnknownState,
		},
		"panic": {
			reason: "a panic is contained and counts as an error",
			answer: func() (operations.Progress, error) { panic("nil map") },
			want:   operations.Status{Phase: operations.PhaseInProgress},
			note:   &operations.PanicError{Value: "nil map"},
		},
		"goroutine ended": {
			reason: "an action that ends its goroutine gave no answer",
			answer: func() (operations.Progress, error) {
				runtimeGoexit()
				return operations.Progress{}, nil
			},
			want: operations.Status{Phase: operations.PhaseInProgress},
			note: errAny,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				action := newScript(func(context.Context, string) (operations.Progress, error) { return tc.answer() })
				o := op("a")
				if tc.op != nil {
					tc.op(&o)
				}
				p := newPoll(t, action, operations.PollerOptions{}, o)
				res, err := p.poller.Step(t.Context(), testKey)
				if err != nil {
					t.Fatal(err)
				}
				got := p.op(t, "a").Status
				got.Created, got.Updated = nil, nil
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s: status (-want +got):\n%s", tc.reason, diff)
				}
				checkNotes(t, res.Notes, tc.note)
				if res.Done != tc.want.Phase.IsTerminal() {
					t.Errorf("Done = %v with phase %s", res.Done, tc.want.Phase)
				}
			})
		})
	}
}

func checkNotes(t *testing.T, notes []operations.Note, want error) {
	t.Helper()
	switch {
	case want == nil && len(notes) > 0:
		t.Errorf("notes = %v, want none", notes)
	case want == nil:
	case len(notes) != 1:
		t.Errorf("notes = %v, want one", notes)
	case errors.Is(want, errAny):
	default:
		if wantPanic, ok := errors.AsType[*operations.PanicError](want); ok {
			gotPanic, ok := errors.AsType[*operations.PanicError](notes[0].Err)
			if !ok || gotPanic.Value != wantPanic.Value || len(gotPanic.Stack) == 0 {
				t.Errorf("note = %v, want the panic with its stack", notes[0].Err)
			}
		} else if !errors.Is(notes[0].Err, want) {
			t.Errorf("note = %v, want %v", notes[0].Err, want)
		}
	}
}
