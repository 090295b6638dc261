package finalize

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

var (
	// ErrInvalid says that hooks or options cannot be used as they are. Faults of hooks are also a [HookError].
	ErrInvalid = errors.New("invalid")
	// ErrCycle says that a hook comes after itself. It is also a [HookError], which names the way round.
	ErrCycle = errors.New("cycle of hooks")
	// ErrCheckpoint is the category of every fault of the checkpoint: it could not be read or written.
	ErrCheckpoint = errors.New("checkpoint")
	// ErrForeignCheckpoint says that the checkpoint belongs to another owner. Nothing was run or written. It is
	// [ErrCheckpoint].
	ErrForeignCheckpoint = fmt.Errorf("%w of another owner", ErrCheckpoint)
	// ErrMalformedCheckpoint says that the checkpoint is damaged, or was written by a newer version. Nothing was run or
	// written. It is [ErrCheckpoint].
	ErrMalformedCheckpoint = fmt.Errorf("malformed %w", ErrCheckpoint)
	// ErrMalformedResults says that a file of results cannot be read.
	ErrMalformedResults = errors.New("malformed results")
	// ErrTooLarge says that a file of results is larger than its limit, once decompressed.
	ErrTooLarge = errors.New("results too large")
	// ErrOperationStarted says that an asynchronous operation was started while the last steps ran: nothing would follow it
	// to its end.
	ErrOperationStarted = errors.New("operation started during finalize")
	// ErrTimeout is the cause of a hook's context when its Timeout ends it.
	ErrTimeout = errors.New("hook timed out")
)

// HookError is a fault of one hook's definition. It is [ErrInvalid], and [ErrCycle] for a cycle.
type HookError struct {
	// Hook is the hook's name.
	Hook string
	// Field is the field at fault, or the argument of the function that made the hook; Problem says what is wrong with
	// it.
	Field, Problem string

	cycle bool
}

// Error implements error.
func (e *HookError) Error() string {
	return fmt.Sprintf("hook %s: %s %s", quote(e.Hook), e.Field, e.Problem)
}

// Is reports whether target is one of the hook error's categories.
func (e *HookError) Is(target error) bool {
	return target == ErrInvalid || e.cycle && target == ErrCycle
}

type laterError struct {
	after time.Duration
	why   string
}

func (e *laterError) Error() string { return fmt.Sprintf("later, in %v: %s", e.after, e.why) }

// Later is returned by a hook's Run when what it waits for is not there yet: it is called again after d, which is no
// failure and no retry. A d of zero or less means one second. why says what is waited for, and is in the report if
// Options.MaxTotal ends the wait. Joined with other errors, Later wins: those are in the report only if MaxTotal ends the
// wait, so a hook returns them again with its end.
func Later(d time.Duration, why string) error {
	if d <= 0 {
		d = time.Second
	}
	return &laterError{after: d, why: why}
}

// ItemError is the fault of one object among those a hook works on.
type ItemError struct {
	// Namespace and Name are the object's. An empty namespace: it belongs to the cluster.
	Namespace, Name string
	// Err is the fault.
	Err error
}

// Error implements error.
func (e *ItemError) Error() string {
	if e.Namespace == "" {
		return fmt.Sprintf("%s: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("%s/%s: %v", e.Namespace, e.Name, e.Err)
}

// Unwrap returns the fault.
func (e *ItemError) Unwrap() error { return e.Err }

// Item returns the fault of one object as an [ItemError], or nil if err is nil. A hook joins several with errors.Join;
// each becomes one entry of the report and of the results, under its namespace.
func Item(namespace, name string, err error) error {
	if err == nil {
		return nil
	}
	return &ItemError{Namespace: namespace, Name: name, Err: err}
}

type warningError struct{ err error }

func (e *warningError) Error() string { return "warning: " + e.err.Error() }
func (e *warningError) Unwrap() error { return e.err }

// Warning returns err as warnings, or nil if err is nil: a hook that returns it, alone or joined with other warnings, has
// succeeded. Joined with errors, those fail the hook and the warnings stay warnings.
func Warning(err error) error {
	if err == nil {
		return nil
	}
	return &warningError{err: err}
}

// ErrPermanent is matched by what [Permanent] returns.
var ErrPermanent = errors.New("permanent")

type permanentError struct{ err error }

func (e *permanentError) Error() string        { return e.err.Error() }
func (e *permanentError) Unwrap() error        { return e.err }
func (e *permanentError) Is(target error) bool { return target == ErrPermanent }

// Permanent returns err as one that no later try can mend, or nil if err is nil: the hook that returns it, alone or joined
// with others, is not called again whatever its Retries. Its text is err's.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err: err}
}

func quote(s string) string { return strconv.Quote(s) }
