package phase_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sheetanchor/sheetanchor/phase"
)

// readyMade are the machines that every property is proved for.
func readyMade(t *testing.T) map[string]*phase.Machine[MyPhase] {
	t.Helper()
	return map[string]*phase.Machine[MyPhase]{
		"backup":                    phase.Backup[MyPhase](),
		"restore":                   phase.Restore[MyPhase](),
		"cancellable backup":        phase.CancellableBackup[MyPhase](),
		"cancellable restore":       phase.CancellableRestore[MyPhase](),
		"queued backup":             queuedBackup(t),
		"queued cancellable backup": queuedCancellableBackup(t),
		"verified restore":          verifiedRestore(t),
	}
}

// queuedBackup is Velero's backup with its queue.
func queuedBackup(t *testing.T) *phase.Machine[MyPhase] {
	t.Helper()
	return queued(t, phase.Backup[MyPhase](), phase.Failed)
}

// queuedCancellableBackup has both: a queue, and a phase for canceled work.
func queuedCancellableBackup(t *testing.T) *phase.Machine[MyPhase] {
	t.Helper()
	return queued(t, phase.CancellableBackup[MyPhase](), phase.Canceled)
}

func queued(t *testing.T, m *phase.Machine[MyPhase], canceled MyPhase) *phase.Machine[MyPhase] {
	t.Helper()
	transitions := []transition{
		{From: phase.New, Event: "Queue", To: phase.Queued},
		{From: phase.New, Event: phase.EventStart}, // removed
		{From: phase.Queued, Event: "Ready", To: phase.ReadyToStart},
		{From: phase.ReadyToStart, Event: phase.EventStart, To: phase.InProgress},
	}
	for _, p := range []MyPhase{phase.Queued, phase.ReadyToStart} {
		transitions = append(transitions,
			transition{From: p, Event: phase.EventCancel, To: canceled},
			transition{From: p, Event: phase.EventFatal, To: phase.Failed})
	}
	m, err := m.Extend([]spec{
		{Phase: phase.Queued, Class: phase.ClassReady},
		{Phase: phase.ReadyToStart, Class: phase.ClassReady},
	}, transitions)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// verifiedRestore looks at the result once more before it is called a success.
func verifiedRestore(t *testing.T) *phase.Machine[MyPhase] {
	t.Helper()
	const verifying = "Verifying"
	transitions := []transition{
		{From: phase.Finalizing, Event: "Verify", To: verifying},
		{From: phase.Finalizing, Event: phase.EventCompleted, To: phase.Completed},
	}
	for _, tr := range phase.Restore[MyPhase]().Transitions() {
		if tr.From == phase.Finalizing {
			transitions = append(transitions, transition{From: verifying, Event: tr.Event, To: tr.To})
		}
	}
	m, err := phase.Restore[MyPhase]().Extend([]spec{{Phase: verifying, Class: phase.ClassFinalizing}}, transitions)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// leadsTo is where an event leads, by its name and the class of the phase alone: what the documentation says of it,
// written down without the table.
func leadsTo(m *phase.Machine[MyPhase], from MyPhase, ev phase.Event) MyPhase {
	canceled := MyPhase(phase.Failed)
	if m.Class(phase.Canceled) != 0 {
		canceled = phase.Canceled
	}
	toEnd := map[phase.Class]MyPhase{
		phase.ClassReady: phase.Failed, phase.ClassWorking: failing, phase.ClassWaiting: failing,
		phase.ClassFinalizing: phase.FinalizingPartiallyFailed,
	}
	switch ev {
	case phase.EventStart:
		return phase.InProgress
	case phase.EventInvalid:
		return phase.FailedValidation
	case phase.EventWait:
		return phase.WaitingForPluginOperations
	case phase.EventWaitPartiallyFailed:
		return failing
	case phase.EventFinalize:
		return phase.Finalizing
	case phase.EventFinalizePartiallyFailed:
		return phase.FinalizingPartiallyFailed
	case phase.EventCompleted:
		return phase.Completed
	case phase.EventPartiallyFailed:
		return phase.PartiallyFailed
	case phase.EventFailed:
		return phase.Failed
	case phase.EventCanceled:
		return canceled
	case phase.EventFatal:
		return toEnd[m.Class(from)]
	case phase.EventCancel:
		if m.Class(from) == phase.ClassReady {
			return canceled
		}
		return toEnd[m.Class(from)]
	case "Queue":
		return phase.Queued
	case "Ready":
		return phase.ReadyToStart
	case "Verify":
		return "Verifying"
	default:
		return ""
	}
}

// path is a way through a machine: phases[i+1] follows from phases[i] by events[i].
type path struct {
	phases []MyPhase
	events []phase.Event
}

// everyPath calls fn for each way from the initial phase to one without an exit, until fn returns false. No phase is
// entered twice on a way: where the table leads back, the way ends there. A transition to the same phase is walked once a
// visit, in every order with the others. So the walk is finite, and it is whole: what comes after a phase depends on the
// phase and on what was recorded, and both are on the way. The path is fn's during the call only.
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

// checkWhole holds a path against P2, and each step of it against what the event is documented to do.
func checkWhole(m *phase.Machine[MyPhase], p path) error {
	for i, ev := range p.events {
		if want := leadsTo(m, p.phases[i], ev); p.phases[i+1] != want {
			return fmt.Errorf("in %q the event %q leads to %q, not to %q", p.phases[i], ev, p.phases[i+1], want)
		}
	}
	return checkPath(m, p)
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
				if err := checkWhole(m, p); err != nil {
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
			t.Logf("%s: %d paths walked, ends: %v", name, paths, ends)
		})
	}
}

// P2, P3: every transition of every machine, led to every other phase: NewMachine refuses the table or the walk finds the
// fault. No mutant survives, so none is equivalent to the table that it was made from.
func TestEveryEdgeMatters(t *testing.T) {
	t.Parallel()
	for name, m := range readyMade(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			specs := specsOf(m)
			mutants, refused, found := 0, 0, 0
			for i, old := range m.Transitions() {
				for _, to := range m.Phases() {
					if to == old.To {
						continue
					}
					mutants++
					rows := m.Transitions()
					rows[i].To = to
					_, err := phase.NewMachine(specs, rows)
					if err != nil {
						refused++
					}
					var fault error
					everyPath(rows, m.Initial(), func(p path) bool {
						fault = checkWhole(m, p)
						return fault == nil
					})
					if fault != nil {
						found++
					}
					if err == nil && fault == nil {
						t.Errorf("%q by %q to %q instead of %q is accepted, and no path is bad", old.From, old.Event, to, old.To)
					}
				}
			}
			if want := len(m.Transitions()) * (len(m.Phases()) - 1); mutants != want || found < mutants*9/10 || refused < mutants/2 {
				t.Errorf("%d mutants of %d, %d refused, %d found by the walk", mutants, want, refused, found)
			}
			t.Logf("%s: %d mutants: NewMachine refuses %d, the walk finds %d, none survives", name, mutants, refused, found)
		})
	}
}

// specsOf returns the phases of a machine, the initial one first.
func specsOf(m *phase.Machine[MyPhase]) []spec {
	first, _ := m.Spec(m.Initial())
	specs := []spec{first}
	for _, p := range m.Phases() {
		if s, _ := m.Spec(p); p != m.Initial() {
			specs = append(specs, s)
		}
	}
	return specs
}
