package operations

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// backupEntry and restoreEntry are the entries of Velero's two files, as they are read; append.go writes them. [ResourceID] has no tags there either.
type backupEntry struct {
	Spec   backupSpec `json:"spec"`
	Status wireStatus `json:"status"`
}

type backupSpec struct {
	BackupName string       `json:"backupName"`
	BackupUID  types.UID    `json:"backupUID"`
	Action     string       `json:"backupItemAction"`
	Resource   ResourceID   `json:"resourceIdentifier"`
	ID         string       `json:"operationID"`
	PostItems  []ResourceID `json:"postOperationItems"`
}

type restoreEntry struct {
	Spec   restoreSpec `json:"spec"`
	Status wireStatus  `json:"status"`
}

type restoreSpec struct {
	RestoreName string     `json:"restoreName"`
	RestoreUID  types.UID  `json:"restoreUID"`
	Action      string     `json:"restoreItemAction"`
	Resource    ResourceID `json:"resourceIdentifier"`
	ID          string     `json:"operationID"`
}

// wireStatus is Velero's status and, in an object of its own that Velero ignores, what Velero has no place for.
type wireStatus struct {
	Phase       Phase      `json:"phase,omitempty"`
	Error       string     `json:"error,omitempty"`
	Completed   int64      `json:"nCompleted,omitempty"`
	Total       int64      `json:"nTotal,omitempty"`
	Units       string     `json:"operationUnits,omitempty"`
	Description string     `json:"description,omitempty"`
	Created     *time.Time `json:"created,omitempty"`
	Started     *time.Time `json:"started,omitempty"`
	Updated     *time.Time `json:"updated,omitempty"`
	Own         *wireOwn   `json:"sheetanchor,omitempty"`
}

// wireOwn tells Canceled and Abandoned from Velero's Failed, and keeps a request to cancel, and an operation's parent,
// over a restart.
type wireOwn struct {
	Outcome         Phase      `json:"outcome,omitempty"`
	CancelRequested *time.Time `json:"cancelRequested,omitempty"`
	CancelReason    string     `json:"cancelReason,omitempty"`
	Parent          string     `json:"parent,omitempty"`
}

// parent returns the ID of the parent, empty for none.
func (w wireStatus) parent() string {
	if w.Own == nil {
		return ""
	}
	return w.Own.Parent
}

// status returns what the document says. An outcome that is unknown, or stands beside another phase than Failed, says
// nothing.
func (w wireStatus) status() Status {
	s := Status{
		Phase: w.Phase, Error: w.Error, Completed: w.Completed, Total: w.Total, Units: w.Units, Description: w.Description,
		Created: w.Created, Started: w.Started, Updated: w.Updated,
	}
	if w.Own == nil {
		return s
	}
	s.CancelRequested, s.CancelReason = w.Own.CancelRequested, w.Own.CancelReason
	if o := w.Own.Outcome; w.Phase == PhaseFailed && (o == PhaseCanceled || o == PhaseAbandoned) {
		s.Phase = o
	}
	return s
}

func (e *backupEntry) operation() (*Operation, types.UID) {
	return &Operation{
		ID: e.Spec.ID, Action: e.Spec.Action, Resource: e.Spec.Resource, PostItems: e.Spec.PostItems,
		Parent: e.Status.parent(), Status: e.Status.status(),
	}, e.Spec.BackupUID
}

func (e *restoreEntry) operation() (*Operation, types.UID) {
	return &Operation{
		ID: e.Spec.ID, Action: e.Spec.Action, Resource: e.Spec.Resource, Parent: e.Status.parent(), Status: e.Status.status(),
	}, e.Spec.RestoreUID
}
