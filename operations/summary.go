package operations

// Summary counts the operations of a list by how they ended. Total is the sum of the others. The zero Summary is that
// of an empty list.
type Summary struct {
	// Total is the number of operations.
	Total int
	// Running counts every operation that has no terminal phase, unknown and empty phases included.
	Running int
	// Completed, Failed, Canceled and Abandoned count the operations in these phases.
	Completed, Failed, Canceled, Abandoned int
}

// add counts one more operation in phase p.
func (s *Summary) add(p Phase) {
	s.Total++
	switch p {
	case PhaseCompleted:
		s.Completed++
	case PhaseFailed:
		s.Failed++
	case PhaseCanceled:
		s.Canceled++
	case PhaseAbandoned:
		s.Abandoned++
	default:
		s.Running++
	}
}
