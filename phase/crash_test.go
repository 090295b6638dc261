package phase_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/sheetanchor/sheetanchor/phase"
)

// story is a piece of work as a reconciler does it; facts are what its records say.
type story struct {
	reason  string
	working phase.Tally // when the items are processed
	waiting phase.Tally // when the operations have ended
	final   phase.Tally // when the last steps are done
	fatal   string      // raised instead of the working tally
	cancel  bool        // raised when waiting
	invalid bool
	end     MyPhase
	why     string // reason at the end
}

var stories = map[string]story{
	"clean": {
		reason:  "operations run and complete",
		working: phase.Tally{Running: 2}, waiting: phase.Tally{Completed: 2}, final: phase.Tally{Completed: 2}, end: phase.Completed,
	},
	"no operations": {reason: "finalizing is not skipped", end: phase.Completed},
	"one fails": {
		reason:  "fault A: the failure is seen once, early, and must not get lost",
		working: phase.Tally{Running: 1, Failed: 1}, waiting: phase.Tally{Completed: 2}, final: phase.Tally{Completed: 2},
		end: phase.PartiallyFailed, why: phase.ReasonOperationsFailed,
	},
	"a hook fails": {
		reason: "the last steps count",
		final:  phase.Tally{Errors: 1}, end: phase.PartiallyFailed, why: phase.ReasonItemErrors,
	},
	"fatal": {
		reason: "told once; no later process knows of it but by the reason",
		fatal:  "the store is on fire", end: phase.Failed, why: phase.ReasonFatal,
	},
	"canceled": {
		reason:  "told once; operations are canceled",
		working: phase.Tally{Running: 2}, waiting: phase.Tally{Canceled: 2}, final: phase.Tally{Canceled: 2}, cancel: true,
		end: phase.Failed, why: phase.ReasonCanceled,
	},
	"invalid": {reason: "nothing is processed", invalid: true, end: phase.FailedValidation, why: phase.ReasonInvalid},
}

// step does what can be done now, as examples/backup does. It says whether the work has ended.
func (s story) step(ctx context.Context, p *process) (bool, error) {
	state, err := p.Load(ctx)
	if err != nil {
		return false, err
	}
	return s.from(ctx, p, state)
}

// from does what can be done from a state that may be old.
func (s story) from(ctx context.Context, p *process, state phase.State[MyPhase]) (bool, error) {
	var err error
	switch m := p.Machine(); {
	case m.IsTerminal(state.Phase):
		return true, nil
	case state.Phase == phase.New && s.invalid:
		_, err = p.Apply(ctx, state, phase.EventInvalid, "no such namespace")
	case state.Phase == phase.New:
		_, err = p.Apply(ctx, state, phase.EventStart, "")
	case m.IsWaiting(state.Phase) && s.cancel && state.Reason != phase.ReasonCanceled:
		_, err = p.Apply(ctx, state, phase.EventCancel, "by alice")
	case m.IsWaiting(state.Phase):
		_, err = p.Advance(ctx, state, s.waiting)
	case m.IsFinalizing(state.Phase):
		_, err = p.Advance(ctx, state, s.final)
	case s.fatal != "":
		_, err = p.Apply(ctx, state, phase.EventFatal, s.fatal)
	default:
		_, err = p.Advance(ctx, state, s.working)
	}
	return false, err
}

// run steps until the work has ended; a dead process is followed by a new one.
func (s story) run(t *testing.T, w *world, opts options) (lives int) {
	t.Helper()
	p := w.start(t, opts)
	for lives = 1; ; {
		for range 20 {
			done, err := s.step(p.ctx, p)
			if done {
				return lives
			}
			if err != nil && p.ctx.Err() != nil {
				break
			}
		}
		if p.ctx.Err() == nil || lives == 5 {
			t.Fatal("the work does not end")
		}
		p = w.start(t, opts)
		lives++
	}
}

// P6, P5, P7: each single write of each story fails in each way there is, or the process dies around it. The object is
// never ahead of the record; the work ends as it would have; one terminal phase is seen, with its time, and a process
// that lives reports it once. Rows phase-1, phase-2, phase-11, phase-14, phase-15, phase-18.
func TestEverySingleWriteFails(t *testing.T) {
	t.Parallel()
	kinds := append([]fault{crashBefore, crashAfter}, living...)
	for name, s := range stories {
		for _, withRecord := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, record %v", name, withRecord), func(t *testing.T) {
				t.Parallel()
				total := 0
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					s.run(t, w, options{owner: "a", noRecord: !withRecord})
					s.checkEnd(t, w, "without a fault", withRecord)
					total = w.writes
				})
				for k := range total {
					for _, kind := range kinds {
						synctest.Test(t, func(t *testing.T) {
							w := newWorld()
							w.fault = func(n int, _ string) fault {
								if n == k {
									return kind
								}
								return pass
							}
							lives := s.run(t, w, options{owner: "a", noRecord: !withRecord})
							what := fmt.Sprintf("write %d: %s", k, kind)
							s.checkEnd(t, w, what, withRecord)
							if crash := kind == crashBefore || kind == crashAfter; crash != (lives == 2) {
								t.Errorf("%s: %d lives", what, lives)
							} else if !crash && w.ended != 1 {
								t.Errorf("%s: the end was reported %d times, want once", what, w.ended)
							}
						})
					}
				}
				t.Logf("%d writes, each with %d faults", total, len(kinds))
			})
		}
	}
}

// P6: any number of writes in a row fails, and each process dies after a few writes.
func TestEveryProcessDiesSoon(t *testing.T) {
	t.Parallel()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range []fault{crashBefore, crashAfter} {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					w.fault = func(n int, _ string) fault {
						if n%3 == 2 {
							return kind
						}
						return pass
					}
					s.run(t, w, options{owner: "a"})
					s.checkEnd(t, w, string(kind), true)
					if w.ended > 1 {
						t.Errorf("%s: the end was reported %d times, want at most once", kind, w.ended)
					}
				})
			}
		})
	}
}

func (s story) checkEnd(t *testing.T, w *world, what string, withRecord bool) {
	t.Helper()
	if !withRecord {
		w.faults = nil // without a record the object is ahead of it, of course
	}
	w.check(t, what)
	state, err := w.object.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if state.Phase != s.end || state.Reason != s.why || state.Completed.IsZero() || state.Started.IsZero() != s.invalid {
		t.Errorf("%s: ended as %+v, want %q with reason %q: %s", what, state, s.end, s.why, s.reason)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if recorded := w.recordedPhase(); withRecord && recorded != state.Phase {
		t.Errorf("%s: the record says %q, the object %q", what, recorded, state.Phase)
	}
}
