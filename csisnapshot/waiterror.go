package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Error is one line: the snapshot, why its wait ended with the last error, and in parentheses what else is known.
func (e *WaitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "snapshot %s not %s: %v", e.Ref, e.Stage, e.Category)
	details := e.details()
	switch {
	case e.LastError != "":
		b.WriteString(": " + inLine(e.LastError))
		details = append(details, "error on the "+e.ErrorKind)
		if e.Err != nil {
			details = append(details, inLine(e.Err.Error()))
		}
	case e.Err != nil:
		b.WriteString(": " + inLine(e.Err.Error()))
	}
	b.WriteString(" (" + strings.Join(details, ", ") + ")")
	return b.String()
}

// details are what was last seen of the objects.
func (e *WaitError) details() []string {
	details := []string{"no content", "no handle", "never seen"}
	if e.Content != "" {
		details[0] = "content " + e.Content
	}
	if e.Handle != "" {
		details[1] = "handle " + e.Handle
	}
	if !e.LastChange.IsZero() {
		details[2] = "last change " + e.Ended.Sub(e.LastChange).Round(time.Millisecond).String() + " ago"
	}
	if e.ReadyToUse != nil {
		details = slices.Insert(details, 1, fmt.Sprintf("readyToUse %t", *e.ReadyToUse))
	}
	if e.Diagnosis != DiagnosisNone {
		details = append(details, "diagnosis "+string(e.Diagnosis))
	}
	return details
}

// inLine is the text without line breaks, which joined errors and drivers have.
func inLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

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
