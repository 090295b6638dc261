package operations

import "time"

// Phase says where an operation is. Phases this package does not know, and the empty one, are kept as they are and
// count as running: nothing may finish while it is not known how an operation ended.
type Phase string

// The phases of an operation. Velero knows the first four. Canceled and Abandoned stand in the document as Velero's
// Failed, with a key "outcome" beside it that tells them apart; a Velero that rewrites the file leaves plain Failed.
const (
	// PhaseNew is an operation that was registered and not yet seen running.
	PhaseNew Phase = "New"
	// PhaseInProgress is an operation that runs.
	PhaseInProgress Phase = "InProgress"
	// PhaseCompleted is an operation that ended well.
	PhaseCompleted Phase = "Completed"
	// PhaseFailed is an operation that ended badly; [Status.Error] says why.
	PhaseFailed Phase = "Failed"
	// PhaseCanceled is an operation whose action confirmed that it stopped because it was asked to.
	PhaseCanceled Phase = "Canceled"
	// PhaseAbandoned is an operation that was asked to stop and did not confirm in time: nobody knows whether it
	// still runs.
	PhaseAbandoned Phase = "Abandoned"
)

// IsTerminal reports whether the phase is an end: Completed, Failed, Canceled or Abandoned. An operation never leaves
// a terminal phase. Unknown phases and the empty one are not terminal.
func (p Phase) IsTerminal() bool {
	switch p {
	case PhaseCompleted, PhaseFailed, PhaseCanceled, PhaseAbandoned:
		return true
	default:
		return false
	}
}

// IsKnown reports whether the phase is one of this package's constants.
func (p Phase) IsKnown() bool {
	return p == PhaseNew || p == PhaseInProgress || p.IsTerminal()
}

// Status is how far an operation is. The zero Status is a running operation of which nothing is known yet.
type Status struct {
	// Phase is where the operation is; unknown and empty count as running.
	Phase Phase
	// Error says why the operation failed, was canceled or abandoned; empty otherwise.
	Error string
	// Completed of Total Units are done. Total zero means that the total is not known.
	Completed, Total int64
	// Units names what is counted, for people: "Bytes". Description is free text for people.
	Units, Description string
	// Created is when the operation was registered, Started when its work began, Updated when its progress last
	// moved. Nil means not known. The stored document keeps whole seconds.
	Created, Started, Updated *time.Time
	// CancelRequested is when the operation was first asked to stop, nil when it was not; CancelReason says why.
	// Velero does not know these two and leaves them out when it writes the file.
	CancelRequested *time.Time
	CancelReason    string
}

// Equal reports whether both statuses say the same. Times are equal when they are the same second, which is what the
// stored document keeps.
func (s Status) Equal(other Status) bool {
	return s.Phase == other.Phase && s.Error == other.Error && s.Completed == other.Completed && s.Total == other.Total &&
		s.Units == other.Units && s.Description == other.Description && s.CancelReason == other.CancelReason &&
		sameSecond(s.Created, other.Created) && sameSecond(s.Started, other.Started) &&
		sameSecond(s.Updated, other.Updated) && sameSecond(s.CancelRequested, other.CancelRequested)
}

// clone returns a copy that shares no time, each as the stored document keeps it.
func (s Status) clone() Status {
	own := s.times()
	var room *[len(own)]time.Time // one allocation for all
	for i, t := range own {
		if *t == nil || (*t).IsZero() {
			*t = nil
			continue
		}
		if room == nil {
			room = new([len(own)]time.Time)
		}
		room[i] = inDocument(**t)
		*t = &room[i]
	}
	return s
}

// settle does to a private status what clone does to a copy.
func (s *Status) settle() {
	for _, t := range s.times() {
		switch {
		case *t == nil:
		case (*t).IsZero():
			*t = nil
		default:
			**t = inDocument(**t)
		}
	}
}

func (s *Status) times() [4]**time.Time {
	return [...]**time.Time{&s.Created, &s.Started, &s.Updated, &s.CancelRequested}
}
