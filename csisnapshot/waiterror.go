package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The categories of a [WaitError].
var (
	// ErrTimeout is a wait that ran out of time, whatever ended it: no progress, MaxWait or the context's deadline.
	ErrTimeout = errors.New("timed out")
	// ErrCanceled is a wait whose context was cancelled, or that was dropped.
	ErrCanceled = errors.New("canceled")
	// ErrNotFound is a snapshot that was never there.
	ErrNotFound = errors.New("no such snapshot")
	// ErrDeleted is a snapshot that someone deleted while it was waited for.
	ErrDeleted = errors.New("snapshot deleted by someone else")
	// ErrReplaced is a snapshot whose name now belongs to an object with another UID.
	ErrReplaced = errors.New("snapshot replaced by another object")
	// ErrFinal is an error that the classifier called final.
	ErrFinal = errors.New("final error")
	// ErrForbidden is a wait that may not read what it waits for.
	ErrForbidden = errors.New("reading snapshots is not allowed or not possible")
	// ErrForeign is an object that does not carry the owner: it is never touched.
	ErrForeign = errors.New("not ours")
	// ErrNotStarted is a snapshot that was never created because its driver had stopped making progress.
	ErrNotStarted = errors.New("not started")
)

// Diagnosis says what a snapshot is waiting for, or why its wait ended.
type Diagnosis string

// The diagnoses. All but the last six are of a snapshot that may still be made.
const (
	DiagnosisNone           Diagnosis = ""                     // nothing remarkable
	DiagnosisNeverPickedUp  Diagnosis = "NeverPickedUp"        // no sign of a snapshot-controller
	DiagnosisQueued         Diagnosis = "Queued"               // not picked up, while others of the driver move
	DiagnosisSidecarSilent  Diagnosis = "ContentNeverPickedUp" // a content, but no sign of the driver's sidecar
	DiagnosisClassMissing   Diagnosis = "ClassMissing"         // the class does not exist, or none is default
	DiagnosisClassOfAnother Diagnosis = "ClassOfAnotherDriver" // the content's driver is not the volume's
	DiagnosisError          Diagnosis = "Error"                // the status holds an error; the stack retries
	DiagnosisNoProgress     Diagnosis = "NoProgress"           // picked up, and then nothing
	DiagnosisNotFound       Diagnosis = "NotFound"
	DiagnosisDeleted        Diagnosis = "Deleted"
	DiagnosisReplaced       Diagnosis = "Replaced"
	DiagnosisFinal          Diagnosis = "FinalError"
	DiagnosisNotStarted     Diagnosis = "NotStarted"
	DiagnosisUnreadable     Diagnosis = "Unreadable"
)

// WaitError says what was waited for, what was last seen and why the wait ended. It is one of the categories by
// errors.Is; a timeout is also context.DeadlineExceeded, and wraps what ended it.
type WaitError struct {
	Ref        Ref
	UID        types.UID
	Driver     string // empty if unknown
	Stage      Stage
	Content    string // name of the content; empty if none was seen
	Handle     string // empty if none was seen
	ReadyToUse *bool  // nil if the status never said
	LastError  string // the last error text seen in a status; empty if none
	ErrorKind  string // KindSnapshot or KindContent: where LastError stood
	Diagnosis  Diagnosis
	LastChange time.Time // when the objects were last seen to change; zero if they were never seen
	Ended      time.Time
	Category   error // one of the Err… variables of this package
	Err        error // what ended the wait, or nil
}

// Error is one line with everything that is known.
func (e *WaitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wait for snapshot %s to be %s: %v", e.Ref, e.Stage, e.Category)
	if e.Diagnosis != DiagnosisNone {
		fmt.Fprintf(&b, " (%s)", e.Diagnosis)
	}
	content, ready, handle, last := "none", "unknown", "none", "never seen"
	if e.Content != "" {
		content = e.Content
	}
	if e.ReadyToUse != nil {
		ready = fmt.Sprint(*e.ReadyToUse)
	}
	if e.Handle != "" {
		handle = e.Handle
	}
	if !e.LastChange.IsZero() {
		last = e.Ended.Sub(e.LastChange).Round(time.Millisecond).String() + " ago"
	}
	fmt.Fprintf(&b, "; content %s, readyToUse %s, handle %s, last change %s", content, ready, handle, last)
	if e.LastError != "" {
		fmt.Fprintf(&b, ", last error on the %s: %s", e.ErrorKind, e.LastError)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is holds for the category, and for context.DeadlineExceeded and context.Canceled where the category means them.
func (e *WaitError) Is(target error) bool {
	switch target {
	case e.Category:
		return true
	case context.DeadlineExceeded:
		return e.Category == ErrTimeout
	case context.Canceled:
		return e.Category == ErrCanceled
	default:
		return false
	}
}

// Unwrap is what ended the wait.
func (e *WaitError) Unwrap() error { return e.Err }
