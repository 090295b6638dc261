package phase

// Event is what happened to a piece of work; together with the phase it decides the next phase. Machines may have
// events of their own beside these.
type Event string

// Events that a caller raises.
const (
	// EventStart claims the work and starts to process its items.
	EventStart Event = "Start"
	// EventInvalid refuses the work before an item was processed.
	EventInvalid Event = "Invalid"
	// EventFatal records an error that ends the work. Before an item was processed it ends at once; later the operations
	// that run are awaited and the last steps are done first.
	EventFatal Event = "Fatal"
	// EventCancel records that the work shall end. It is legal in every phase that is not terminal, as often as wanted, and
	// cannot be taken back. Before an item was processed the work ends at once; later as with EventFatal.
	EventCancel Event = "Cancel"
)

// EventTakeOver is the event of a change that [Applier.Recover] makes: a new owner, in the same phase and with the same
// reason. It is in no table, and a machine that has it is refused.
const EventTakeOver Event = "TakeOver"

// Events that [Machine.Outcome] derives from a [Tally].
const (
	// EventWait: all items are processed, operations run, nothing failed.
	EventWait Event = "Wait"
	// EventWaitPartiallyFailed: operations run and something failed.
	EventWaitPartiallyFailed Event = "WaitPartiallyFailed"
	// EventFinalize: no operation runs, nothing failed.
	EventFinalize Event = "Finalize"
	// EventFinalizePartiallyFailed: no operation runs and something failed.
	EventFinalizePartiallyFailed Event = "FinalizePartiallyFailed"
	// EventCompleted ends the last steps; nothing failed.
	EventCompleted Event = "Completed"
	// EventPartiallyFailed ends the last steps; something failed.
	EventPartiallyFailed Event = "PartiallyFailed"
	// EventFailed ends the last steps after a fatal error.
	EventFailed Event = "Failed"
	// EventCanceled ends the last steps after a cancel.
	EventCanceled Event = "Canceled"
)

// leads returns the class of the phases to which the event leads; zero if it may lead to any.
func (e Event) leads() Class {
	switch e {
	case EventStart:
		return ClassWorking
	case EventWait, EventWaitPartiallyFailed:
		return ClassWaiting
	case EventFinalize, EventFinalizePartiallyFailed:
		return ClassFinalizing
	case EventInvalid, EventCompleted, EventPartiallyFailed, EventFailed, EventCanceled:
		return ClassTerminal
	default:
		return 0
	}
}

// failing says that the event records a failure, so that it must lead to a phase that keeps it.
func (e Event) failing() bool {
	switch e {
	case EventInvalid, EventFatal, EventCancel, EventWaitPartiallyFailed, EventFinalizePartiallyFailed,
		EventPartiallyFailed, EventFailed, EventCanceled:
		return true
	default:
		return false
	}
}
