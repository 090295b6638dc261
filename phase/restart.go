package phase

import "fmt"

// Restart says what becomes of work found in a phase when the process that did it is gone.
type Restart uint8

// What a phase may call for.
const (
	// RestartByClass: work in a ready phase is started, in a working phase done again from the phase's beginning, in a waiting
	// or finalizing phase carried on from what is stored.
	RestartByClass Restart = iota
	// RestartRerun: the phase is done again from its beginning; what it does must be idempotent.
	RestartRerun
	// RestartResume: the phase is carried on from what is stored.
	RestartResume
	// RestartFail: what the phase did cannot be done again. The work fails with [ReasonInterrupted].
	RestartFail
)

// Action is what a process does at start-up with an object. The zero Action is none.
type Action uint8

// The actions.
const (
	// ActionNone: the work has ended, or somebody else set its phase.
	ActionNone Action = iota
	// ActionStart: nothing was processed; whoever raises EventStart first owns it.
	ActionStart
	// ActionRerun: the phase is done again from its beginning.
	ActionRerun
	// ActionResume: the phase is carried on from what is stored.
	ActionResume
	// ActionLeave: the owner lives, or is not known to be dead.
	ActionLeave
	// ActionFail: the work is led to its end as a failure, by EventFatal or as after a passed deadline.
	ActionFail
)

// String returns the action as one lower-case word.
func (a Action) String() string {
	names := [...]string{"none", "start", "rerun", "resume", "leave", "fail"}
	if int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// Divergence says which of object and record is brought to the other before anything else.
type Divergence uint8

// The divergences.
const (
	// Agree: they say the same, there is no record, or the object is in an external phase.
	Agree Divergence = iota
	// ObjectFollows: the record is ahead.
	ObjectFollows
	// RecordFollows: the object is ahead, or is the truth for another reason: see [Applier.Load].
	RecordFollows
)

// String returns who follows: "nothing", "object" or "record".
func (d Divergence) String() string {
	names := [...]string{"nothing", "object", "record"}
	if int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("divergence(%d)", uint8(d))
}
