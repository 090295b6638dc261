package operations

import (
	"fmt"
	"iter"
	"slices"
)

// List holds operations in the order in which they were added, each ID once. It is a value: a copy is cheap and
// independent, and no change through one List is seen through another. The zero List is empty and ready to use. Reading
// one List from several goroutines is safe, changing it is not.
//
// Every changing method copies the list once, so adding many operations is one call with many, not many calls.
type List struct {
	ops   []*Operation   // neither the slice nor what it points to is ever changed in place
	index map[string]int // positions of ops[:len(index)], never changed in place
}

// unindexed is how many operations at the end of a list are found by looking at each.
const unindexed = 32

// NewList returns a list of the operations, or the error of [List.Add].
func NewList(ops ...Operation) (List, error) {
	var l List
	if err := l.Add(ops...); err != nil {
		return List{}, err
	}
	return l, nil
}

// Len returns the number of operations.
func (l List) Len() int { return len(l.ops) }

// All ranges over copies of the operations in order. It can be ranged over many times.
func (l List) All() iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		for _, op := range l.ops {
			if !yield(op.clone()) {
				return
			}
		}
	}
}

// Get returns a copy of the operation with that ID.
func (l List) Get(id string) (Operation, bool) {
	i := l.find(id)
	if i < 0 {
		return Operation{}, false
	}
	return l.ops[i].clone(), true
}

// Summary counts the operations by how they ended.
func (l List) Summary() Summary {
	var s Summary
	for _, op := range l.ops {
		s.add(op.Status.Phase)
	}
	return s
}

// Failures returns copies of the operations that ended in another way than Completed: what a retry would do again.
func (l List) Failures() []Operation {
	var out []Operation
	for _, op := range l.ops {
		if p := op.Status.Phase; p.IsTerminal() && p != PhaseCompleted {
			out = append(out, op.clone())
		}
	}
	return out
}

// Equal reports whether both lists hold equal operations in the same order.
func (l List) Equal(other List) bool {
	return slices.EqualFunc(l.ops, other.ops, func(a, b *Operation) bool { return a == b || a.Equal(*b) })
}

// Add appends copies of the operations, of which an empty phase becomes [PhaseNew]. It changes nothing and returns an
// error when one of them is invalid ([ErrMalformed]: no ID, no action, text that is not UTF-8, a time no document can
// hold) or has an ID that the list has already ([ErrDuplicate]).
func (l *List) Add(ops ...Operation) error {
	return l.add(ops, func(op *Operation) error {
		return fmt.Errorf("operation %q: %w", op.ID, ErrDuplicate)
	})
}

// Merge appends copies of those operations whose IDs the list does not have, and leaves the others as they are, so that
// registering the same work twice is registering it once. It changes nothing and returns [ErrMalformed] when one of
// them is invalid, as for [List.Add].
func (l *List) Merge(ops ...Operation) error {
	return l.add(ops, func(*Operation) error { return nil })
}

// Set replaces the operations of the same IDs by copies of ops. It changes nothing and returns an error when one of
// them is invalid ([ErrMalformed]), is not in the list ([ErrUnknownOperation]), or has ended and would change its phase
// ([ErrTerminal]).
func (l *List) Set(ops ...Operation) error {
	next := slices.Clone(l.ops)
	for i := range ops {
		op, err := newEntry(ops[i])
		if err != nil {
			return err
		}
		at := l.find(op.ID)
		if at < 0 {
			return fmt.Errorf("operation %q: %w", op.ID, ErrUnknownOperation)
		}
		if err := mayFollow(next[at], op); err != nil {
			return err
		}
		next[at] = op
	}
	l.ops = next
	return nil
}

// add appends what is new and asks known about what is not.
func (l *List) add(ops []Operation, known func(*Operation) error) error {
	next := slices.Grow(slices.Clip(l.ops), len(ops))
	fresh := make(map[string]struct{}, len(ops))
	for i := range ops {
		op, err := newEntry(ops[i])
		if err != nil {
			return err
		}
		if op.Action == "" { // Decode takes it, from others; nobody would answer for it
			return fmt.Errorf("operation %q: %w: no action", op.ID, ErrMalformed)
		}
		if op.Status.Phase == "" {
			op.Status.Phase = PhaseNew
		}
		if _, twice := fresh[op.ID]; twice || l.find(op.ID) >= 0 {
			if err := known(op); err != nil {
				return err
			}
			continue
		}
		fresh[op.ID] = struct{}{}
		next = append(next, op)
	}
	l.ops = next
	l.reindex()
	return nil
}

// rebase returns theirs with what became of base in mine, where theirs says nothing else: operations added in mine, and
// those changed in mine only. Of two changes theirs counts, unless only mine is an end.
func rebase(base, mine, theirs List) List {
	next := List{ops: slices.Clone(theirs.ops), index: theirs.index}
	for _, op := range mine.ops {
		was, at := base.find(op.ID), theirs.find(op.ID)
		switch {
		case was < 0 && at < 0:
			next.ops = append(next.ops, op)
		case at < 0, was >= 0 && base.ops[was].Equal(*op): // taken out there, not changed here
		case theirs.ops[at].Status.Phase.IsTerminal():
		case op.Status.Phase.IsTerminal(), was >= 0 && base.ops[was].Equal(*theirs.ops[at]):
			next.ops[at] = op
		}
	}
	next.reindex()
	return next
}

// reindex makes a new index when too many operations are outside of it.
func (l *List) reindex() {
	if len(l.ops)-len(l.index) <= unindexed {
		return
	}
	index := make(map[string]int, len(l.ops))
	for i, op := range l.ops {
		index[op.ID] = i
	}
	l.index = index
}

// find returns the position of the operation, or -1.
func (l *List) find(id string) int {
	if i, ok := l.index[id]; ok {
		return i
	}
	for i := len(l.index); i < len(l.ops); i++ {
		if l.ops[i].ID == id {
			return i
		}
	}
	return -1
}

// mayFollow returns [ErrTerminal] when next takes an operation out of its terminal phase.
func mayFollow(old, next *Operation) error {
	if old == next || !old.Status.Phase.IsTerminal() || old.Status.Phase == next.Status.Phase {
		return nil
	}
	return fmt.Errorf("operation %q: %w: %s cannot become %q", old.ID, ErrTerminal, old.Status.Phase, next.Status.Phase)
}

// mayReplace returns [ErrTerminal] when next takes an operation that is in both lists out of its terminal phase.
func (l *List) mayReplace(next *List) error {
	for i, old := range l.ops {
		if i < len(next.ops) && next.ops[i] == old {
			continue
		}
		if at := next.find(old.ID); at >= 0 {
			if err := mayFollow(old, next.ops[at]); err != nil {
				return err
			}
		}
	}
	return nil
}
