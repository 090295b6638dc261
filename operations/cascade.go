package operations

import "fmt"

// cascade asks the running children of the operation to stop when it has ended in another way than Completed. An
// operation that is asked once is not asked again. A parent that was only asked to stop and completes all the same has
// a result, and its children go on.
func (s *step) cascade(parent *Operation) {
	if !failed(parent.Status.Phase) {
		return
	}
	for _, id := range s.children[parent.ID] {
		if child := s.running(id); child != nil {
			s.orphan(child, parent.Status.Phase)
		}
	}
}

// inherit asks those operations to stop of which the parent has ended badly before this step saw them.
func (s *step) inherit() {
	if len(s.children) == 0 {
		return
	}
	for i := range s.ops {
		child := &s.ops[i]
		if child.Parent == "" || child.Status.Phase.IsTerminal() {
			continue
		}
		if at := s.rec.List.find(child.Parent); at >= 0 && failed(s.rec.List.ops[at].Status.Phase) {
			s.orphan(child, s.rec.List.ops[at].Status.Phase)
		} else if at, ok := s.at[child.Parent]; ok && failed(s.ops[at].Status.Phase) { // not committed yet
			s.orphan(child, s.ops[at].Status.Phase)
		}
	}
}

func (s *step) orphan(child *Operation, phase Phase) {
	s.stop(child, fmt.Sprintf("its parent %q ended as %s", child.Parent, phase))
}

// failed reports whether the phase is an end without a result.
func failed(p Phase) bool { return p.IsTerminal() && p != PhaseCompleted }
