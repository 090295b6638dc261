package phase

import (
	"cmp"
	"slices"
)

// Spec describes one phase of a machine.
type Spec[P ~string] struct {
	// Phase is its name; it is not empty.
	Phase P
	// Class says what is done in it.
	Class Class
	// Failing says that a failure (a cancel too) is recorded by being in this phase. Work never leaves the failing phases.
	Failing bool
	// External marks a terminal phase that somebody else sets, such as Velero's Deleting: no transition leads to it.
	External bool
	// Restart says what becomes of work found in this phase when the process that did it is gone. Defaults to what its class
	// calls for.
	Restart Restart
}

// Transition is one row of a machine's table: Event moves From to To. From and To may be the same phase; such a
// transition only records its reason.
type Transition[P ~string] struct {
	From  P
	Event Event
	To    P
}

// Machine is an immutable table of phases and transitions. Make one with [NewMachine], [Backup], [Restore] or
// [Machine.Extend]. It is safe for concurrent use. Every method takes the empty phase for the initial one.
type Machine[P ~string] struct {
	initial P
	specs   map[P]Spec[P]
	next    map[edge[P]]P
	phases  []P             // by class, then name
	rows    []Transition[P] // by the order of phases, then event
}

type edge[P ~string] struct {
	from  P
	event Event
}

// NewMachine returns a machine of these phases and transitions. The first phase is the initial one and must be ready.
//
// A table that breaks a promise of the package is refused, with every fault in one joined error: each is a
// [*TableError], which is [ErrTable] and names the phase. The faults are: an unclassified or duplicate phase; a name that
// is not UTF-8; a phase that cannot be reached, or from which no terminal phase can be reached; two transitions for one
// phase and event; a transition out of a terminal phase, by EventTakeOver, to a lower class, round in a circle, from a
// failing phase to another, from a working or waiting phase to a terminal one, or from a ready phase to a success; an event
// of the package that leads to a class that is not its own; EventFatal or EventCancel that leads elsewhere when told again;
// a failing event that leads to a phase that is not failing; a Restart that is none, or RestartFail without EventFatal;
// EventCancel legal in some phases and not in all that are not terminal; an event missing that Outcome needs in a waiting
// or finalizing phase, or in a working one beside those that it has; and EventFinalizePartiallyFailed missing in a failing
// working phase, by which Load ends what is late.
func NewMachine[P ~string](phases []Spec[P], transitions []Transition[P]) (*Machine[P], error) {
	if err := validate(phases, transitions); err != nil {
		return nil, err
	}
	return compile(phases, transitions), nil
}

// Extend returns a new machine with these phases and transitions added; the receiver stays as it is. A phase that exists
// is described anew. A transition replaces the one with the same From and Event; an empty To removes it. The errors are
// those of [NewMachine], and a removal of a transition that does not exist.
func (m *Machine[P]) Extend(phases []Spec[P], transitions []Transition[P]) (*Machine[P], error) {
	specs := []Spec[P]{m.specs[m.initial]}
	for _, p := range m.phases {
		if p != m.initial {
			specs = append(specs, m.specs[p])
		}
	}
	for _, s := range phases {
		if i := slices.IndexFunc(specs, func(old Spec[P]) bool { return old.Phase == s.Phase }); i >= 0 {
			specs[i] = s
			continue
		}
		specs = append(specs, s)
	}
	rows := slices.Clone(m.rows)
	for _, t := range transitions {
		i := slices.IndexFunc(rows, func(old Transition[P]) bool { return old.From == t.From && old.Event == t.Event })
		switch {
		case i >= 0 && t.To == "":
			rows = slices.Delete(rows, i, i+1)
		case i >= 0:
			rows[i] = t
		case t.To == "":
			return nil, &TableError{Phase: string(t.From), Event: t.Event, Problem: "there is no such transition to remove"}
		default:
			rows = append(rows, t)
		}
	}
	return NewMachine(specs, rows)
}

// compile builds the machine of a table that is known to be good.
func compile[P ~string](phases []Spec[P], transitions []Transition[P]) *Machine[P] {
	m := &Machine[P]{
		initial: phases[0].Phase,
		specs:   make(map[P]Spec[P], len(phases)),
		next:    make(map[edge[P]]P, len(transitions)),
		rows:    slices.Clone(transitions),
	}
	for _, s := range phases {
		m.specs[s.Phase] = s
		m.phases = append(m.phases, s.Phase)
	}
	slices.SortFunc(m.phases, m.order)
	for _, t := range transitions {
		m.next[edge[P]{t.From, t.Event}] = t.To
	}
	slices.SortFunc(m.rows, func(a, b Transition[P]) int {
		return cmp.Or(m.order(a.From, b.From), cmp.Compare(a.Event, b.Event))
	})
	return m
}

func (m *Machine[P]) order(a, b P) int {
	return cmp.Or(cmp.Compare(m.specs[a].Class, m.specs[b].Class), cmp.Compare(a, b))
}

// Next returns the phase to which ev moves from. If ev is not legal there, it returns from itself and an
// [*IllegalTransitionError]. It is pure, and allocates nothing when ev is legal.
func (m *Machine[P]) Next(from P, ev Event) (P, error) {
	if to, ok := m.next[edge[P]{m.known(from), ev}]; ok {
		return to, nil
	}
	return from, m.illegal(from, ev)
}

// known maps the empty phase to the initial one.
func (m *Machine[P]) known(p P) P {
	if p == "" {
		return m.initial
	}
	return p
}

func (m *Machine[P]) illegal(from P, ev Event) error {
	_, ok := m.specs[m.known(from)]
	return &IllegalTransitionError{Phase: string(m.known(from)), Event: ev, Legal: m.Legal(from), Unknown: !ok}
}

// Legal returns the events that are legal in p, sorted; none for a terminal or unknown phase.
func (m *Machine[P]) Legal(p P) []Event {
	var events []Event
	for _, t := range m.rows {
		if t.From == m.known(p) {
			events = append(events, t.Event)
		}
	}
	return events
}

// Initial returns the phase in which work starts.
func (m *Machine[P]) Initial() P { return m.initial }

// Phases returns every phase, sorted by class and then by name. The slice is the caller's.
func (m *Machine[P]) Phases() []P { return slices.Clone(m.phases) }

// Transitions returns every transition, sorted by the order of Phases and then by event. The slice is the caller's.
func (m *Machine[P]) Transitions() []Transition[P] { return slices.Clone(m.rows) }

// Spec returns the description of p, and false if the machine does not have p.
func (m *Machine[P]) Spec(p P) (Spec[P], bool) {
	s, ok := m.specs[m.known(p)]
	return s, ok
}

// Class returns the class of p; the zero Class if the machine does not have p.
func (m *Machine[P]) Class(p P) Class { return m.specs[m.known(p)].Class }

// IsTerminal says whether work in p has ended. It is false for an unknown phase.
func (m *Machine[P]) IsTerminal(p P) bool { return m.Class(p) == ClassTerminal }

// IsWaiting says whether operations are awaited in p.
func (m *Machine[P]) IsWaiting(p P) bool { return m.Class(p) == ClassWaiting }

// IsFinalizing says whether the last steps are done in p.
func (m *Machine[P]) IsFinalizing(p P) bool { return m.Class(p) == ClassFinalizing }

// IsFailing says whether p records a failure. Work in such a phase can no longer succeed.
func (m *Machine[P]) IsFailing(p P) bool { return m.specs[m.known(p)].Failing }

// IsDeletable says whether work in p may be deleted: only when it has ended. Cancel first, then delete.
func (m *Machine[P]) IsDeletable(p P) bool { return m.IsTerminal(p) }

// IsCancellable says whether EventCancel is legal in p: in the ready-made machines, in every phase that is not terminal.
func (m *Machine[P]) IsCancellable(p P) bool {
	_, ok := m.next[edge[P]{m.known(p), EventCancel}]
	return ok
}

// reaches says whether some events lead from a to another phase b.
func (m *Machine[P]) reaches(a, b P) bool {
	return a != b && reachable(a, m.rows)[b]
}
