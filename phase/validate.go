package phase

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// table collects the faults of a machine's table.
type table[P ~string] struct {
	specs  map[P]Spec[P]
	rows   []Transition[P]
	legal  map[edge[P]]bool
	faults []error
}

func (t *table[P]) fault(p P, ev Event, format string, args ...any) {
	t.faults = append(t.faults, &TableError{Phase: string(p), Event: ev, Problem: fmt.Sprintf(format, args...)})
}

// validate returns every fault of the table, joined.
func validate[P ~string](phases []Spec[P], rows []Transition[P]) error {
	t := &table[P]{specs: map[P]Spec[P]{}, rows: rows, legal: map[edge[P]]bool{}}
	if len(phases) == 0 {
		t.fault("", "", "the machine has no phase")
		return errors.Join(t.faults...)
	}
	for _, s := range phases {
		t.checkSpec(s)
	}
	if phases[0].Class != ClassReady {
		t.fault(phases[0].Phase, "", "the initial phase is %s, not ready", phases[0].Class)
	}
	for _, r := range rows {
		t.checkRow(r)
	}
	if len(t.faults) > 0 {
		return errors.Join(t.faults...) // the walks below need a table that hangs together
	}
	cancels := false
	for _, r := range rows {
		cancels = cancels || r.Event == EventCancel
	}
	first := reachable(phases[0].Phase, rows)
	for i, s := range phases {
		t.checkReach(s, i == 0 || first[s.Phase])
		t.checkEvents(s, cancels)
	}
	return errors.Join(t.faults...)
}

func (t *table[P]) checkSpec(s Spec[P]) {
	_, double := t.specs[s.Phase]
	t.specs[s.Phase] = s
	switch {
	case s.Phase == "":
		t.fault(s.Phase, "", "a phase has no name")
	case !utf8.ValidString(string(s.Phase)):
		t.fault(s.Phase, "", "the name of a phase is not UTF-8: it would not be stored as it is")
	case double:
		t.fault(s.Phase, "", "the phase is there twice")
	case s.Class < ClassReady || s.Class > ClassTerminal:
		t.fault(s.Phase, "", "the phase has no class")
	case s.Class == ClassReady && s.Failing:
		t.fault(s.Phase, "", "a ready phase cannot be failing: nothing was processed")
	case s.Restart > RestartFail:
		t.fault(s.Phase, "", "what becomes of it after a restart is no Restart")
	case s.External && s.Class != ClassTerminal:
		t.fault(s.Phase, "", "an external phase must be terminal")
	}
}

func (t *table[P]) checkRow(r Transition[P]) {
	from, okFrom := t.specs[r.From]
	to, okTo := t.specs[r.To]
	switch {
	case r.Event == "":
		t.fault(r.From, r.Event, "a transition to %q has no event", r.To)
	case !utf8.ValidString(string(r.Event)):
		t.fault(r.From, r.Event, "the name of an event is not UTF-8: it would not be stored as it is")
	case r.Event == EventTakeOver:
		t.fault(r.From, r.Event, "the event is the package's own and changes no phase")
	case !okFrom:
		t.fault(r.From, r.Event, "a transition starts in a phase that is not in the machine")
	case !okTo:
		t.fault(r.To, r.Event, "a transition from %q leads to a phase that is not in the machine", r.From)
	case t.legal[edge[P]{r.From, r.Event}]:
		t.fault(r.From, r.Event, "the event has two transitions")
	case from.Class == ClassTerminal:
		t.fault(r.From, r.Event, "a terminal phase leads to %q", r.To)
	case to.External:
		t.fault(r.To, r.Event, "a transition leads to an external phase")
	case to.Class < from.Class:
		t.fault(r.From, r.Event, "a %s phase leads back to %q, which is %s", from.Class, r.To, to.Class)
	case from.Failing && !to.Failing:
		t.fault(r.From, r.Event, "a recorded failure is lost on the way to %q", r.To)
	case r.Event.failing() && !to.Failing:
		t.fault(r.From, r.Event, "the event records a failure and leads to %q, which does not keep it", r.To)
	case to.Class == ClassTerminal && (from.Class == ClassWorking || from.Class == ClassWaiting):
		t.fault(r.From, r.Event, "the way to %q skips finalizing", r.To)
	case to.Class == ClassTerminal && from.Class == ClassReady && !to.Failing:
		t.fault(r.From, r.Event, "a ready phase leads to the success %q: nothing was processed", r.To)
	case r.Event.leads() != 0 && to.Class != r.Event.leads():
		t.fault(r.From, r.Event, "the event leads to a %s phase, and %q is %s", r.Event.leads(), r.To, to.Class)
	case r.Event == EventCompleted && to.Failing:
		t.fault(r.From, r.Event, "the event is a success, and %q records a failure", r.To)
	}
	t.legal[edge[P]{r.From, r.Event}] = true
}

func (t *table[P]) checkReach(s Spec[P], reached bool) {
	if !reached && !s.External {
		t.fault(s.Phase, "", "the phase cannot be reached")
	}
	if s.Class == ClassTerminal {
		return
	}
	after := reachable(s.Phase, t.rows)
	ends := false
	for p := range after {
		ends = ends || t.specs[p].Class == ClassTerminal
	}
	if !ends {
		t.fault(s.Phase, "", "no terminal phase can be reached from it")
	}
	for _, r := range t.rows {
		if r.From == s.Phase && r.To != s.Phase && reachable(r.To, t.rows)[s.Phase] {
			t.fault(s.Phase, r.Event, "the way through %q leads round in a circle", r.To)
		}
	}
}

// checkEvents asks for the events without which Outcome could not move the work on, or cancel would not be legal.
func (t *table[P]) checkEvents(s Spec[P], cancels bool) {
	var need []Event
	has := func(ev Event) bool { return t.legal[edge[P]{s.Phase, ev}] }
	switch s.Class {
	case ClassWorking:
		if has(EventWait) || has(EventWaitPartiallyFailed) {
			need = append(need, EventWaitPartiallyFailed, EventFinalizePartiallyFailed)
		}
		if has(EventFinalize) || has(EventFinalizePartiallyFailed) {
			need = append(need, EventFinalizePartiallyFailed)
		}
		if len(need) > 0 && !s.Failing {
			need = append(need, EventFinalize)
		}
		if has(EventWaitPartiallyFailed) && !s.Failing {
			need = append(need, EventWait)
		}
		if s.Failing { // else a cancel that came here could not be led to its end
			need = append(need, EventFinalizePartiallyFailed)
		}
	case ClassWaiting:
		need = []Event{EventFinalizePartiallyFailed}
		if !s.Failing {
			need = append(need, EventWaitPartiallyFailed, EventFinalize)
		}
	case ClassFinalizing:
		need = []Event{EventPartiallyFailed, EventFailed}
		if !s.Failing {
			need = append(need, EventCompleted)
		}
		if cancels {
			need = append(need, EventCanceled)
		}
	default:
	}
	if s.Restart == RestartFail && s.Class != ClassTerminal {
		need = append(need, EventFatal)
	}
	if cancels && s.Class != ClassTerminal {
		need = append(need, EventCancel)
	}
	for _, ev := range []Event{EventCancel, EventFatal} {
		t.checkAgain(s, ev)
	}
	slices.Sort(need)
	for _, ev := range slices.Compact(need) {
		if !has(ev) {
			t.fault(s.Phase, ev, "the event must be legal in this %s phase", s.Class)
		}
	}
}

// checkAgain asks that an event that may be told twice does no more the second time.
func (t *table[P]) checkAgain(s Spec[P], ev Event) {
	next := func(from P) (P, bool) {
		for _, r := range t.rows {
			if r.From == from && r.Event == ev {
				return r.To, true
			}
		}
		return from, false
	}
	once, _ := next(s.Phase)
	if twice, ok := next(once); ok && twice != once {
		t.fault(s.Phase, ev, "told once the event leads to %q, told again to %q", once, twice)
	}
}

// reachable returns the phases to which one or more transitions lead from p. P itself is among them if a circle or a
// transition to itself leads back.
func reachable[P ~string](p P, rows []Transition[P]) map[P]bool {
	seen := map[P]bool{}
	todo := []P{p}
	for len(todo) > 0 {
		from := todo[0]
		todo = todo[1:]
		for _, r := range rows {
			if r.From == from && !seen[r.To] {
				seen[r.To] = true
				todo = append(todo, r.To)
			}
		}
	}
	return seen
}
