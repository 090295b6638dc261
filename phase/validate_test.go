package phase_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

type (
	spec       = phase.Spec[MyPhase]
	transition = phase.Transition[MyPhase]
)

// small is a valid machine without waiting phases and without cancel; the tests below break it.
func small() ([]spec, []transition) {
	specs := []spec{
		{Phase: "Idle", Class: phase.ClassReady},
		{Phase: "Work", Class: phase.ClassWorking},
		{Phase: "End", Class: phase.ClassFinalizing},
		{Phase: "EndBad", Class: phase.ClassFinalizing, Failing: true},
		{Phase: "Done", Class: phase.ClassTerminal},
		{Phase: "Bad", Class: phase.ClassTerminal, Failing: true},
	}
	return specs, []transition{
		{From: "Idle", Event: phase.EventStart, To: "Work"},
		{From: "Idle", Event: phase.EventFatal, To: "Bad"},
		{From: "Work", Event: phase.EventFinalize, To: "End"},
		{From: "Work", Event: phase.EventFinalizePartiallyFailed, To: "EndBad"},
		{From: "End", Event: phase.EventCompleted, To: "Done"},
		{From: "End", Event: phase.EventPartiallyFailed, To: "Bad"},
		{From: "End", Event: phase.EventFailed, To: "Bad"},
		{From: "EndBad", Event: phase.EventPartiallyFailed, To: "Bad"},
		{From: "EndBad", Event: phase.EventFailed, To: "Bad"},
	}
}

// P3: the constructor refuses a table that breaks P2, and names the phase at fault.
func TestNewMachineRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		change func(s []spec, tr []transition) ([]spec, []transition)
		phase  string
		event  phase.Event
	}{
		"no phase at all": {
			reason: "there is nothing to start in",
			change: func([]spec, []transition) ([]spec, []transition) { return nil, nil },
		},
		"failing work that cannot be ended": {
			reason: "a cancel whose workers hang could not be led to its end",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return append(s, spec{Phase: "Stopping", Class: phase.ClassWorking, Failing: true}),
					append(tr, transition{"Work", "Stop", "Stopping"}, transition{"Stopping", "Stopped", "EndBad"})
			},
			phase: "Stopping", event: phase.EventFinalizePartiallyFailed,
		},
		"phase that is not text": {
			reason: "a record of it would come back as another phase",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return append(s, spec{Phase: "B\xff", Class: phase.ClassTerminal, Failing: true}), append(tr, transition{"Idle", "Other", "B\xff"})
			},
			phase: "B\xff",
		},
		"event that is not text": {
			reason: "a record of it would come back as another event",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{"Idle", "Oth\xff", "Bad"})
			},
			phase: "Idle", event: "Oth\xff",
		},
		"initial phase works": {
			reason: "work starts before an item is processed",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s[0], s[1] = s[1], s[0]
				return s, tr
			},
			phase: "Work",
		},
		"phase without a name": {
			reason: "the empty phase means the initial one",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return append(s, spec{Class: phase.ClassReady}), tr
			},
		},
		"phase twice": {
			reason: "two descriptions contradict each other",
			change: func(s []spec, tr []transition) ([]spec, []transition) { return append(s, s[1]), tr },
			phase:  "Work",
		},
		"phase without a class": {
			reason: "no phase is unclassified",
			change: func(s []spec, tr []transition) ([]spec, []transition) { return append(s, spec{Phase: "Odd"}), tr },
			phase:  "Odd",
		},
		"phase of a class that does not exist": {
			reason: "a number is not a class",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return append(s, spec{Phase: "Odd", Class: phase.ClassTerminal + 1}), tr
			},
			phase: "Odd",
		},
		"ready phase that is failing": {
			reason: "nothing was processed that could have failed",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s[0].Failing = true
				return s, tr
			},
			phase: "Idle",
		},
		"external phase that is not terminal": {
			reason: "nobody would move the work on",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s[1].External = true
				return s, tr
			},
			phase: "Work",
		},
		"transition to an external phase": {
			reason: "somebody else sets it",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s = append(s, spec{Phase: "Gone", Class: phase.ClassTerminal, Failing: true, External: true})
				return s, append(tr, transition{From: "End", Event: "Delete", To: "Gone"})
			},
			phase: "Gone", event: "Delete",
		},
		"transition without an event": {
			reason: "nothing would trigger it",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "Idle", To: "Work"})
			},
			phase: "Idle",
		},
		"transition from nowhere": {
			reason: "the phase is not in the machine",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "Nowhere", Event: "Go", To: "Work"})
			},
			phase: "Nowhere", event: "Go",
		},
		"transition to nowhere": {
			reason: "the phase is not in the machine",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "Idle", Event: "Go", To: "Nowhere"})
			},
			phase: "Nowhere", event: "Go",
		},
		"event with two transitions": {
			reason: "the next phase must be one",
			change: func(s []spec, tr []transition) ([]spec, []transition) { return s, append(tr, tr[0]) },
			phase:  "Idle", event: phase.EventStart,
		},
		"terminal phase that is left": {
			reason: "terminal phases absorb",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "Bad", Event: "Retry", To: "Bad"})
			},
			phase: "Bad", event: "Retry",
		},
		"way back": {
			reason: "the order of classes is the order of the work",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "End", Event: "Again", To: "Work"})
			},
			phase: "End", event: "Again",
		},
		"failure that is lost": {
			reason: "failure is sticky",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "EndBad", Event: "Mend", To: "Done"})
			},
			phase: "EndBad", event: "Mend",
		},
		"failing event to a phase that does not keep it": {
			reason: "the failure would be lost at once",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				tr[3].To = "End"
				return s, tr
			},
			phase: "Work", event: phase.EventFinalizePartiallyFailed,
		},
		"finalizing that is skipped": {
			reason: "items were processed",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "Work", Event: "Abort", To: "Bad"})
			},
			phase: "Work", event: "Abort",
		},
		"success of nothing": {
			reason: "nothing was processed",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "Idle", Event: "Skip", To: "Done"})
			},
			phase: "Idle", event: "Skip",
		},
		"phase that cannot be reached": {
			reason: "it is a mistake in the table",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return append(s, spec{Phase: "Island", Class: phase.ClassTerminal}), tr
			},
			phase: "Island",
		},
		"dead end": {
			reason: "from every phase a terminal one is reachable",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s = append(s, spec{Phase: "Pit", Class: phase.ClassWorking})
				return s, append(tr, transition{From: "Idle", Event: "Fall", To: "Pit"}, transition{From: "Pit", Event: "Dig", To: "Pit"})
			},
			phase: "Pit",
		},
		"circle": {
			reason: "a phase that was left is not entered again",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s = append(s, spec{Phase: "More", Class: phase.ClassWorking})
				return s, append(tr, transition{From: "Work", Event: "There", To: "More"}, transition{From: "More", Event: "Back", To: "Work"})
			},
			phase: "Work", event: "There",
		},
		"cancel in some phases": {
			reason: "cancel is legal from every non-terminal phase or from none",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "Idle", Event: phase.EventCancel, To: "Bad"})
			},
			phase: "Work", event: phase.EventCancel,
		},
		"no end for a partial failure": {
			reason: "the outcome of a finalizing phase must be legal",
			change: func(s []spec, tr []transition) ([]spec, []transition) { return s, slices.Delete(tr, 5, 6) },
			phase:  "End", event: phase.EventPartiallyFailed,
		},
		"finalize without its failing counterpart": {
			reason: "the outcome of a working phase must be legal whatever failed",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				tr[3].Event = "Else"
				return s, tr
			},
			phase: "Work", event: phase.EventFinalizePartiallyFailed,
		},
		"start that does not start": {
			reason: "an owner would be told to work in a phase where nothing is done",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s = append(s, spec{Phase: "Line", Class: phase.ClassReady})
				tr[0].To = "Line"
				return s, append(tr, transition{From: "Line", Event: "Go", To: "Work"})
			},
			phase: "Idle", event: phase.EventStart,
		},
		"outcome that leads elsewhere": {
			reason: "work without operations would wait",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s = append(s, spec{Phase: "Wait", Class: phase.ClassWaiting, Failing: true})
				tr[3].To = "Wait"
				return s, append(tr, transition{From: "Wait", Event: phase.EventFinalizePartiallyFailed, To: "EndBad"})
			},
			phase: "Work", event: phase.EventFinalizePartiallyFailed,
		},
		"success that is a failure": {
			reason: "clean work would end as a failed one",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				tr[4].To = "Bad"
				return s, append(tr, transition{From: "End", Event: "Fine", To: "Done"})
			},
			phase: "End", event: phase.EventCompleted,
		},
		"fatal error that leads on when told again": {
			reason: "telling it twice must be telling it once",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "End", Event: phase.EventFatal, To: "EndBad"}, transition{From: "EndBad", Event: phase.EventFatal, To: "Bad"})
			},
			phase: "End", event: phase.EventFatal,
		},
		"event of the package's own": {
			reason: "a take-over moves nothing",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				return s, append(tr, transition{From: "Idle", Event: phase.EventTakeOver, To: "Work"})
			},
			phase: "Idle", event: phase.EventTakeOver,
		},
		"restart of no kind": {
			reason: "nobody could decide what becomes of it",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s[1].Restart = phase.RestartFail + 1
				return s, tr
			},
			phase: "Work",
		},
		"restart that cannot fail": {
			reason: "without a fatal error the work would be left for ever",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s[1].Restart = phase.RestartFail
				return s, tr
			},
			phase: "Work", event: phase.EventFatal,
		},
		"waiting without an end": {
			reason: "the outcome of a waiting phase must be legal",
			change: func(s []spec, tr []transition) ([]spec, []transition) {
				s = append(s, spec{Phase: "Wait", Class: phase.ClassWaiting})
				return s, append(tr, transition{From: "Idle", Event: "Jump", To: "Wait"},
					transition{From: "Wait", Event: phase.EventFinalize, To: "End"})
			},
			phase: "Wait", event: phase.EventFinalizePartiallyFailed,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := phase.NewMachine(tc.change(small()))
			if m != nil || !errors.Is(err, phase.ErrTable) {
				t.Fatalf("NewMachine = %v, %v, want ErrTable: %s", m, err, tc.reason)
			}
			if !names(err, tc.phase, tc.event) {
				t.Errorf("NewMachine error = %v, want one that names phase %q and event %q", err, tc.phase, tc.event)
			}
		})
	}
	if _, err := phase.NewMachine(small()); err != nil {
		t.Errorf("the unbroken machine: %v", err)
	}
}

// names says whether one of the joined faults is about this phase and event.
func names(err error, at string, ev phase.Event) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	return slices.ContainsFunc(joined.Unwrap(), func(fault error) bool {
		te, ok := errors.AsType[*phase.TableError](fault)
		return ok && te.Phase == at && te.Event == ev && te.Problem != ""
	})
}

func TestNewMachineJoinsAllFaults(t *testing.T) {
	t.Parallel()
	s, tr := small()
	s[1].Class = 0
	tr[4].To = "Nowhere"
	_, err := phase.NewMachine(s, tr)
	if !names(err, "Work", "") || !names(err, "Nowhere", phase.EventCompleted) {
		t.Errorf("NewMachine error = %v, want both faults", err)
	}
}

func TestExtendRefuses(t *testing.T) {
	t.Parallel()
	_, err := phase.Backup[MyPhase]().Extend(nil, []transition{{From: phase.New, Event: "Never"}})
	te, ok := errors.AsType[*phase.TableError](err)
	if !ok || te.Phase != phase.New || te.Event != "Never" {
		t.Errorf("Extend that removes what is not there = %v, want a TableError of New and Never", err)
	}
	_, err = phase.Backup[MyPhase]().Extend(nil, []transition{{From: phase.InProgress, Event: phase.EventFatal, To: phase.Failed}})
	if !errors.Is(err, phase.ErrTable) {
		t.Errorf("Extend with a way round finalizing = %v, want ErrTable", err)
	}
}

// P2, P3: every table that differs from Velero's by one transition is walked. What the independent walker finds bad, the
// constructor must refuse; so neither is blind, and the walk of the ready-made machines means something.
func TestMutations(t *testing.T) {
	t.Parallel()
	base := phase.Restore[MyPhase]()
	var specs []spec
	for _, p := range base.Phases() {
		s, _ := base.Spec(p)
		specs = append(specs, s)
	}
	if specs[0].Phase != phase.New {
		t.Fatalf("first phase is %q", specs[0].Phase)
	}
	mutants, refused, bad := 0, 0, 0
	try := func(what string, rows []transition) {
		mutants++
		_, err := phase.NewMachine(specs, rows)
		if err != nil {
			refused++
		}
		var fault error
		everyPath(rows, base.Initial(), func(p path) bool {
			fault = checkPath(base, p)
			return fault == nil
		})
		if fault != nil {
			bad++
			if err == nil {
				t.Errorf("%s is accepted: %v", what, fault)
			}
		}
	}
	for i, old := range base.Transitions() {
		for _, to := range base.Phases() {
			if to != old.To {
				rows := base.Transitions()
				rows[i].To = to
				try(fmt.Sprintf("%q by %q to %q", old.From, old.Event, to), rows)
			}
		}
		try(fmt.Sprintf("no %q by %q", old.From, old.Event), slices.Delete(base.Transitions(), i, i+1))
	}
	for _, from := range base.Phases() { // one more transition between any two phases
		for _, to := range base.Phases() {
			try(fmt.Sprintf("%q by More to %q", from, to), append(base.Transitions(), transition{From: from, Event: "More", To: to}))
		}
	}
	if bad < mutants/3 || refused < bad {
		t.Errorf("%d mutants, %d refused, %d with a bad path: the check sees too little", mutants, refused, bad)
	}
	t.Logf("%d mutants, %d refused, %d with a bad path", mutants, refused, bad)
}

// P3: a table without one of the events that Outcome needs is refused, so that no tally can leave work stuck.
func TestOutcomeEventsCannotBeRemoved(t *testing.T) {
	t.Parallel()
	derived := []phase.Event{
		phase.EventWait, phase.EventWaitPartiallyFailed, phase.EventFinalize, phase.EventFinalizePartiallyFailed,
		phase.EventCompleted, phase.EventPartiallyFailed, phase.EventFailed, phase.EventCanceled, phase.EventCancel,
	}
	m := phase.Backup[MyPhase]()
	for _, tr := range m.Transitions() {
		required := slices.Contains(derived, tr.Event) &&
			(tr.From != phase.Finalizing || tr.Event != phase.EventFinalizePartiallyFailed) // early; Outcome never asks for it
		_, err := m.Extend(nil, []transition{{From: tr.From, Event: tr.Event}})
		if required && !errors.Is(err, phase.ErrTable) {
			t.Errorf("without %q in %q: %v, want ErrTable", tr.Event, tr.From, err)
		}
	}
}

// P3: phase-23: in every table that is accepted, Backup with one phase more of whatever class and edges, canceled work whose
// workers hang is led to its end by Load alone.
func TestEveryAcceptedTableEndsACancel(t *testing.T) {
	t.Parallel()
	const more = "Stopping"
	out := []transition{
		{more, phase.EventWaitPartiallyFailed, failing},
		{more, phase.EventFinalizePartiallyFailed, phase.FinalizingPartiallyFailed},
		{more, phase.EventFatal, failing},
		{more, phase.EventPartiallyFailed, phase.PartiallyFailed},
		{more, phase.EventFailed, phase.Failed},
		{more, phase.EventCanceled, phase.Failed},
		{more, "Stopped", failing},
	}
	accepted := 0
	for class := phase.ClassReady; class < phase.ClassTerminal; class++ {
		for set := range 1 << len(out) {
			rows := []transition{{phase.InProgress, phase.EventCancel, more}, {more, phase.EventCancel, more}}
			for i, row := range out {
				if set&(1<<i) != 0 {
					rows = append(rows, row)
				}
			}
			m, err := phase.Backup[MyPhase]().Extend([]spec{{Phase: more, Class: class, Failing: true}}, rows)
			if err != nil {
				continue
			}
			accepted++
			now := someTime
			a, err := phase.NewApplier(m, phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress}), phase.ApplierOptions[MyPhase]{
				Clock: func() time.Time { return now },
			})
			if err != nil {
				t.Fatal(err)
			}
			state, err := a.Load(t.Context())
			if err == nil {
				state, err = a.Apply(t.Context(), state, phase.EventCancel, "")
			}
			if err != nil || state.Phase != more {
				t.Fatalf("cancel = %+v, %v", state, err)
			}
			for range 3 {
				now = now.Add(time.Hour)
				if state, err = a.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !m.IsTerminal(state.Phase) {
				t.Errorf("canceled work in a %v phase with %v stays in %q", class, rows, state.Phase)
			}
		}
	}
	if accepted < 12 {
		t.Errorf("%d tables were accepted: the check sees too little", accepted)
	}
}
