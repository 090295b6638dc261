package phase_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// diverged returns an applier on an object and a record in the given states.
func diverged(t *testing.T, object phase.State[MyPhase], rec *phase.Change[MyPhase], hooks phase.Hooks[MyPhase]) (
	*phase.Applier[MyPhase], *phase.Memory[MyPhase], phase.Record[MyPhase], *paper,
) {
	t.Helper()
	doc := &paper{}
	record := phase.NewDocumentRecord[MyPhase](doc, "memory")
	if rec != nil {
		c := *rec
		if c.At.IsZero() {
			c.At = someTime
		}
		if err := record.Save(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		doc.saves = 0
	}
	memory := phase.NewMemory(object)
	return newApplier(t, memory, phase.ApplierOptions[MyPhase]{Record: record, Owner: "starter", Hooks: hooks}), memory, record, doc
}

// P6: phase-15: start-up finds a divergence in either direction and converges, for every phase of the object and every
// phase of the record. A second Load changes nothing.
func TestLoadConvergesEveryPair(t *testing.T) {
	t.Parallel()
	m := phase.Backup[MyPhase]()
	w := newWorld()
	pairs := 0
	for _, at := range m.Phases() {
		for _, recorded := range append(m.Phases(), "") {
			if spec, _ := m.Spec(recorded); spec.External || recorded == phase.New {
				continue
			}
			pairs++
			what := fmt.Sprintf("object %q, record %q", at, recorded)
			var rec *phase.Change[MyPhase]
			if recorded != "" {
				rec = &phase.Change[MyPhase]{
					From: "Somewhere", To: recorded, Event: "Something", Reason: "Recorded", Owner: "writer", At: someTime,
					Started: someTime.Add(-time.Minute), Terminal: m.IsTerminal(recorded),
				}
			}
			object := phase.State[MyPhase]{Phase: at, Reason: "Seen", Owner: "other"}
			if m.IsTerminal(at) {
				object.Completed = someTime.Add(time.Hour)
			}
			told := 0
			a, memory, record, doc := diverged(t, object, rec, phase.Hooks[MyPhase]{
				Diverged: func(context.Context, phase.State[MyPhase], MyPhase) { told++ },
			})
			state, err := a.Load(t.Context())
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			var want MyPhase
			spec, _ := m.Spec(at)
			switch forked := recorded != "" && recorded != at && !w.leads(at, recorded) && !w.leads(recorded, at); {
			case m.IsTerminal(at): // seen by others: the truth
				want = at
			case recorded != "" && w.leads(at, recorded): // the record is ahead
				want = recorded
			case forked && m.IsFailing(recorded) && !spec.Failing:
				want = map[MyPhase]MyPhase{phase.Finalizing: phase.FinalizingPartiallyFailed}[at]
				if want == "" {
					want = phase.WaitingForPluginOperationsPartiallyFailed
				}
			default: // the object is ahead
				want = at
			}
			if state.Phase != want {
				t.Errorf("%s: Load = %q, want %q", what, state.Phase, want)
			}
			if moved := len(memory.Changes()) > 0; moved != (want != at) {
				t.Errorf("%s: object moved %v to %q", what, moved, want)
			}
			c, ok, err := record.Load(t.Context())
			if err != nil || c.To != want && (ok || want != phase.New) && !spec.External {
				t.Errorf("%s: the record says %q, %v, %v, want %q", what, c.To, ok, err, want)
			}
			if want != at && recorded == want && (state.Owner != "writer" || state.Reason != "Recorded" || !state.Started.Equal(rec.Started)) {
				t.Errorf("%s: Load = %+v, want the recorded owner, reason and start", what, state)
			}
			if m.IsTerminal(want) && state.Completed.IsZero() {
				t.Errorf("%s: no completion time", what)
			}
			if differ := (recorded != at) && !spec.External && (recorded != "" || at != phase.New); differ != (told > 0) {
				t.Errorf("%s: Diverged was called %d times", what, told)
			}
			changes, saves := len(memory.Changes()), doc.saves
			again, err := a.Load(t.Context())
			if err != nil || again.Phase != want || len(memory.Changes()) != changes || doc.saves != saves {
				t.Errorf("%s: a second Load = %q, %v, and writes", what, again.Phase, err)
			}
		}
	}
	t.Logf("%d pairs", pairs)
}

// P6: the exception: an object that was ended alone because the store was dead is the truth, even if the record is a
// terminal one of a write whose answer got lost.
func TestStoreUnavailableMakesTheObjectTheTruth(t *testing.T) {
	t.Parallel()
	for _, recorded := range []MyPhase{phase.InProgress, phase.FinalizingPartiallyFailed, phase.PartiallyFailed, phase.Completed} {
		object := phase.State[MyPhase]{Phase: phase.Failed, Reason: phase.ReasonStoreUnavailable, Message: "507", Completed: someTime}
		rec := &phase.Change[MyPhase]{From: phase.Finalizing, To: recorded, Reason: phase.ReasonCanceled, Owner: "writer"}
		a, memory, record, _ := diverged(t, object, rec, phase.Hooks[MyPhase]{})
		state, err := a.Load(t.Context())
		if err != nil || state.Phase != phase.Failed || state.Reason != phase.ReasonStoreUnavailable || len(memory.Changes()) != 0 {
			t.Errorf("record %q: Load = %+v, %v, want the object as it was", recorded, state, err)
		}
		c, _, err := record.Load(t.Context())
		if err != nil || c.To != phase.Failed || c.Reason != phase.ReasonStoreUnavailable || c.Message != "507" || !c.Terminal || !c.At.Equal(someTime) {
			t.Errorf("record %q: it became %+v, %v, want the object's state", recorded, c, err)
		}
	}
}

// P6: while the store is dead, Load says so, and still shows the state of the object.
func TestLoadWithDeadStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _, _, doc := diverged(t, phase.State[MyPhase]{Phase: phase.Failed, Reason: phase.ReasonStoreUnavailable}, nil, phase.Hooks[MyPhase]{})
		doc.save = repeat(errBroken, 1)
		state, err := a.Load(t.Context())
		if !errors.Is(err, errBroken) || state.Phase != phase.Failed {
			t.Errorf("Load with a store that refuses writes = %q, %v, want Failed and the error", state.Phase, err)
		}
		doc.load = repeat(errBroken, 1)
		state, err = a.Load(t.Context())
		if !errors.Is(err, errBroken) || state.Phase != phase.Failed {
			t.Errorf("Load with a store that refuses reads = %q, %v, want Failed and the error", state.Phase, err)
		}
		if state, err = a.Load(t.Context()); err != nil || state.Phase != phase.Failed {
			t.Errorf("Load when the store is back = %q, %v", state.Phase, err)
		}
	})
}

// P6, P3: a cancel that was recorded and not written to the object is not lost, though the phase stays the same; and a
// record that did not know of the cancel does not win over it.
func TestCancelIsNotLostBetweenRecordAndObject(t *testing.T) {
	t.Parallel()
	const waiting = phase.WaitingForPluginOperationsPartiallyFailed
	tests := map[string]struct {
		reason  string
		object  phase.State[MyPhase]
		rec     phase.Change[MyPhase]
		want    MyPhase
		changes int
	}{
		"recorded only": {
			reason:  "the object follows",
			object:  phase.State[MyPhase]{Phase: waiting, Reason: phase.ReasonOperationsFailed},
			rec:     phase.Change[MyPhase]{From: waiting, To: waiting, Reason: phase.ReasonCanceled},
			want:    waiting,
			changes: 1,
		},
		"recorded only, object without a reason": {
			reason:  "the object follows",
			object:  phase.State[MyPhase]{Phase: waiting},
			rec:     phase.Change[MyPhase]{From: waiting, To: waiting, Reason: phase.ReasonCanceled},
			want:    waiting,
			changes: 1,
		},
		"object keeps no reason": {
			reason: "the state has it from the record",
			object: phase.State[MyPhase]{Phase: waiting},
			rec:    phase.Change[MyPhase]{From: phase.InProgress, To: waiting, Reason: phase.ReasonCanceled},
			want:   waiting,
		},
		"record did not know": {
			reason: "an unconditional store was overwritten by a writer that had not seen the cancel",
			object: phase.State[MyPhase]{Phase: phase.FinalizingPartiallyFailed, Reason: phase.ReasonCanceled},
			rec:    phase.Change[MyPhase]{From: phase.FinalizingPartiallyFailed, To: phase.PartiallyFailed, Reason: phase.ReasonOperationsFailed, Terminal: true},
			want:   phase.FinalizingPartiallyFailed,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, memory, _, _ := diverged(t, tc.object, &tc.rec, phase.Hooks[MyPhase]{})
			state, err := a.Load(t.Context())
			if err != nil || state.Phase != tc.want || state.Reason != phase.ReasonCanceled || len(memory.Changes()) != tc.changes {
				t.Fatalf("Load = %+v, %v after %d changes, want a canceled %q after %d: %s",
					state, err, len(memory.Changes()), tc.want, tc.changes, tc.reason)
			}
			for range 2 {
				if state, err = a.Advance(t.Context(), state, phase.Tally{Failed: 1}); err != nil {
					t.Fatal(err)
				}
			}
			if state.Phase != phase.Failed {
				t.Errorf("the work ends in %q, want Failed: %s", state.Phase, tc.reason)
			}
		})
	}
}

// X8: a recorded phase that this release does not know stops it; nothing is changed.
func TestUnknownRecordedPhase(t *testing.T) {
	t.Parallel()
	a, memory, _, doc := diverged(t, phase.State[MyPhase]{Phase: phase.InProgress}, &phase.Change[MyPhase]{From: phase.New, To: "Paused"}, phase.Hooks[MyPhase]{})
	if _, err := a.Load(t.Context()); !errors.Is(err, phase.ErrUnknownPhase) {
		t.Errorf("Load = %v, want ErrUnknownPhase", err)
	}
	if len(memory.Changes()) != 0 || doc.saves != 0 {
		t.Errorf("%d changes, %d saves, want none", len(memory.Changes()), doc.saves)
	}
}

// X2: object and record that never stand still end in an error, not in a loop.
func TestLoadGivesUpOnRestlessObjects(t *testing.T) {
	t.Parallel()
	a, _, _, _ := diverged(t, phase.State[MyPhase]{}, nil, phase.Hooks[MyPhase]{})
	if _, err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	restless := &flicker{Memory: phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress})}
	b := newApplier(t, restless, phase.ApplierOptions[MyPhase]{Record: &flicker{}})
	state, err := b.Load(t.Context())
	if !errors.Is(err, phase.ErrConflict) {
		t.Errorf("Load = %v, want ErrConflict", err)
	}
	_, err = b.Apply(t.Context(), state, phase.EventFinalize, "")
	if conflict, ok := errors.AsType[*phase.ConflictError](err); !ok || conflict.Expected != phase.InProgress || conflict.Wanted != phase.Finalizing {
		t.Errorf("Apply with a record that refuses = %v, want a ConflictError", err)
	}
}

// flicker is an object in progress, or a record that says New and refuses to follow.
type flicker struct{ *phase.Memory[MyPhase] }

func (*flicker) Load(context.Context) (phase.Change[MyPhase], bool, error) {
	return phase.Change[MyPhase]{}, false, nil
}

func (*flicker) Save(context.Context, phase.Change[MyPhase]) error { return phase.ErrConflict }
