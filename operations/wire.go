package operations

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// backupEntry and restoreEntry are the entries of Velero's two files. [ResourceID] has no tags there either.
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

// wireOwn tells Canceled and Abandoned from Velero's Failed, and keeps a request to cancel over a restart.
type wireOwn struct {
	Outcome         Phase      `json:"outcome,omitempty"`
	CancelRequested *time.Time `json:"cancelRequested,omitempty"`
	CancelReason    string     `json:"cancelReason,omitempty"`
}

// statusToWire returns s as the document keeps it.
func statusToWire(s Status) wireStatus {
	w := wireStatus{
		Phase: s.Phase, Error: s.Error, Completed: s.Completed, Total: s.Total, Units: s.Units, Description: s.Description,
		Created: s.Created, Started: s.Started, Updated: s.Updated,
	}
	own := wireOwn{CancelRequested: s.CancelRequested, CancelReason: s.CancelReason}
	if s.Phase == PhaseCanceled || s.Phase == PhaseAbandoned {
		w.Phase, own.Outcome = PhaseFailed, s.Phase
	}
	if own != (wireOwn{}) {
		w.Own = &own
	}
	return w
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

func toBackupEntry(key Key, op *Operation) backupEntry {
	return backupEntry{
		Spec: backupSpec{
			BackupName: key.Name, BackupUID: key.UID, Action: op.Action, Resource: op.Resource, ID: op.ID, PostItems: op.PostItems,
		},
		Status: statusToWire(op.Status),
	}
}

func toRestoreEntry(key Key, op *Operation) restoreEntry {
	return restoreEntry{
		Spec:   restoreSpec{RestoreName: key.Name, RestoreUID: key.UID, Action: op.Action, Resource: op.Resource, ID: op.ID},
		Status: statusToWire(op.Status),
	}
}

func (e *backupEntry) operation() (Operation, types.UID) {
	return Operation{
		ID: e.Spec.ID, Action: e.Spec.Action, Resource: e.Spec.Resource, PostItems: e.Spec.PostItems, Status: e.Status.status(),
	}, e.Spec.BackupUID
}

func (e *restoreEntry) operation() (Operation, types.UID) {
	return Operation{ID: e.Spec.ID, Action: e.Spec.Action, Resource: e.Spec.Resource, Status: e.Status.status()}, e.Spec.RestoreUID
}
