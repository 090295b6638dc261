package finalize

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// Operations is what the ready-made hooks read of the operations. [operations.Map] is one.
type Operations interface {
	// Peek returns the record that is in the store. The hooks never go by what a map remembers: another process may have
	// written since.
	Peek(ctx context.Context, key operations.Key) (operations.Record, error)
}

// read returns the operations of key as the store has them, also those of a key that is completed.
func read(ctx context.Context, ops Operations, key operations.Key) (operations.Record, error) {
	if isNil(ops) {
		return operations.Record{}, fmt.Errorf("read operations: %w: ops is nil", ErrInvalid)
	}
	rec, err := ops.Peek(ctx, key)
	if err != nil {
		return operations.Record{}, fmt.Errorf("read operations: %w", err)
	}
	return rec, nil
}

// snapshotOf returns the VolumeSnapshot that an operation of csisnapshot follows, or should have followed.
func snapshotOf(op operations.Operation) (csisnapshot.Ref, error) {
	ref, err := csisnapshot.ParseOperationID(op.ID)
	if err != nil && op.Resource.Resource == "volumesnapshots" && op.Resource.Name != "" {
		return csisnapshot.Ref{Namespace: op.Resource.Namespace, Name: op.Resource.Name}, nil
	}
	return ref, err
}

// outcomeOf says how an operation stands, for the record of its volume.
func outcomeOf(op operations.Operation) volumeinfo.Outcome {
	o := volumeinfo.Outcome{OperationID: op.ID, Ended: deref(op.Status.Updated)}
	if op.Resource.Resource == "persistentvolumeclaims" {
		o.Volume = volumeinfo.VolumeID{Namespace: op.Resource.Namespace, Claim: op.Resource.Name}
	}
	switch phase := op.Status.Phase; {
	case !phase.IsTerminal():
	case phase == operations.PhaseCompleted:
		o.Result = volumeinfo.Succeeded
		if op.Action == csisnapshot.ActionName {
			o.Ready = new(true)
		}
	default:
		o.Result, o.Error = volumeinfo.Failed, oneLine(failure(op))
	}
	return o
}

// failure says how and why an operation ended badly.
func failure(op operations.Operation) string {
	switch op.Status.Phase {
	case operations.PhaseCanceled:
		return "canceled: " + cmp.Or(op.Status.Error, op.Status.CancelReason, "reason unknown")
	case operations.PhaseAbandoned:
		return "abandoned: " + cmp.Or(op.Status.Error, op.Status.CancelReason, "reason unknown")
	default:
		return cmp.Or(op.Status.Error, "reason unknown")
	}
}
