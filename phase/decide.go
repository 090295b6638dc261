package phase

import (
	"cmp"
	"fmt"
	"time"
)

// Evidence is all that [Machine.Decide] looks at.
type Evidence[P ~string] struct {
	// State is the object's.
	State State[P]
	// Kept says that a record is kept; Record is the last change saved there, the zero Change if there is none.
	Kept   bool
	Record Change[P]
	// Me is the identity of this process; it differs from that of every other process, also of earlier ones.
	Me string
	// Heartbeat is the last sign of life of the owner, as [Machine.Owner] names it. It is not needed if that is Me.
	Heartbeat Heartbeat
	// Now is the time, Skew how far the owner's clock may differ from ours.
	Now  time.Time
	Skew time.Duration
	// Deadlines are those of the work.
	Deadlines Deadlines[P]
}

// Decision is what is to be done with an object at start-up, and why.
type Decision[P ~string] struct {
	// Action is what is done in Phase, after object and record were brought together.
	Action Action
	// TakeOver says that the owner is dead, and that this process must become the owner before the action.
	TakeOver bool
	// Phase is that of the work when object and record agree.
	Phase P
	// Differs says which of them follows first. With ActionLeave nothing is done about it.
	Differs Divergence
	// Owner is who owns the work; empty if nobody is known to. Life is what is known of that process.
	Owner string
	Life  Life
	// Until is when to look again: with ActionLeave the end of the time in which the owner may live without another sign; else
	// the next deadline. Zero if there is none.
	Until time.Time
	// Stuck is the deadline that has passed; nil if none has. Work of a live owner is left to it all the same.
	Stuck *StuckError
}

// Owner returns who owns the work: the owner that the record names if that is ahead or the object keeps none, else the
// object's; empty if none is named, if anybody may start the work, or if it has ended. It is what [Evidence.Heartbeat] is
// about.
func (m *Machine[P]) Owner(e Evidence[P]) string {
	s, _ := m.together(e)
	if m.Class(s.Phase) == ClassReady || m.IsTerminal(s.Phase) {
		return ""
	}
	return s.Owner
}

// together returns the state in which object and record agree, and which of them follows.
func (m *Machine[P]) together(e Evidence[P]) (State[P], Divergence) {
	s := m.read(e.State)
	if !e.Kept || m.specs[s.Phase].External {
		return s, Agree
	}
	follows, c := m.judge(s, e.Record, e.Record.To != "")
	if follows == Agree {
		return withRecord(s, e.Record), Agree
	}
	c.At = cmp.Or(c.At, e.Now)
	return c.Result(s), follows
}

// Decide says what a process that starts does with an object it finds, from what is recorded and from what is known of
// the owner; it is pure. [Applier.Recover] gathers the evidence and carries the decision out.
//
//   - Work that has ended is left (ActionNone), and so is work in an external phase.
//   - Work in a ready phase has no owner yet: ActionStart.
//   - Work of a live owner, or of one that is not proved to be dead, is left to it: ActionLeave.
//   - Work of a dead owner is taken over, and its own work a process carries on: ActionRerun or ActionResume, as the phase
//     calls for. Work of a dead owner in a phase with RestartFail fails: ActionFail.
//   - Work that has passed a deadline, and is not left to its owner, fails: ActionFail.
//
// [ErrUnknownPhase] and [ErrForeignRecord] say that nothing can be decided.
func (m *Machine[P]) Decide(e Evidence[P]) (Decision[P], error) {
	if err := m.decidable(e); err != nil {
		return Decision[P]{}, fmt.Errorf("decide: %w", err)
	}
	s, differs := m.together(e)
	d := Decision[P]{Phase: s.Phase, Differs: differs, Owner: m.Owner(e)}
	if m.IsTerminal(s.Phase) {
		return d, nil
	}
	mine := d.Owner == e.Me && e.Me != ""
	d.Life, d.Until, d.Stuck = e.Heartbeat.Life(e.Now, e.Skew), m.Due(s, e.Deadlines), m.Stuck(s, e.Deadlines, e.Now)
	if mine {
		d.Life = Live
	}
	if d.Stuck != nil {
		d.Stuck.Life = d.Life
	}
	anybody := m.Class(s.Phase) == ClassReady
	if !anybody && !mine && d.Life != Dead {
		d.Action, d.Until = ActionLeave, e.Heartbeat.Until(e.Skew)
		return d, nil
	}
	d.TakeOver = !anybody && !mine
	d.Action = m.onRestart(s.Phase, mine)
	if d.Stuck != nil {
		if _, ok := m.force(s, d.Stuck); ok {
			d.Action = ActionFail
		}
	}
	return d, nil
}

func (m *Machine[P]) decidable(e Evidence[P]) error {
	at := m.known(e.State.Phase)
	if _, ok := m.specs[at]; !ok {
		return fmt.Errorf("%w %q of the object", ErrUnknownPhase, at)
	}
	if _, ok := m.specs[e.Record.To]; !ok && e.Kept && e.Record.To != "" {
		return fmt.Errorf("%w %q of the record", ErrUnknownPhase, e.Record.To)
	}
	return e.Record.foreign(e.State)
}

// foreign says whether the recorded change is of another object than the state.
func (c Change[P]) foreign(s State[P]) error {
	if c.UID != "" && s.UID != "" && c.UID != s.UID {
		return fmt.Errorf("%w: the object's uid is %q, the record's %q", ErrForeignRecord, s.UID, c.UID)
	}
	return nil
}

// onRestart is what the phase calls for. Work that is our own was not interrupted.
func (m *Machine[P]) onRestart(p P, mine bool) Action {
	spec := m.specs[p]
	switch spec.Restart {
	case RestartFail:
		if !mine {
			return ActionFail
		}
		return ActionResume
	case RestartRerun:
		return ActionRerun
	case RestartResume:
		return ActionResume
	default:
	}
	switch spec.Class {
	case ClassReady:
		return ActionStart
	case ClassWorking:
		return ActionRerun
	default:
		return ActionResume
	}
}
