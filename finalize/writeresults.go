package finalize

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// ResultSource brings warnings and errors for the file of results. It must return the same messages for the same state of
// the world, since they are merged by their text.
type ResultSource func(ctx context.Context) (Results, error)

// WriteResults is [MergeResults] with the errors of the operations: what a backup needs. [New] refuses it when doc or ops
// is nil, or key not valid.
func WriteResults(doc Document, ops Operations, key operations.Key, after ...string) Hook {
	return MergeResults(doc, []ResultSource{OperationResults(ops, key)}, after...).need("ops", ops).valid("key", key)
}

// MergeResults returns the hook "write-results", which merges what the sources bring, and the report of the hooks that
// have ended by then, into Velero's file of results. It runs after the hooks named. Messages that are in the file stay;
// running it again changes nothing, and an unchanged document is not written. A source that fails is an error of the
// report; the others are written all the same. A document that cannot be read is never overwritten. The hook is retried
// three times. [New] refuses it when doc or a source is nil.
func MergeResults(doc Document, sources []ResultSource, after ...string) Hook {
	h := Hook{Name: "write-results", After: after, Retries: 3, Run: func(ctx context.Context) error {
		var all Results
		var faults []error
		for _, source := range sources {
			more, err := source(ctx)
			faults = append(faults, err)
			all.Merge(more)
		}
		if report, ok := SoFar(ctx); ok {
			all.Merge(report.Results())
		}
		_, err := AddResults(ctx, doc, all)
		return errors.Join(append(faults, err)...)
	}}
	for i, source := range sources {
		if source == nil {
			h = h.need(fmt.Sprintf("sources[%d]", i), nil)
		}
	}
	return h.need("doc", doc)
}

// OperationResults brings an error for each operation that failed, was canceled or abandoned, under the namespace of its
// item, as the store has it. Nil ops are an error of the source.
func OperationResults(ops Operations, key operations.Key) ResultSource {
	return func(ctx context.Context) (Results, error) {
		var out Results
		rec, err := read(ctx, ops, key)
		if err != nil {
			return out, err
		}
		for _, op := range rec.List.Failures() {
			e := Entry{Namespace: op.Resource.Namespace, Name: op.Resource.Name, Message: oneLine(failure(op))}
			e.addTo(&out.Errors, "operation "+op.ID)
		}
		out.Errors.distinct()
		return out, nil
	}
}

// SkippedVolumes brings a warning for each volume that the records in doc say was skipped, under its namespace. A nil doc is
// an error of the source.
func SkippedVolumes(doc Document) ResultSource {
	return func(ctx context.Context) (Results, error) {
		var out Results
		if isNil(doc) {
			return out, fmt.Errorf("read volume info: %w: doc is nil", ErrInvalid)
		}
		data, err := doc.Load(ctx)
		if err != nil {
			return out, fmt.Errorf("read volume info: %w", err)
		}
		records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
		if err != nil {
			return out, fmt.Errorf("read volume info: %w", err)
		}
		for _, r := range records {
			if r.Skipped {
				e := Entry{Namespace: r.PVCNamespace, Name: r.PVCName, Message: "skipped: " + cmp.Or(oneLine(r.SkippedReason), "reason unknown")}
				if r.PVCName == "" {
					e.Name = r.PVName
				}
				e.addTo(&out.Warnings, "volume")
			}
		}
		out.Warnings.distinct()
		return out, nil
	}
}
