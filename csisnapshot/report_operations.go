package csisnapshot

import (
	"errors"

	"github.com/sheetanchor/sheetanchor/operations"
)

// errUnfinished is the error of a volume that the run left without a result.
var errUnfinished = errors.New("the cut ended before the volume's snapshot")

// Operations are the asynchronous operations that the report begins, in its order: one in progress for every volume that
// is cut, which ends when its snapshot is ready to use, and one that has failed for every volume that is not. Skipped
// volumes have none. A Cut that is repeated gives the same IDs for the same snapshots, so that they can be merged.
func (r *Report) Operations() []operations.Operation {
	var ops []operations.Operation
	for _, v := range r.Volumes {
		if v.OperationID == "" {
			continue
		}
		op := operations.Operation{
			ID: v.OperationID, Action: ActionName,
			Resource: operations.ResourceID{Group: snapshotGroup.Group, Resource: "volumesnapshots", Namespace: v.Namespace, Name: v.Snapshot},
			Status:   operations.Status{Phase: operations.PhaseInProgress, Created: new(r.Started)},
		}
		if !v.Started.IsZero() {
			op.Status.Started, op.Status.Updated = new(v.Started), new(v.Started)
		}
		if v.Snapshot == "" {
			op.Resource = operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: v.Namespace, Name: v.Claim}
		}
		if v.Err != nil {
			op.Status.Phase, op.Status.Error = operations.PhaseFailed, v.Err.Error()
		}
		ops = append(ops, op)
	}
	return ops
}

// operationID names the volume's operation: its snapshot and the time it was created. That of a volume without a snapshot
// says so instead of a time, and is the same after a repeated Cut that fails again.
func (r *run) operationID(v VolumeReport) string {
	ref := Ref{Namespace: v.Namespace, Name: r.s.opts.Names.Snapshot(r.owner.UID, v.ClaimUID)}
	return OperationID(ref, v.Started)
}
