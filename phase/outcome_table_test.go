package phase_test

import (
	"testing"

	"github.com/sheetanchor/sheetanchor/phase"
)

// outcomes is the whole function, written down: for a phase of a class, failing or not, and with operations running or not,
// the event after nothing, after a failed item or operation, after a fatal error and after a cancel. Empty: it stays.
var outcomes = map[phase.Class]map[bool]map[bool][4]phase.Event{
	phase.ClassReady: {
		false: {
			false: {"", "", "Fatal", "Cancel"},
			true:  {"", "", "Fatal", "Cancel"},
		},
	},
	phase.ClassWorking: {
		false: {
			false: {"Finalize", "FinalizePartiallyFailed", "FinalizePartiallyFailed", "FinalizePartiallyFailed"},
			true:  {"Wait", "WaitPartiallyFailed", "WaitPartiallyFailed", "WaitPartiallyFailed"},
		},
		true: {
			false: {"FinalizePartiallyFailed", "FinalizePartiallyFailed", "FinalizePartiallyFailed", "FinalizePartiallyFailed"},
			true:  {"WaitPartiallyFailed", "WaitPartiallyFailed", "WaitPartiallyFailed", "WaitPartiallyFailed"},
		},
	},
	phase.ClassWaiting: {
		false: {
			false: {"Finalize", "FinalizePartiallyFailed", "FinalizePartiallyFailed", "FinalizePartiallyFailed"},
			true:  {"", "WaitPartiallyFailed", "WaitPartiallyFailed", "WaitPartiallyFailed"},
		},
		true: {
			false: {"FinalizePartiallyFailed", "FinalizePartiallyFailed", "FinalizePartiallyFailed", "FinalizePartiallyFailed"},
			true:  {"", "", "", ""},
		},
	},
	phase.ClassFinalizing: {
		false: {
			false: {"Completed", "PartiallyFailed", "Failed", "Canceled"},
			true:  {"", "", "", ""},
		},
		true: {
			false: {"PartiallyFailed", "PartiallyFailed", "Failed", "Canceled"},
			true:  {"", "", "", ""},
		},
	},
	phase.ClassTerminal: {
		false: {false: {}, true: {}},
		true:  {false: {}, true: {}},
	},
}

// failingWork is a machine with a failing phase of every class that can have one.
func failingWork(t *testing.T) *phase.Machine[MyPhase] {
	t.Helper()
	const failed = "InProgressPartiallyFailed"
	m, err := phase.Backup[MyPhase]().Extend(
		[]spec{{Phase: failed, Class: phase.ClassWorking, Failing: true}},
		[]transition{
			{From: phase.InProgress, Event: "ItemFailed", To: failed},
			{From: failed, Event: phase.EventWaitPartiallyFailed, To: failing},
			{From: failed, Event: phase.EventFinalizePartiallyFailed, To: phase.FinalizingPartiallyFailed},
			{From: failed, Event: phase.EventFatal, To: failing},
			{From: failed, Event: phase.EventCancel, To: failing},
		})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// P7: phase-12, phase-13: the outcome of every tally in every phase, held against the table above: each count by none, one
// and many, alone and with every other.
func TestOutcomeTable(t *testing.T) {
	t.Parallel()
	machines := readyMade(t)
	machines["failing work"] = failingWork(t)
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for _, one := range tallies() {
				many := one
				for _, count := range []*int{&many.Running, &many.Completed, &many.Failed, &many.Canceled, &many.Abandoned, &many.Errors} {
					*count *= 1000
				}
				for _, tally := range []phase.Tally{one, many} {
					column := 0
					switch {
					case tally.Cancel:
						column = 3
					case tally.Fatal:
						column = 2
					case tally.Failed+tally.Canceled+tally.Abandoned+tally.Errors > 0:
						column = 1
					}
					for _, p := range m.Phases() {
						n++
						want := outcomes[m.Class(p)][m.IsFailing(p)][tally.Running > 0][column]
						ev, move, err := m.Outcome(p, tally)
						if err != nil || ev != want || move != (want != "") {
							t.Fatalf("Outcome(%q, %+v) = %q, %v, %v, want %q", p, tally, ev, move, err, want)
						}
					}
				}
			}
			if n != 2*256*len(m.Phases()) {
				t.Errorf("%d outcomes, want every one", n)
			}
		})
	}
}

// P7: the way to the end is that of the counts in every machine, with a phase of its own for a cancel where there is one.
func TestOutcomeEndsByTheStrongestCause(t *testing.T) {
	t.Parallel()
	for name, m := range readyMade(t) {
		for _, tally := range tallies() {
			tally.Running = 0
			at := MyPhase(phase.InProgress)
			for !m.IsTerminal(at) {
				ev, move, err := m.Outcome(at, tally)
				if err != nil || !move {
					t.Fatalf("%s: Outcome(%q, %+v) = %v, %v", name, at, tally, move, err)
				}
				if at, err = m.Next(at, ev); err != nil {
					t.Fatal(err)
				}
			}
			want := MyPhase(phase.Completed)
			switch {
			case tally.Cancel:
				want = leadsTo(m, phase.Finalizing, phase.EventCanceled)
			case tally.Fatal:
				want = phase.Failed
			case tally.Failed+tally.Canceled+tally.Abandoned+tally.Errors > 0:
				want = phase.PartiallyFailed
			}
			if at != want {
				t.Errorf("%s: work with %+v ends in %q, want %q", name, tally, at, want)
			}
		}
	}
}
