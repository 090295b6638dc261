package backuptest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Script is what the storage, its sidecar and the world do with the snapshots of one claim. The zero value cuts them and has them
// ready at once. It holds for each snapshot of the claim from its beginning.
//
// CutAfter, ReadyAfter, Errors and DeleteErrors are the storage's, and all that [Driver] minds. The other fields are what a
// [SnapshotController] does.
type Script struct {
	// CutAfter is how long the cut takes: CreateSnapshot returns after it, and the content has its handle then.
	CutAfter time.Duration
	// ReadyAfter is how long a snapshot needs from the cut until it is ready. The cluster learns of it when the sidecar asks next.
	ReadyAfter time.Duration
	// Errors are answered by CreateSnapshot before the cut begins, in order. One with Times 0 is answered for ever.
	Errors []DriverError
	// DeleteErrors are the same for DeleteSnapshot.
	DeleteErrors []DriverError
	// Silent means that no sidecar takes care of the content: it never gets a status, as with a dead or missing driver.
	Silent bool
	// ErrorsOn leaves the driver's errors out on one side. Zero: they stand on the content and are copied to the snapshot.
	ErrorsOn ErrorPlace
	// LateFinalizer is how long a ready snapshot lacks its bound finalizer, as it does for a second on a busy cluster. 0: it has
	// it before it is ready, unless the rate is low.
	LateFinalizer time.Duration
	// SeesDeletion lets the sidecar see a deletion that came while its last CreateSnapshot call was under way. Without, it is in
	// the trap that real sidecars are in more often than not: the content stays Terminating, with its physical snapshot, until
	// anyone changes the object (any label does), or until the sidecar looks at everything, each 15 minutes.
	SeesDeletion bool
	// Incidents are what others do to the snapshot and its content meanwhile. Each happens once for a name of a snapshot in the
	// life of a controller.
	Incidents []Incident
}

// ErrorPlace says where the driver's errors are to be seen.
type ErrorPlace uint8

const (
	// ErrorsOnBoth is as in a real cluster: on the content, and copied to the snapshot.
	ErrorsOnBoth ErrorPlace = iota
	// ErrorsOnContent is as while the snapshot-controller lags: the snapshot never shows them.
	ErrorsOnContent
	// ErrorsOnSnapshot is for readers who may not see contents: these have no error.
	ErrorsOnSnapshot
)

// Incident is something that someone else does to a snapshot or its content.
type Incident struct {
	// After is the time since the controller saw the snapshot first.
	After time.Duration
	Kind  IncidentKind
	// Content means the snapshot's content, instead of the snapshot. There is no incident if there is no content then.
	Content bool
	// Lasts is how long the controller leaves a removed status as it is. 0: it is written again at once.
	Lasts time.Duration
}

// IncidentKind is what an [Incident] does.
type IncidentKind uint8

const (
	// IncidentStatusRemoved empties the status.
	IncidentStatusRemoved IncidentKind = iota
	// IncidentVanished takes the object away at once, its finalizers notwithstanding.
	IncidentVanished
	// IncidentReplaced takes the object away and makes another one with its name, spec, labels and annotations, and with a new UID
	// and no status.
	IncidentReplaced
)

// DriverError is an error of a CSI call. Its text is that of a gRPC status.
type DriverError struct {
	// Code is the name of a gRPC code, such as "InvalidArgument". Empty: "Internal".
	Code string
	// Text is the description.
	Text string
	// Times is how many calls in a row get this error. 0: each from here on.
	Times int
}

// Error returns "rpc error: code = CODE desc = TEXT".
func (e *DriverError) Error() string {
	return fmt.Sprintf("rpc error: code = %s desc = %s", orString(e.Code, "Internal"), e.Text)
}

// errorAt returns the error for the nth CreateSnapshot call, counted from 1, or nil.
func (s Script) errorAt(call int) error { return scriptedError(s.Errors, call) }

func scriptedError(errs []DriverError, call int) error {
	for _, e := range errs {
		if e.Times <= 0 || call <= e.Times {
			return &e
		}
		call -= e.Times
	}
	return nil
}

// scriptFor returns the script of a claim: one under "NAMESPACE/NAME" goes before one under "NAME".
func scriptFor(scripts map[string]Script, claim types.NamespacedName) Script {
	if script, found := scripts[claim.String()]; found {
		return script
	}
	return scripts[claim.Name]
}
