package phase_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

const failing = phase.WaitingForPluginOperationsPartiallyFailed

// P3, X2: which deadline counts from when, and when it has passed.
func TestStuck(t *testing.T) {
	t.Parallel()
	limits := phase.Deadlines[MyPhase]{
		Phase: map[MyPhase]time.Duration{phase.InProgress: time.Hour}, Other: 2 * time.Hour, Total: 3 * time.Hour, Grace: 10 * time.Minute,
	}
	ago := func(d time.Duration) time.Time { return someTime.Add(-d) }
	tests := map[string]struct {
		reason string
		state  phase.State[MyPhase]
		limits phase.Deadlines[MyPhase]
		want   phase.Limit // empty: not stuck
		due    time.Time
	}{
		"no limits": {
			reason: "zero bounds nothing", state: phase.State[MyPhase]{Phase: phase.InProgress, Entered: ago(1000 * time.Hour), Started: ago(1000 * time.Hour)},
		},
		"in time": {
			reason: "a minute is left", limits: limits, due: someTime.Add(time.Minute),
			state: phase.State[MyPhase]{Phase: phase.InProgress, Entered: ago(59 * time.Minute)},
		},
		"at its end": {
			reason: "its own limit, not Other", limits: limits, want: phase.LimitPhase, due: someTime,
			state: phase.State[MyPhase]{Phase: phase.InProgress, Entered: ago(time.Hour)},
		},
		"another phase": {
			reason: "Other holds for it", limits: limits, want: phase.LimitPhase, due: ago(time.Minute),
			state: phase.State[MyPhase]{Phase: failing, Entered: ago(2*time.Hour + time.Minute), Reason: phase.ReasonOperationsFailed},
		},
		"empty phase": {
			reason: "it is the initial one", limits: limits, want: phase.LimitPhase, due: ago(time.Hour),
			state: phase.State[MyPhase]{Entered: ago(3 * time.Hour)},
		},
		"all of it": {
			reason: "the phase is young, the work is not", limits: limits, want: phase.LimitTotal, due: someTime,
			state: phase.State[MyPhase]{Phase: phase.Finalizing, Entered: ago(time.Minute), Started: ago(3 * time.Hour)},
		},
		"both": {
			reason: "the first that passed", limits: limits, want: phase.LimitPhase, due: ago(2 * time.Hour),
			state: phase.State[MyPhase]{Phase: phase.InProgress, Entered: ago(3 * time.Hour), Started: ago(4 * time.Hour)},
		},
		"no time is known": {
			reason: "nothing is guessed", limits: limits, state: phase.State[MyPhase]{Phase: phase.InProgress},
		},
		"canceled, in time": {
			reason: "only Grace counts, from the cancel", limits: limits, due: someTime.Add(time.Minute),
			state: phase.State[MyPhase]{Phase: failing, Reason: phase.ReasonCanceled, Entered: ago(9 * time.Hour), Started: ago(9 * time.Hour), Changed: ago(9 * time.Minute)},
		},
		"canceled, in a later phase": {
			reason: "Grace counts anew from its entry", limits: limits, due: someTime.Add(10 * time.Minute),
			state: phase.State[MyPhase]{Phase: phase.FinalizingPartiallyFailed, Reason: phase.ReasonCanceled, Entered: someTime, Changed: ago(time.Hour)},
		},
		"canceled, too long ago": {
			reason: "whatever the workers do", limits: limits, want: phase.LimitGrace, due: someTime,
			state: phase.State[MyPhase]{Phase: failing, Reason: phase.ReasonCanceled, Entered: ago(time.Hour), Changed: ago(10 * time.Minute)},
		},
		"canceled, without a grace of one's own": {
			reason: "an hour is the default", want: phase.LimitGrace, due: someTime,
			state: phase.State[MyPhase]{Phase: failing, Reason: phase.ReasonCanceled, Changed: ago(time.Hour)},
		},
		"late, without a grace of one's own": {
			reason: "whoever sets deadlines wants an end", want: phase.LimitGrace, due: someTime,
			state: phase.State[MyPhase]{Phase: failing, Reason: phase.ReasonDeadlineExceeded, Changed: ago(time.Hour)},
		},
		"fatal, without a grace of one's own": {
			reason: "nobody asked for an end, and the operations are awaited",
			state:  phase.State[MyPhase]{Phase: failing, Reason: phase.ReasonFatal, Changed: ago(1000 * time.Hour)},
		},
		"fatal": {
			reason: "a grace was asked for", limits: limits, want: phase.LimitGrace, due: someTime,
			state: phase.State[MyPhase]{Phase: failing, Reason: phase.ReasonFatal, Changed: ago(10 * time.Minute)},
		},
		"fatal, unbounded": {
			reason: "it was asked for", limits: phase.Deadlines[MyPhase]{Grace: -1},
			state: phase.State[MyPhase]{Phase: failing, Reason: phase.ReasonFatal, Changed: ago(1000 * time.Hour)},
		},
		"ended": {
			reason: "it lasts for ever", limits: limits,
			state: phase.State[MyPhase]{Phase: phase.Failed, Reason: phase.ReasonCanceled, Entered: ago(1000 * time.Hour), Started: ago(1000 * time.Hour)},
		},
		"unknown phase": {
			reason: "a newer release's", limits: limits, state: phase.State[MyPhase]{Phase: "Paused", Entered: ago(1000 * time.Hour)},
		},
	}
	m := phase.Backup[MyPhase]()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := m.Stuck(tc.state, tc.limits, someTime)
			if (got != nil) != (tc.want != "") || got != nil && got.Limit != tc.want {
				t.Fatalf("Stuck = %v, want %q: %s", got, tc.want, tc.reason)
			}
			if due := m.Due(tc.state, tc.limits); !due.Equal(tc.due) {
				t.Errorf("Due = %v, want %v: %s", due, tc.due, tc.reason)
			}
			if got != nil && (!got.Since.Add(got.Bound).Equal(tc.due) || got.For != someTime.Sub(got.Since) || !errors.Is(got, phase.ErrStuck)) {
				t.Errorf("Stuck = %+v, want it to count up to %v", got, tc.due)
			}
		})
	}
}

func TestStuckErrorSaysAll(t *testing.T) {
	t.Parallel()
	e := &phase.StuckError{
		Phase: "InProgress", Limit: phase.LimitPhase, Bound: time.Hour, For: 90 * time.Minute, Changed: someTime, Owner: "replica-1", Life: phase.Dead,
	}
	const want = `stuck: phase "InProgress" for 1h30m0s, the limit is 1h0m0s; last change 2031-05-01T12:00:00Z; owner "replica-1", dead`
	if e.Error() != want {
		t.Errorf("Error = %s, want %s", e, want)
	}
	e = &phase.StuckError{Phase: "Finalizing", Limit: phase.LimitTotal, Bound: time.Hour, For: 2 * time.Hour}
	if want := `stuck: phase "Finalizing", 2h0m0s after the start, the limit is 1h0m0s`; e.Error() != want {
		t.Errorf("Error = %s, want %s", e, want)
	}
	e.Limit = phase.LimitGrace
	if want := `stuck: phase "Finalizing" for 2h0m0s after it was to end, the limit is 1h0m0s`; e.Error() != want {
		t.Errorf("Error = %s, want %s", e, want)
	}
}

// onTheWay are the states in which a process may find work: each phase that is not terminal, with and without a cancel.
func onTheWay(m *phase.Machine[MyPhase], now time.Time) []phase.State[MyPhase] {
	var states []phase.State[MyPhase]
	for _, p := range m.Phases() {
		if m.IsTerminal(p) {
			continue
		}
		s := phase.State[MyPhase]{Phase: p, Owner: "worker", Entered: now, Changed: now}
		if m.Class(p) > phase.ClassReady {
			s.Started = now
		}
		states = append(states, s)
		if m.IsFailing(p) {
			for _, reason := range []string{phase.ReasonCanceled, phase.ReasonFatal, phase.ReasonOperationsFailed} {
				s.Reason = reason
				states = append(states, s)
			}
		}
	}
	return states
}

// P3, X2: phase-22, phase-23, phase-24: work whose worker hangs, with a namespace that terminates for ever or an operation
// whose Cancel blocks, ends all the same: from every phase of every machine, as a failure with a typed reason, within its
// deadline and twice the grace, by nothing but Load, in whatever process. An earlier cancel stays the reason.
func TestStuckWorkEnds(t *testing.T) {
	t.Parallel()
	const limit, grace, tick = 2 * time.Hour, 20 * time.Minute, time.Minute
	for name, m := range readyMade(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range onTheWay(m, someTime) {
				synctest.Test(t, func(t *testing.T) {
					state := onTheWay(m, time.Now())[i]
					began := time.Now()
					memory := phase.NewMemory(state)
					doc := &paper{}
					var stuck []*phase.StuckError
					load := func() phase.State[MyPhase] { // a new process each time
						t.Helper()
						a, err := phase.NewApplier(m, memory, phase.ApplierOptions[MyPhase]{
							Record: phase.NewDocumentRecord[MyPhase](doc, "memory"), Owner: "watchdog",
							Deadlines: phase.Deadlines[MyPhase]{Other: limit, Grace: grace},
							Hooks:     phase.Hooks[MyPhase]{Stuck: func(_ context.Context, _ phase.State[MyPhase], e *phase.StuckError) { stuck = append(stuck, e) }},
						})
						if err != nil {
							t.Fatal(err)
						}
						s, err := a.Load(t.Context())
						if err != nil {
							t.Fatalf("Load in %q: %v", state.Phase, err)
						}
						return s
					}
					toEnd := state.Reason == phase.ReasonCanceled || state.Reason == phase.ReasonFatal
					bound := limit + 2*grace + 3*tick
					if toEnd {
						bound = 2*grace + 3*tick
					}
					var end phase.State[MyPhase]
					for !m.IsTerminal(end.Phase) || end.Phase == "" {
						if time.Since(began) > bound {
							t.Fatalf("work in %q, reason %q is in %q after %v", state.Phase, state.Reason, end.Phase, time.Since(began))
						}
						time.Sleep(tick)
						end = load()
						if !m.IsTerminal(end.Phase) && end.Owner != "worker" {
							t.Errorf("the worker of work in %q lost it to %q by a deadline", state.Phase, end.Owner)
						}
					}
					if !toEnd && time.Since(began) < limit || toEnd && time.Since(began) < grace {
						t.Errorf("work in %q ended after %v, before its time", state.Phase, time.Since(began))
					}
					want := phase.ReasonDeadlineExceeded
					if toEnd {
						want = state.Reason
					}
					if !m.IsFailing(end.Phase) || end.Reason != want || end.Completed.IsZero() || len(stuck) == 0 {
						t.Errorf("work in %q, reason %q ended as %+v, want a failure by %s", state.Phase, state.Reason, end, want)
					}
					if state.Reason == phase.ReasonCanceled {
						if to, err := m.Next(phase.FinalizingPartiallyFailed, phase.EventCanceled); err != nil || end.Phase != to {
							t.Errorf("canceled work in %q ended in %q, want %q", state.Phase, end.Phase, to)
						}
					}
					if again := load(); again != end {
						t.Errorf("Load at the end = %+v, want %+v", again, end)
					}
				})
			}
		})
	}
}

// P3: a cancel that is told again, and processes that die and are followed by others, do not put the end off.
func TestGraceIsNotExtended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := phase.NewMemory(phase.State[MyPhase]{Phase: phase.WaitingForPluginOperations, Owner: "replica-0", Entered: time.Now()})
		doc := &paper{}
		applier := func(owner string) *phase.Applier[MyPhase] {
			return newApplier(t, memory, phase.ApplierOptions[MyPhase]{
				Record: phase.NewDocumentRecord[MyPhase](doc, "memory"), Owner: owner, Deadlines: phase.Deadlines[MyPhase]{Grace: time.Hour},
			})
		}
		began := time.Now()
		for i := 1; ; i++ {
			a := applier(fmt.Sprint("replica-", i))
			r, err := a.Recover(t.Context(), phase.SingleOwner())
			if err != nil {
				t.Fatal(err)
			}
			if a.Machine().IsTerminal(r.State.Phase) {
				const message = `by alice, 1; stuck: phase "WaitingForPluginOperationsPartiallyFailed" for 1h0m0s after it was to end, the limit is 1h0m0s; ` +
					`stuck: phase "FinalizingPartiallyFailed" for 1h0m0s after it was to end, the limit is 1h0m0s`
				if r.State.Phase != phase.Failed || r.State.Reason != phase.ReasonCanceled || r.State.Message != message {
					t.Errorf("ended as %+v, want Failed with the first cancel and what was given up", r.State)
				}
				break
			}
			if !r.Mine || r.State.Owner != fmt.Sprint("replica-", i) {
				t.Fatalf("Recover %d = %+v, want the work", i, r)
			}
			if _, err := a.Apply(t.Context(), r.State, phase.EventCancel, fmt.Sprint("by alice, ", i)); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > 2*time.Hour+10*time.Minute {
				t.Fatalf("canceled work is in %q after %v", r.State.Phase, time.Since(began))
			}
			time.Sleep(5 * time.Minute)
		}
	})
}

// P4, X5: phase-6: what a process says nothing about it does not decide for the owner of the work: who only cancels, with no
// deadlines of its own or with a clock that is a little ahead, does not take the time for the last steps away.
func TestLoadOfAnothersWork(t *testing.T) {
	t.Parallel()
	hour := phase.Deadlines[MyPhase]{Grace: time.Hour}
	tests := map[string]struct {
		reason string
		owner  string
		me     string
		since  time.Duration
		limits phase.Deadlines[MyPhase]
		skew   time.Duration
		ends   bool
	}{
		"a guest":                {reason: "the owner may have hours for it", owner: "worker", me: "alice", since: 100 * time.Hour},
		"a guest without a name": {reason: "it owns nothing", owner: "worker", since: 100 * time.Hour},
		"a guest with deadlines": {reason: "it said so", owner: "worker", me: "alice", since: time.Hour + 10*time.Second, limits: hour, ends: true},
		"a guest whose clock is ahead": {
			reason: "it is not yet late by the owner's clock", owner: "worker", me: "alice", since: time.Hour + 9*time.Second, limits: hour,
		},
		"a guest with a good clock": {reason: "it said so", owner: "worker", me: "alice", since: time.Hour, limits: hour, skew: -1, ends: true},
		"the owner":                 {reason: "the default", owner: "worker", me: "worker", since: time.Hour, ends: true},
		"nobody's":                  {reason: "the default", me: "worker", since: time.Hour, ends: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := phase.NewMemory(phase.State[MyPhase]{
				Phase: phase.FinalizingPartiallyFailed, Reason: phase.ReasonCanceled, Owner: tc.owner, Changed: someTime.Add(-tc.since),
			})
			a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{
				Owner: tc.me, Deadlines: tc.limits, ClockSkew: tc.skew, Clock: func() time.Time { return someTime },
			})
			state, err := a.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := state.Phase == phase.Failed; got != tc.ends || len(memory.Changes()) > 0 != tc.ends {
				t.Errorf("Load = %+v, want the work ended: %v: %s", state, tc.ends, tc.reason)
			}
		})
	}
}

// phase-22: a stuck object blocks no other: each has an Applier, and a deadline, of its own.
func TestDeadlineOfOneObjectOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := phase.ApplierOptions[MyPhase]{Deadlines: phase.Deadlines[MyPhase]{Other: time.Hour}}
		old := newApplier(t, phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress, Entered: time.Now().Add(-time.Hour)}), limits)
		young := newApplier(t, phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress, Entered: time.Now()}), limits)
		for a, want := range map[*phase.Applier[MyPhase]]MyPhase{old: failing, young: phase.InProgress} {
			if state, err := a.Load(t.Context()); err != nil || state.Phase != want {
				t.Errorf("Load = %q, %v, want %q", state.Phase, err, want)
			}
		}
	})
}

// P3: a machine without fatal errors and cancels has other ways to the end; one that has no way only reports.
func TestStuckWorkOfAnOwnMachine(t *testing.T) {
	t.Parallel()
	s, tr := small()
	m, err := phase.NewMachine(s, tr)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[MyPhase]MyPhase{"Idle": "Bad", "Work": "EndBad", "End": "Bad", "EndBad": "Bad"} {
		memory := phase.NewMemory(phase.State[MyPhase]{Phase: at, Entered: time.Now().Add(-time.Hour)})
		a, err := phase.NewApplier(m, memory, phase.ApplierOptions[MyPhase]{Deadlines: phase.Deadlines[MyPhase]{Other: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		if state, err := a.Load(t.Context()); err != nil || state.Phase != want || state.Reason != phase.ReasonDeadlineExceeded {
			t.Errorf("Load of stuck work in %q = %+v, %v, want %q", at, state, err, want)
		}
	}
	own, err := phase.NewMachine(s, append(tr[:1:1], tr[2:]...)) // no way out of Idle but the start
	if err != nil {
		t.Fatal(err)
	}
	if _, err := phase.NewApplier(own, phase.NewMemory(phase.State[MyPhase]{}), phase.ApplierOptions[MyPhase]{
		Deadlines: phase.Deadlines[MyPhase]{Phase: map[MyPhase]time.Duration{"Idle": time.Hour, "Work": time.Hour, "Done": time.Hour}},
	}); !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), `"Idle"`) || strings.Contains(err.Error(), `"Work"`) || strings.Contains(err.Error(), `"Done"`) {
		t.Errorf("NewApplier with a deadline that can do nothing = %v, want ErrInvalid that names Idle alone", err)
	}
	memory := phase.NewMemory(phase.State[MyPhase]{Phase: "Idle", Entered: time.Now().Add(-time.Hour)})
	a, err := phase.NewApplier(own, memory, phase.ApplierOptions[MyPhase]{Deadlines: phase.Deadlines[MyPhase]{Other: time.Minute}, Owner: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if state, err := a.Load(t.Context()); err != nil || state.Phase != "Idle" || len(memory.Changes()) != 0 {
		t.Errorf("Load of work that cannot be ended = %+v, %v", state, err)
	}
	if r, err := a.Recover(t.Context(), phase.SingleOwner()); err != nil || r.Action != phase.ActionStart || r.Stuck == nil {
		t.Errorf("Recover of work that cannot be ended = %+v, %v, want it to be started and reported", r, err)
	}
}

// X2: faulty deadlines are refused, each by its name.
func TestDeadlinesAreChecked(t *testing.T) {
	t.Parallel()
	tests := map[string]phase.Deadlines[MyPhase]{
		`Deadlines.Phase of "InProgress"`: {Phase: map[MyPhase]time.Duration{phase.InProgress: -1}},
		`Deadlines.Phase of "Paused"`:     {Phase: map[MyPhase]time.Duration{"Paused": 1}},
		"Deadlines.Other":                 {Other: -1},
		"Deadlines.Total":                 {Total: -1},
	}
	for field, d := range tests {
		_, err := phase.NewApplier(phase.Backup[MyPhase](), phase.NewMemory(phase.State[MyPhase]{}), phase.ApplierOptions[MyPhase]{Deadlines: d})
		if !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("NewApplier with %+v = %v, want ErrInvalid that names %s", d, err, field)
		}
	}
}

// P3, P7: a passed deadline is a fatal error: it decides the outcome, stays the reason, and is recorded with when the phase
// began, which a change in the same phase does not move.
func TestDeadlineDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{phase.ReasonDeadlineExceeded, phase.ReasonInterrupted, phase.ReasonStoreUnavailable, phase.ReasonFatal} {
		entered := someTime.Add(-time.Hour)
		memory := phase.NewMemory(phase.State[MyPhase]{Phase: failing, Reason: phase.ReasonItemErrors, Entered: entered})
		a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{Clock: func() time.Time { return someTime }})
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if state, err = a.Apply(t.Context(), state, phase.EventFatal, reason+": too long"); err != nil || state.Reason != reason || state.Message != "too long" {
			t.Fatalf("Apply = %+v, %v, want the reason %s", state, err, reason)
		}
		if !state.Entered.Equal(entered) || !state.Changed.Equal(someTime) {
			t.Errorf("entered %v, changed %v, want %v and %v", state.Entered, state.Changed, entered, someTime)
		}
		for _, want := range []MyPhase{phase.FinalizingPartiallyFailed, phase.Failed} {
			if state, err = a.Advance(t.Context(), state, phase.Tally{Completed: 1}); err != nil || state.Phase != want || state.Reason != reason {
				t.Errorf("Advance = %+v, %v, want %q by %s", state, err, want, reason)
			}
			if !state.Entered.Equal(someTime) {
				t.Errorf("%q entered %v, want %v", want, state.Entered, someTime)
			}
		}
	}
}

// P5: work that moves on by itself at the moment of its deadline is not disturbed: Load reads again.
func TestDeadlineMeetsTheWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress, Owner: "worker", Entered: time.Now().Add(-2 * time.Hour)})
		object := &helped{Memory: memory, help: func() {
			worker := newApplier(t, memory, phase.ApplierOptions[MyPhase]{Owner: "worker"})
			state, err := memory.Get(t.Context())
			if err == nil {
				_, err = worker.Advance(t.Context(), state, phase.Tally{Completed: 1})
			}
			if err != nil {
				t.Error(err)
			}
		}}
		a := newApplier(t, object, phase.ApplierOptions[MyPhase]{Owner: "watchdog", Deadlines: phase.Deadlines[MyPhase]{Other: time.Hour}})
		if state, err := a.Load(t.Context()); err != nil || state.Phase != phase.Finalizing || state.Reason != "" {
			t.Errorf("Load = %+v, %v, want the worker's Finalizing", state, err)
		}
	})
}
