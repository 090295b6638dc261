package phase_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// beats are what may be known of an owner.
var beats = map[phase.Life]phase.Heartbeat{
	phase.LifeUnknown: {},
	phase.Live:        {Renewed: someTime, ValidFor: 15 * time.Second},
	phase.Dead:        {Renewed: someTime.Add(-time.Hour), ValidFor: 15 * time.Second},
}

// P4: phase-5, phase-6, phase-26: the decision for every phase of every machine, every owner and every sign of life, in a
// table of its own: an object in any phase has one, work of an owner that is not proved dead is left alone, and nothing in
// the decision is anybody's memory.
func TestDecideEveryPhase(t *testing.T) {
	t.Parallel()
	calls := map[phase.Class]phase.Action{
		phase.ClassReady: phase.ActionStart, phase.ClassWorking: phase.ActionRerun,
		phase.ClassWaiting: phase.ActionResume, phase.ClassFinalizing: phase.ActionResume,
	}
	for name, m := range readyMade(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range m.Phases() {
				for _, owner := range []string{"", "me", "other"} {
					for life, beat := range beats {
						d, err := m.Decide(phase.Evidence[MyPhase]{
							State: phase.State[MyPhase]{Phase: p, Owner: owner}, Me: "me", Heartbeat: beat, Now: someTime,
						})
						if err != nil {
							t.Fatalf("Decide in %q: %v", p, err)
						}
						class := m.Class(p)
						want, over := calls[class], false
						switch {
						case class == phase.ClassTerminal:
							want = phase.ActionNone
						case class == phase.ClassReady || owner == "me":
						case life == phase.Dead:
							over = true
						default:
							want = phase.ActionLeave
						}
						if d.Action != want || d.TakeOver != over || d.Phase != p || d.Differs != phase.Agree || d.Stuck != nil {
							t.Errorf("Decide in %q, owner %q, %v = %+v, want %v, take over %v", p, owner, life, d, want, over)
						}
						if want == phase.ActionLeave && life == phase.Live && !d.Until.Equal(someTime.Add(15*time.Second)) {
							t.Errorf("Decide in %q: look again at %v, want when the heartbeat ends", p, d.Until)
						}
					}
				}
			}
		})
	}
}

// P4: what becomes of interrupted work is a property of the phase, in the table.
func TestDecideByRestart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		restart phase.Restart
		owner   string
		want    phase.Action
	}{
		"by class":           {"items can be processed again", phase.RestartByClass, "dead", phase.ActionRerun},
		"rerun":              {"it is said so", phase.RestartRerun, "dead", phase.ActionRerun},
		"resume":             {"the phase keeps a checkpoint", phase.RestartResume, "dead", phase.ActionResume},
		"fail":               {"it cannot be done again", phase.RestartFail, "dead", phase.ActionFail},
		"fail, but our own":  {"this process was not interrupted", phase.RestartFail, "me", phase.ActionResume},
		"rerun, and our own": {"the step is repeated", phase.RestartRerun, "me", phase.ActionRerun},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := phase.Backup[MyPhase]().Extend([]spec{{Phase: phase.InProgress, Class: phase.ClassWorking, Restart: tc.restart}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			d, err := m.Decide(phase.Evidence[MyPhase]{
				State: phase.State[MyPhase]{Phase: phase.InProgress, Owner: tc.owner}, Me: "me", Heartbeat: beats[phase.Dead], Now: someTime,
			})
			if err != nil || d.Action != tc.want || d.TakeOver != (tc.owner == "dead") {
				t.Errorf("Decide = %+v, %v, want %v: %s", d, err, tc.want, tc.reason)
			}
		})
	}
}

// P4, P6: phase-15: object and record in every pair of phases: the decision is that of the phase in which Load brings them
// together, whichever follows, and the owner is the one who is named there.
func TestDecideSeesDivergence(t *testing.T) {
	t.Parallel()
	m := phase.Backup[MyPhase]()
	seen := map[phase.Divergence]int{}
	for _, at := range m.Phases() {
		for _, rec := range m.Phases() {
			if rec == phase.New || rec == phase.Deleting {
				continue // no change is recorded that leads there
			}
			object := phase.State[MyPhase]{Phase: at, Owner: "object", UID: "memory", Entered: someTime, Changed: someTime}
			change := phase.Change[MyPhase]{From: phase.New, To: rec, UID: "memory", Owner: "record", At: someTime}
			d, err := m.Decide(phase.Evidence[MyPhase]{
				State: object, Kept: true, Record: change, Me: "me", Heartbeat: beats[phase.Dead], Now: someTime,
			})
			if err != nil {
				t.Fatal(err)
			}
			seen[d.Differs]++
			what := fmt.Sprintf("object %q, record %q", at, rec)
			a, memory, _, _ := diverged(t, object, &change, phase.Hooks[MyPhase]{})
			state, err := a.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if state.Phase != d.Phase || d.Phase != at && d.Differs == phase.Agree {
				t.Errorf("%s: decided for %q (%v follows), Load brings them to %q", what, d.Phase, d.Differs, state.Phase)
			}
			if wrote := len(memory.Changes()) > 0; wrote && d.Differs == phase.Agree {
				t.Errorf("%s: the object was written though they agree", what)
			}
			if d.Owner != "" && d.Owner != state.Owner {
				t.Errorf("%s: decided by the life of %q, Load says the owner is %q", what, d.Owner, state.Owner)
			}
		}
	}
	if seen[phase.ObjectFollows] == 0 || seen[phase.RecordFollows] == 0 || seen[phase.Agree] == 0 {
		t.Errorf("divergences seen: %v, want some of each", seen)
	}
}

// P4: a claim that was recorded and not yet written to the object is work of the claimant, who may live.
func TestDecideAsksForTheRecordedClaimant(t *testing.T) {
	t.Parallel()
	m := phase.Backup[MyPhase]()
	e := phase.Evidence[MyPhase]{
		State: phase.State[MyPhase]{}, Kept: true, Me: "me", Now: someTime, Heartbeat: beats[phase.Live],
		Record: phase.Change[MyPhase]{From: phase.New, To: phase.InProgress, Owner: "claimant", At: someTime},
	}
	if got := m.Owner(e); got != "claimant" {
		t.Errorf("Owner = %q, want the claimant", got)
	}
	if d, err := m.Decide(e); err != nil || d.Action != phase.ActionLeave || d.Differs != phase.ObjectFollows || d.Owner != "claimant" {
		t.Errorf("Decide = %+v, %v, want to leave it to the claimant", d, err)
	}
	e.Kept = false // then the object speaks alone
	if d, err := m.Decide(e); err != nil || d.Action != phase.ActionStart || d.Differs != phase.Agree {
		t.Errorf("Decide without a record = %+v, %v, want to start it", d, err)
	}
	e.Kept, e.State.Phase, e.Record = true, phase.InProgress, phase.Change[MyPhase]{}
	if d, err := m.Decide(e); err != nil || d.Differs != phase.RecordFollows {
		t.Errorf("Decide with an empty record = %+v, %v, want that the record follows", d, err)
	}
}

// P4: nothing is decided on what is not understood.
func TestDecideRefuses(t *testing.T) {
	t.Parallel()
	m := phase.Backup[MyPhase]()
	tests := map[string]struct {
		reason string
		e      phase.Evidence[MyPhase]
		want   error
	}{
		"object of a newer release": {"its phase is unknown", phase.Evidence[MyPhase]{State: phase.State[MyPhase]{Phase: "Paused"}}, phase.ErrUnknownPhase},
		"record of a newer release": {"its phase is unknown", phase.Evidence[MyPhase]{Kept: true, Record: phase.Change[MyPhase]{To: "Paused"}}, phase.ErrUnknownPhase},
		"record of another object": {
			"same name, new object", phase.Evidence[MyPhase]{
				State: phase.State[MyPhase]{UID: "2"}, Kept: true, Record: phase.Change[MyPhase]{To: phase.InProgress, UID: "1"},
			}, phase.ErrForeignRecord,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d, err := m.Decide(tc.e); !errors.Is(err, tc.want) {
				t.Errorf("Decide = %+v, %v, want %v: %s", d, err, tc.want, tc.reason)
			}
		})
	}
}

// P4: a passed deadline is seen at start-up: our own and orphaned work fails, that of a live owner is left and reported.
func TestDecideStuck(t *testing.T) {
	t.Parallel()
	m := phase.Backup[MyPhase]()
	limits := phase.Deadlines[MyPhase]{Other: time.Hour}
	for life, beat := range beats {
		for _, late := range []bool{false, true} {
			entered := someTime.Add(-time.Minute)
			if late {
				entered = someTime.Add(-2 * time.Hour)
			}
			d, err := m.Decide(phase.Evidence[MyPhase]{
				State: phase.State[MyPhase]{Phase: phase.WaitingForPluginOperations, Owner: "other", Entered: entered},
				Me:    "me", Heartbeat: beat, Now: someTime, Deadlines: limits,
			})
			want := map[bool]phase.Action{false: phase.ActionLeave, true: phase.ActionLeave}[late]
			if life == phase.Dead {
				want = map[bool]phase.Action{false: phase.ActionResume, true: phase.ActionFail}[late]
			}
			if err != nil || d.Action != want || (d.Stuck != nil) != late || late && d.Stuck.Life != life {
				t.Errorf("Decide, owner %v, late %v = %+v, %v, want %v", life, late, d, err, want)
			}
			if due := entered.Add(time.Hour); life == phase.Dead && !d.Until.Equal(due) {
				t.Errorf("Decide, owner %v: look again at %v, want the deadline %v", life, d.Until, due)
			}
		}
	}
}

func TestNamesOfDecisions(t *testing.T) {
	t.Parallel()
	for got, want := range map[fmt.Stringer]string{
		phase.ActionNone: "none", phase.ActionStart: "start", phase.ActionRerun: "rerun", phase.ActionResume: "resume",
		phase.ActionLeave: "leave", phase.ActionFail: "fail", phase.Action(9): "action(9)",
		phase.Agree: "nothing", phase.ObjectFollows: "object", phase.RecordFollows: "record", phase.Divergence(9): "divergence(9)",
	} {
		if got.String() != want {
			t.Errorf("String of %d = %q, want %q", got, got, want)
		}
	}
}

// P4: work in a ready phase may be started by anybody, whoever put it there, so nobody is asked whether that one lives; and
// a process without an identity does not take work for its own that nobody owns.
func TestDecideOnWorkWithoutAnOwner(t *testing.T) {
	t.Parallel()
	m := queuedBackup(t)
	queued := phase.Evidence[MyPhase]{State: phase.State[MyPhase]{Phase: phase.Queued, Owner: "queue"}, Me: "me", Now: someTime}
	if owner := m.Owner(queued); owner != "" {
		t.Errorf("Owner of queued work = %q, want none", owner)
	}
	a, err := phase.NewApplier(m, phase.NewMemory(queued.State), phase.ApplierOptions[MyPhase]{Owner: "me"})
	if err != nil {
		t.Fatal(err)
	}
	unread := phase.LivenessFunc(func(context.Context, string) (phase.Heartbeat, error) { return phase.Heartbeat{}, errBroken })
	if r, err := a.Recover(t.Context(), unread); err != nil || r.Action != phase.ActionStart || !r.Mine {
		t.Errorf("Recover of queued work = %+v, %v, want to start it", r, err)
	}
	d, err := m.Decide(phase.Evidence[MyPhase]{State: phase.State[MyPhase]{Phase: phase.InProgress}, Now: someTime})
	if err != nil || d.Action != phase.ActionLeave || d.Life != phase.LifeUnknown {
		t.Errorf("Decide without an identity = %+v, %v, want to leave it", d, err)
	}
}
