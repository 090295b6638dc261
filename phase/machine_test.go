package phase_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/internal/golden"
	"github.com/sheetanchor/sheetanchor/phase"
)

// P2, P3: phase-20, phase-21, phase-23: no phase is unclassified; deletable means terminal; cancel is legal wherever the
// work has not ended and leads to a phase that records it.
func TestEveryPhaseIsClassified(t *testing.T) {
	t.Parallel()
	for name, m := range readyMade(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range m.Phases() {
				class := m.Class(p)
				if class < phase.ClassReady || class > phase.ClassTerminal {
					t.Errorf("Class(%q) = %v", p, class)
				}
				if got, want := m.IsTerminal(p), len(m.Legal(p)) == 0; got != want {
					t.Errorf("IsTerminal(%q) = %v, with events %v", p, got, m.Legal(p))
				}
				if m.IsDeletable(p) != m.IsTerminal(p) {
					t.Errorf("IsDeletable(%q) = %v, want %v", p, m.IsDeletable(p), m.IsTerminal(p))
				}
				if m.IsCancellable(p) == m.IsTerminal(p) {
					t.Errorf("IsCancellable(%q) = %v, terminal %v", p, m.IsCancellable(p), m.IsTerminal(p))
				}
				if m.IsWaiting(p) != (class == phase.ClassWaiting) || m.IsFinalizing(p) != (class == phase.ClassFinalizing) {
					t.Errorf("IsWaiting, IsFinalizing(%q) = %v, %v, class %v", p, m.IsWaiting(p), m.IsFinalizing(p), class)
				}
				if !m.IsCancellable(p) {
					continue
				}
				to, err := m.Next(p, phase.EventCancel)
				if err != nil || !m.IsFailing(to) {
					t.Errorf("Next(%q, Cancel) = %q, %v, want a phase that keeps it", p, to, err)
				}
				if again, err := m.Next(to, phase.EventCancel); !m.IsTerminal(to) && (err != nil || again != to) {
					t.Errorf("Next(%q, Cancel) = %q, %v, want the same phase: cancel is idempotent", to, again, err)
				}
			}
		})
	}
}

func TestVelerosPhases(t *testing.T) {
	t.Parallel()
	want := []MyPhase{
		"New", "InProgress", "WaitingForPluginOperations", "WaitingForPluginOperationsPartiallyFailed", "Finalizing",
		"FinalizingPartiallyFailed", "Completed", "Deleting", "Failed", "FailedValidation", "PartiallyFailed",
	}
	if diff := cmp.Diff(want, phase.Backup[MyPhase]().Phases()); diff != "" {
		t.Errorf("Backup phases (-want +got):\n%s", diff)
	}
	want = slices.DeleteFunc(want, func(p MyPhase) bool { return p == "Deleting" })
	if diff := cmp.Diff(want, phase.Restore[MyPhase]().Phases()); diff != "" {
		t.Errorf("Restore phases (-want +got):\n%s", diff)
	}
}

// P2: the ready-made tables are built without the checks of NewMachine; here they pass them.
func TestReadyMadeTablesAreValid(t *testing.T) {
	t.Parallel()
	for name, m := range readyMade(t) {
		if _, err := m.Extend(nil, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// P1: an illegal pair is a typed error that names the phase, the event and what is legal.
func TestNextRefuses(t *testing.T) {
	t.Parallel()
	m := phase.Backup[MyPhase]()
	tests := map[string]struct {
		reason string
		from   MyPhase
		event  phase.Event
		want   phase.IllegalTransitionError
	}{
		"terminal phase refuses every move": {
			reason: "phase-8: a terminal phase absorbs",
			from:   phase.Failed, event: phase.EventStart,
			want: phase.IllegalTransitionError{Phase: "Failed", Event: "Start"},
		},
		"event of another phase": {
			reason: "the legal events are named",
			from:   phase.New, event: phase.EventCompleted,
			want: phase.IllegalTransitionError{
				Phase: "New", Event: "Completed", Legal: []phase.Event{"Cancel", "Fatal", "Invalid", "Start"},
			},
		},
		"empty phase is the initial one": {
			reason: "a new object has no phase yet",
			from:   "", event: phase.EventCompleted,
			want: phase.IllegalTransitionError{
				Phase: "New", Event: "Completed", Legal: []phase.Event{"Cancel", "Fatal", "Invalid", "Start"},
			},
		},
		"unknown phase": {
			reason: "a phase of a newer release is no reason to guess",
			from:   "Paused", event: phase.EventStart,
			want: phase.IllegalTransitionError{Phase: "Paused", Event: "Start", Unknown: true},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to, err := m.Next(tc.from, tc.event)
			if to != tc.from {
				t.Errorf("Next(%q, %q) = %q, want it unmoved", tc.from, tc.event, to)
			}
			got, ok := errors.AsType[*phase.IllegalTransitionError](err)
			if !ok || !errors.Is(err, phase.ErrIllegalTransition) {
				t.Fatalf("Next(%q, %q) error = %v, want an IllegalTransitionError", tc.from, tc.event, err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if errors.Is(err, phase.ErrUnknownPhase) != tc.want.Unknown {
				t.Errorf("Is(ErrUnknownPhase) = %v, want %v", !tc.want.Unknown, tc.want.Unknown)
			}
			if err.Error() == "" {
				t.Error("the error has no text")
			}
		})
	}
}

// P1: a model of the machine that is a plain map agrees with it, whatever happens.
func TestNextAgainstModel(t *testing.T) {
	t.Parallel()
	for name, m := range readyMade(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := map[string]MyPhase{}
			events := map[phase.Event]bool{"Bogus": true, "": true}
			for _, tr := range m.Transitions() {
				model[string(tr.From)+"/"+string(tr.Event)] = tr.To
				events[tr.Event] = true
			}
			all := slices.Sorted(maps.Keys(events))
			rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // seeded on purpose
			for range 2000 {
				at := m.Initial()
				for range 12 {
					ev := all[rng.IntN(len(all))]
					want, legal := model[string(at)+"/"+string(ev)]
					got, err := m.Next(at, ev)
					if legal != (err == nil) || legal && got != want || !legal && got != at {
						t.Fatalf("Next(%q, %q) = %q, %v; the model says %q, %v", at, ev, got, err, want, legal)
					}
					if m.Class(got) < m.Class(at) { // phase-25
						t.Fatalf("Next(%q, %q) = %q, a lower class", at, ev, got)
					}
					at = got
				}
			}
		})
	}
}

// P1: the legal path allocates nothing.
func TestNextDoesNotAllocate(t *testing.T) {
	m := phase.Backup[MyPhase]()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := m.Next(phase.InProgress, phase.EventWait); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Next allocates %v times, want 0", n)
	}
}

func TestMachineIsImmutable(t *testing.T) {
	t.Parallel()
	m := phase.Restore[MyPhase]()
	before := m.Mermaid()
	m.Phases()[0] = "Spoiled"
	m.Transitions()[0].To = "Spoiled"
	m.Legal(phase.New)[0] = "Spoiled"
	if _, err := m.Extend([]phase.Spec[MyPhase]{{Phase: phase.Failed, Class: phase.ClassTerminal, Failing: true}}, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, m.Mermaid()); diff != "" {
		t.Errorf("the machine changed (-before +after):\n%s", diff)
	}
}

// P8: the diagrams are printed from the table and held by golden files.
func TestMermaidGolden(t *testing.T) {
	t.Parallel()
	golden.Check(t, "backup.mmd", []byte(phase.Backup[MyPhase]().Mermaid()))
	golden.Check(t, "restore.mmd", []byte(phase.Restore[MyPhase]().Mermaid()))
	golden.Check(t, "queued-backup.mmd", []byte(queuedBackup(t).Mermaid()))
}

func TestMermaidNamesOddPhases(t *testing.T) {
	t.Parallel()
	m, err := phase.Restore[MyPhase]().Extend(
		[]phase.Spec[MyPhase]{{Phase: `to "be" queued`, Class: phase.ClassReady}},
		[]phase.Transition[MyPhase]{
			{From: phase.New, Event: "Queue", To: `to "be" queued`},
			{From: `to "be" queued`, Event: phase.EventStart, To: phase.InProgress},
			{From: `to "be" queued`, Event: phase.EventCancel, To: phase.Failed},
		})
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "odd-names.mmd", []byte(m.Mermaid()))
}

func BenchmarkNext(b *testing.B) {
	m := phase.Backup[MyPhase]()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Next(phase.InProgress, phase.EventWait); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOutcome(b *testing.B) {
	m := phase.Backup[MyPhase]()
	tally := phase.Tally{Running: 3, Completed: 7, Failed: 1}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := m.Outcome(phase.WaitingForPluginOperations, tally); err != nil {
			b.Fatal(err)
		}
	}
}

// P8: the diagrams in the project's README are those that the tables print.
func TestReadmeShowsTheDiagrams(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*phase.Machine[MyPhase]{"backup": phase.Backup[MyPhase](), "restore": phase.Restore[MyPhase]()} {
		_, after, ok := strings.Cut(string(data), "<!-- phase:"+name+" -->\n")
		block, _, closed := strings.Cut(after, "<!-- phase:end -->\n")
		if !ok || !closed {
			t.Errorf("README.md has no diagram between phase:%s and phase:end", name)
			continue
		}
		if diff := cmp.Diff("```mermaid\n"+m.Mermaid()+"```\n", block); diff != "" {
			t.Errorf("README.md, %s (-machine +README):\n%s", name, diff)
		}
	}
}
