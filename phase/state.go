package phase

import (
	"cmp"
	"context"
	"time"
)

// State is what an object says about its work.
type State[P ~string] struct {
	// Phase is the phase; empty means the machine's initial phase. States that an Applier returns have it filled in.
	Phase P
	// UID identifies the object; empty if its kind has none.
	UID string
	// Version is the object's version that was read, opaque. A write with it succeeds only if the object is still that one.
	Version string
	// Owner is who moved the work last, or took it over; empty if nobody said so. Who cancels the work of another does not
	// become its owner.
	Owner string
	// Reason is one word for programs, Message a text for people: why the work is in this phase. Both may be empty.
	Reason, Message string
	// Started is when items were first processed, Completed when the work ended; zero if not yet.
	Started, Completed time.Time
	// Finalizing is when the last steps began; zero if not yet, or if nobody recorded it (see ApplierOptions.MaxFinalize).
	Finalizing time.Time
	// Entered is when the work came into this phase, Changed when phase or reason last changed, which may be later; a new
	// owner is no change. Zero if nobody recorded it. Deadlines count from them.
	Entered, Changed time.Time
}

// Change is one step of a piece of work, as it is recorded, written and observed.
type Change[P ~string] struct {
	From, To P
	// Event that led from From to To; empty if Load chose the phase to bring object and record together.
	Event Event
	// UID of the object; empty if its kind has none.
	UID                    string
	Reason, Message, Owner string
	// At is when the change was decided. In a terminal change it is the time of completion.
	At time.Time
	// Started is the object's start time after the change; zero if no item was processed yet.
	Started time.Time
	// Finalizing is when the last steps began, if that is recorded; zero in every change that does not lead to them.
	Finalizing time.Time
	// Entered is when the work came into To: At, or earlier if the change leads back to the same phase. Changed is At, or
	// earlier if only the owner changes. Zero means At.
	Entered, Changed time.Time
	// Terminal says that To ends the work.
	Terminal bool
	// Class and Failing describe To, as the machine's Spec does. They are not recorded; an Applier fills them in.
	Class   Class
	Failing bool
	// Held is who owned the work before the change; empty if nobody did. It is not recorded.
	Held string
}

// Result returns the state to which the change leads: old with the change's phase, reason, message, owner and times. The
// owner stays if the change has none. Version is old's; whoever stores the state sets the new one.
func (c Change[P]) Result(old State[P]) State[P] {
	old.Phase, old.Reason, old.Message = c.To, c.Reason, c.Message
	if c.Owner != "" {
		old.Owner = c.Owner
	}
	if !c.Started.IsZero() {
		old.Started = c.Started
	}
	if !c.Finalizing.IsZero() {
		old.Finalizing = c.Finalizing
	}
	old.Entered, old.Changed = cmp.Or(c.Entered, c.At), cmp.Or(c.Changed, c.At)
	if c.Terminal {
		old.Completed = c.At
	}
	return old
}

// Follows says whether c may replace stored as the last change of a record: it starts where stored led to, does not drop
// the reason of a cancel or a fatal error, of which the writer of c then did not know, and was not decided for an owner
// from whom somebody else has taken the work over since.
func (c Change[P]) Follows(stored Change[P]) bool {
	known := strength(stored.Reason) < strengthFatal || strength(c.Reason) >= strength(stored.Reason)
	owned := c.Held == "" || stored.Owner == "" || c.Held == stored.Owner
	return stored.To == c.From && known && owned
}

// Object is the place where everybody sees the phase: a custom resource, a ConfigMap (package phasekube), or anything
// with compare-and-swap. Implementations must be safe for concurrent use and must return when ctx ends.
//
// # Errors
//
// [ErrConflict]: the object is no longer the expected one. [ErrUnknownOutcome]: the write got no answer. [Transient]:
// nothing was written and trying again may help. [ErrNotFound], [ErrForbidden] and [ErrMissingAPI] are believed when they
// are repeated two seconds later. Every other error is final.
type Object[P ~string] interface {
	// Get reads the object.
	Get(ctx context.Context) (State[P], error)
	// Update makes the object what c.Result(old) says and returns it as stored, but only if its version is still
	// old.Version and its phase old.Phase; else [ErrConflict]. If old.Version is empty, the phase is compared, and the UID
	// unless old.UID is empty too.
	Update(ctx context.Context, old State[P], c Change[P]) (State[P], error)
}

// Record is the durable record of the last change, written before the object: it survives the object's loss and is
// ahead of it by one change at most. See [NewDocumentRecord] for one on any store.
type Record[P ~string] interface {
	// Load returns the last saved change; false if there is none. A record of another object is [ErrForeignRecord].
	Load(ctx context.Context) (Change[P], bool, error)
	// Save records c durably. It is a compare-and-swap: if a change is there that c does not follow (see [Change.Follows]),
	// it returns [ErrConflict]; if c itself is there, it does nothing. [Transient] and [ErrUnknownOutcome] make the Applier
	// try again.
	Save(ctx context.Context, c Change[P]) error
}
