package operations

import (
	"errors"
	"fmt"
)

// Categories of errors, to be tested with [errors.Is].
var (
	// ErrNotFound says that a store holds no document of that name.
	ErrNotFound = errors.New("document not found")
	// ErrConflict says that something else was written since the caller read: read again and decide again.
	ErrConflict = errors.New("conflict")
	// ErrUnknownOutcome says that a write got no answer: it may have been done or not.
	ErrUnknownOutcome = errors.New("outcome of the write is not known")
	// ErrForeignRecord says that the document under this name belongs to an owner of another UID. It is neither
	// adopted nor overwritten.
	ErrForeignRecord = errors.New("record belongs to another owner")
	// ErrCompleted says that the key was completed: see [CompletedError] for its summary.
	ErrCompleted = errors.New("operations are completed")
	// ErrRunning says that a key cannot be completed while operations run.
	ErrRunning = errors.New("operations are still running")
	// ErrDuplicate says that a list already has an operation of that ID.
	ErrDuplicate = errors.New("duplicate operation")
	// ErrUnknownOperation says that a list has no operation of that ID.
	ErrUnknownOperation = errors.New("unknown operation")
	// ErrTerminal says that an operation that has ended would have changed its phase.
	ErrTerminal = errors.New("operation has ended")
	// ErrMalformed says that a document or an operation cannot be what it should be.
	ErrMalformed = errors.New("malformed")
	// ErrTooLarge says that a document is larger than the limit.
	ErrTooLarge = errors.New("document too large")
)

// ConflictError says which key was changed under the caller, and how. It is [ErrConflict].
type ConflictError struct {
	Key Key
	// Reason says in a few words what was found instead of what the caller had read.
	Reason string
	// Err is the store's error, nil when the conflict was found without it.
	Err error
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("operations of %s: conflict: %s", e.Key, e.Reason)
}

// Is reports whether target is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Unwrap returns the store's error.
func (e *ConflictError) Unwrap() error { return e.Err }

// CompletedError says that a key was completed, and with what result. It is [ErrCompleted].
type CompletedError struct {
	Key     Key
	Summary Summary
}

// Error implements error.
func (e *CompletedError) Error() string { return fmt.Sprintf("operations of %s are completed", e.Key) }

// Is reports whether target is [ErrCompleted].
func (e *CompletedError) Is(target error) bool { return target == ErrCompleted }

// RunningError says that a key has operations that run. It is [ErrRunning].
type RunningError struct {
	Key     Key
	Summary Summary
}

// Error implements error.
func (e *RunningError) Error() string {
	return fmt.Sprintf("operations of %s: %d of %d still running", e.Key, e.Summary.Running, e.Summary.Total)
}

// Is reports whether target is [ErrRunning].
func (e *RunningError) Is(target error) bool { return target == ErrRunning }
