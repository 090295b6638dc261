package phase_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/internal/golden"
	"github.com/sheetanchor/sheetanchor/phase"
)

// readyMade are the machines that every property is proved for.
func readyMade(t *testing.T) map[string]*phase.Machine[MyPhase] {
	t.Helper()
	return map[string]*phase.Machine[MyPhase]{
		"backup":             phase.Backup[MyPhase](),
		"restore":            phase.Restore[MyPhase](),
		"queued backup":      queuedBackup(t),
		"cancellable backup": cancellableBackup(t),
	}
}

// queuedBackup is Velero's backup with a queue.
func queuedBackup(t *testing.T) *phase.Machine[MyPhase] {
	t.Helper()
	transitions := []phase.Transition[MyPhase]{
		{From: phase.New, Event: "Queue", To: phase.Queued},
		{From: phase.New, Event: phase.EventStart}, // removed
		{From: phase.Queued, Event: "Ready", To: phase.ReadyToStart},
		{From: phase.ReadyToStart, Event: phase.EventStart, To: phase.InProgress},
	}
	for _, p := range []MyPhase{phase.Queued, phase.ReadyToStart} {
		transitions = append(transitions,
			phase.Transition[MyPhase]{From: p, Event: phase.EventCancel, To: phase.Failed},
			phase.Transition[MyPhase]{From: p, Event: phase.EventFatal, To: phase.Failed})
	}
	m, err := phase.Backup[MyPhase]().Extend([]phase.Spec[MyPhase]{
		{Phase: phase.Queued, Class: phase.ClassReady},
		{Phase: phase.ReadyToStart, Class: phase.ClassReady},
	}, transitions)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// cancellableBackup ends a cancel in a phase of its own.
func cancellableBackup(t *testing.T) *phase.Machine[MyPhase] {
	t.Helper()
	m, err := phase.Backup[MyPhase]().Extend(
		[]phase.Spec[MyPhase]{{Phase: phase.Canceled, Class: phase.ClassTerminal, Failing: true}},
		[]phase.Transition[MyPhase]{
			{From: phase.New, Event: phase.EventCancel, To: phase.Canceled},
			{From: phase.Finalizing, Event: phase.EventCanceled, To: phase.Canceled},
			{From: phase.FinalizingPartiallyFailed, Event: phase.EventCanceled, To: phase.Canceled},
		})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// path is a way through a machine: phases[i+1] follows from phases[i] by events[i].
type path struct {
	phases []MyPhase
	events []phase.Event
}

// everyPath calls fn for each way from the initial phase to one without an exit, until fn returns false. A transition to
// the same phase is walked once a visit. The path is fn's during the call only.
func everyPath(transitions []phase.Transition[MyPhase], initial MyPhase, fn func(path) bool) {
	exits := map[MyPhase][]phase.Transition[MyPhase]{}
	for _, tr := range transitions {
		exits[tr.From] = append(exits[tr.From], tr)
	}
	p := path{phases: []MyPhase{initial}}
	var walk func() bool
	step := func(tr phase.Transition[MyPhase], next func() bool) bool {
		p.phases, p.events = append(p.phases, tr.To), append(p.events, tr.Event)
		goOn := next()
		p.phases, p.events = p.phases[:len(p.phases)-1], p.events[:len(p.events)-1]
		return goOn
	}
	end := func() bool { return fn(p) }
	walk = func() bool {
		last := p.phases[len(p.phases)-1]
		if len(exits[last]) == 0 {
			return fn(p)
		}
		visit := len(p.phases) // where the visit to last began
		for visit > 1 && p.phases[visit-2] == last {
			visit--
		}
		for _, tr := range exits[last] {
			next := walk
			switch {
			case tr.To == last && slices.Contains(p.events[visit-1:], tr.Event):
				continue
			case tr.To != last && slices.Contains(p.phases, tr.To):
				next = end // a circle: the path ends where it would never end
			}
			if !step(tr, next) {
				return false
			}
		}
		return true
	}
	walk()
}

// checkPath holds one whole path against P2, independently of the package's own checks: it knows phases by what the
// machine says of them and nothing of the constructor's rules.
func checkPath(m *phase.Machine[MyPhase], p path) error {
	failed, processed, finalized := false, false, false
	for i, at := range p.phases {
		spec, ok := m.Spec(at)
		if !ok {
			return fmt.Errorf("phase %q is not in the machine", at)
		}
		switch {
		case failed && !spec.Failing:
			return fmt.Errorf("the failure is lost in %q", at)
		case i < len(p.phases)-1 && m.IsTerminal(at):
			return fmt.Errorf("terminal phase %q is left", at)
		case m.IsTerminal(at) && processed && !finalized:
			return fmt.Errorf("items were processed and %q comes without finalizing", at)
		case m.IsTerminal(at) && !finalized && !spec.Failing:
			return fmt.Errorf("success %q without finalizing", at)
		}
		failed = failed || spec.Failing
		processed = processed || spec.Class == phase.ClassWorking || spec.Class == phase.ClassWaiting
		finalized = finalized || spec.Class == phase.ClassFinalizing
		if i < len(p.events) {
			failed = failed || slices.Contains([]phase.Event{
				phase.EventCancel, phase.EventFatal, phase.EventWaitPartiallyFailed, phase.EventFinalizePartiallyFailed,
			}, p.events[i])
		}
	}
	if last := p.phases[len(p.phases)-1]; !m.IsTerminal(last) {
		return fmt.Errorf("the path ends in %q, which is not terminal", last)
	}
	return nil
}

// P2: every path of every ready-made machine, and of extended ones, is walked. P3: extensions keep the properties.
func TestEveryPath(t *testing.T) {
	t.Parallel()
	for name, m := range readyMade(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paths, ends := 0, map[MyPhase]int{}
			seen := map[MyPhase]bool{}
			everyPath(m.Transitions(), m.Initial(), func(p path) bool {
				paths++
				ends[p.phases[len(p.phases)-1]]++
				for _, at := range p.phases {
					seen[at] = true
				}
				if err := checkPath(m, p); err != nil {
					t.Errorf("path %v by %v: %v", p.phases, p.events, err)
				}
				return true
			})
			for _, p := range m.Phases() {
				if spec, _ := m.Spec(p); !seen[p] && !spec.External {
					t.Errorf("no path visits %q", p)
				}
			}
			for _, end := range []MyPhase{phase.Completed, phase.PartiallyFailed, phase.Failed, phase.FailedValidation} {
				if ends[end] == 0 {
					t.Errorf("no path ends in %q", end)
				}
			}
			t.Logf("%d paths walked, ends: %v", paths, ends)
		})
	}
}

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
