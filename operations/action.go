package operations

import (
	"context"
	"errors"
	"time"
)

// State is what an action says about an operation. A state that is none of the constants, the empty one included,
// counts as running and is reported.
type State string

// The states an action answers with.
const (
	// StateRunning says that the work goes on.
	StateRunning State = "Running"
	// StateCompleted says that the work ended well.
	StateCompleted State = "Completed"
	// StateFailed says that the work ended badly; [Progress.Error] says why.
	StateFailed State = "Failed"
	// StateCanceled says that the work stopped because it was asked to.
	StateCanceled State = "Canceled"
)

// Progress is an action's answer about one operation. It is plain data; the zero Progress counts as running.
type Progress struct {
	// State is where the work is.
	State State
	// Completed of Total Units are done. Total zero means that the total is not known.
	Completed, Total int64
	// Units names what is counted, Description is free text for people; empty leaves what was said before. Of these and
	// of Error 2 KiB are kept.
	Units, Description string
	// Error says why the work failed or was canceled; ignored for other states.
	Error string
	// Started is when the work began, Updated when it last moved; zero when not known. A time outside of the years 0 to
	// 9999 counts as not known.
	Started, Updated time.Time
}

// ProgressResult is one operation's part of the answer of [ManyAction.ProgressMany]: Err nil means that Progress
// holds.
type ProgressResult struct {
	Progress Progress
	Err      error
}

// Action answers for operations of one kind. It is what a plugin author writes. Its methods are called with a deadline,
// from several goroutines for different operations, never twice at the same time for one operation, and over a crash
// more than once: they must be idempotent. A method that outlives its deadline is left behind and its answer dropped.
type Action interface {
	// Progress says how far the operation is. An error means that it could not be found out now: it is asked again,
	// within a budget; [Permanent] says that asking again is useless, and ends the operation as failed.
	Progress(ctx context.Context, operationID string) (Progress, error)
	// Cancel asks the operation to stop and does not wait for it; Progress, which is called next, tells when it has.
	// Work that ends well before it could be stopped is best told as completed. Canceling an operation
	// that has ended, or was canceled, is no error. An error means that the request did not arrive: it is repeated.
	Cancel(ctx context.Context, operationID string) error
}

// ManyAction is an action that can answer for many operations at once, more cheaply than one by one.
type ManyAction interface {
	Action
	// ProgressMany answers for each of the IDs. The error is one that concerns them all. An ID that is missing in the
	// answer counts as one that could not be found out now.
	ProgressMany(ctx context.Context, operationIDs []string) (map[string]ProgressResult, error)
}

// Permanent marks err as one that no repetition will mend: the operation ends as failed with its text. Permanent(nil)
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or an error it wraps, was made by [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
