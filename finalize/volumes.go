package finalize

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// WriteVolumeInfo returns the hook "write-volumeinfo", which brings the results of the operations into the records that
// were saved when everything was cut, see volumeinfo.Merge. It runs after the hooks named, which should be all others
// that change what is true of a volume. Records are found by operation, else by claim; operations that are of no volume
// are not looked at. Running it again changes nothing, and an unchanged document is not written.
//
// Errors of the report: an operation of a volume without a record, a record that contradicts its operation, a record
// without a final result. An operation that a later try on the same volume made obsolete is a warning. A document that
// cannot be read is never overwritten. The operations are those in the store. The hook is retried three times. [New]
// refuses it when doc or ops is nil, or key not valid.
func WriteVolumeInfo(doc Document, ops Operations, key operations.Key, after ...string) Hook {
	h := Hook{Name: "write-volumeinfo", After: after, Retries: 3, Run: func(ctx context.Context) error {
		rec, err := read(ctx, ops, key)
		if err != nil {
			return err
		}
		data, err := doc.Load(ctx)
		if err != nil {
			return fmt.Errorf("read volume info: %w", err)
		}
		records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
		if err != nil {
			return fmt.Errorf("read volume info: %w", err)
		}
		outcomes, obsolete := outcomes(rec.List, records)
		merged, gaps := volumeinfo.Merge(records, outcomes)
		if err := saveRecords(ctx, doc, data, merged); err != nil {
			return err
		}
		faults := obsolete
		for _, g := range gaps {
			faults = append(faults, gapError(g))
		}
		return errors.Join(faults...)
	}}
	return h.need("doc", doc).need("ops", ops).valid("key", key)
}

func saveRecords(ctx context.Context, doc Document, data []byte, records []volumeinfo.BackupRecord) error {
	next, err := volumeinfo.Encode(records)
	if err != nil {
		return err
	}
	if bytes.Equal(next, data) {
		return nil
	}
	if err := doc.Save(ctx, next); err != nil {
		return fmt.Errorf("write volume info: %w", err)
	}
	return nil
}

// outcomes returns how the operations of volumes stand. One of a snapshot that a record follows by a later operation is
// obsolete: a warning, and no outcome.
func outcomes(list operations.List, records []volumeinfo.BackupRecord) (out []volumeinfo.Outcome, obsolete []error) {
	followed, snapshots := map[string]bool{}, map[csisnapshot.Ref]bool{}
	for _, r := range records {
		id := r.OperationID()
		followed[id] = id != ""
		if ref, err := csisnapshot.ParseOperationID(id); err == nil {
			snapshots[ref] = true
		}
	}
	for op := range list.All() {
		ref, err := snapshotOf(op)
		ours := op.Action == csisnapshot.ActionName
		switch {
		case followed[op.ID]:
			out = append(out, outcomeOf(op))
		case ours && err == nil && snapshots[ref]:
			gap := volumeinfo.Gap{Object: "operation " + op.ID, Reason: volumeinfo.OtherOperation}
			obsolete = append(obsolete, Warning(Item(ref.Namespace, ref.Name, errors.New(gap.String()))))
		case ours, op.Resource.Resource == "persistentvolumeclaims":
			out = append(out, outcomeOf(op))
		}
	}
	return out, obsolete
}

// gapError is the entry of a gap in the report.
func gapError(g volumeinfo.Gap) error {
	volume := g.Volume
	g.Volume = volumeinfo.VolumeID{}
	err := errors.New(g.String())
	switch {
	case volume.Claim != "":
		err = Item(volume.Namespace, volume.Claim, err)
	case volume.PV != "":
		err = Item("", volume.PV, err)
	}
	if g.Reason == volumeinfo.OtherOperation {
		return Warning(err)
	}
	return err
}
