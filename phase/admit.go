package phase

import "iter"

// Admit returns how many more pieces of work may be started, if at most limit may be in a working phase at a time; zero if
// limit is reached or passed. Phases are those of all objects, as they are read from the cluster: so the cap holds after a
// restart too, when a whole backlog is found at once. It is pure. Of several processes only one may admit, a leader for
// instance: two that count at the same time may both start the last one.
func (m *Machine[P]) Admit(phases iter.Seq[P], limit int) int {
	for p := range phases {
		if m.Class(p) == ClassWorking {
			limit--
		}
	}
	return max(limit, 0)
}
