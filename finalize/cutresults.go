package finalize

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// CutResults returns what a Cut has to say beside its volumes, whose errors their operations bring: an error for each pod
// that could not be frozen or thawed, and warnings for hooks that may fail or could not be run, for volumes that were not
// cut while their pods were frozen, and for pods that an earlier process left frozen and that are gone or not the same any
// more. A nil report has none.
func CutResults(report *csisnapshot.Report) Results {
	var out Results
	if report == nil {
		return out
	}
	for _, left := range report.Leftovers {
		leftoverResults(&out, left)
	}
	for _, b := range report.Batches {
		for _, p := range b.Pods {
			podResults(&out, p)
		}
	}
	for _, v := range report.Volumes {
		switch {
		case v.Err != nil || !v.NotCutInWindow:
		case v.Adopted:
			add(&out.Warnings, v.Namespace, v.Claim, "the snapshot was cut by an earlier process, not in the same freeze as the pod's others")
		default:
			add(&out.Warnings, v.Namespace, v.Claim, "the snapshot was not cut while the pod was frozen")
		}
	}
	out.Warnings.distinct()
	out.Errors.distinct()
	return out
}

func leftoverResults(out *Results, left csisnapshot.ThawReport) {
	switch {
	case left.Outcome == csisnapshot.ThawFailed:
		add(&out.Errors, left.Pod.Namespace, left.Pod.Name, fmt.Sprintf("left frozen by an earlier process and not thawed: %v", left.Err))
	case left.Outcome != csisnapshot.ThawDone:
		add(&out.Warnings, left.Pod.Namespace, left.Pod.Name, fmt.Sprintf("left frozen by an earlier process: %s", left.Outcome))
	case left.Err != nil:
		add(&out.Warnings, left.Pod.Namespace, left.Pod.Name, fmt.Sprintf("left frozen by an earlier process and thawed with errors: %v", left.Err))
	}
}

func podResults(out *Results, p csisnapshot.PodReport) {
	if p.Note != "" {
		add(&out.Warnings, p.Namespace, p.Name, "its hooks were not run: "+p.Note)
	}
	if p.Err != nil {
		add(&out.Errors, p.Namespace, p.Name, p.Err.Error())
	}
	for _, e := range p.HookErrors {
		if !errors.Is(p.Err, e) {
			add(&out.Warnings, p.Namespace, p.Name, e.Error())
		}
	}
}

func add(set *ResultSet, namespace, name, message string) {
	Entry{Namespace: namespace, Name: name, Message: oneLine(message)}.addTo(set, "cut")
}

// AddResults merges more into the file of results in doc and returns what the file says then. Messages that are in the
// file stay, and an unchanged file is not written, so that adding the same again after a crash changes nothing. A file that
// cannot be read is an error and is not overwritten. A nil doc is [ErrInvalid].
func AddResults(ctx context.Context, doc Document, more Results) (Results, error) {
	if isNil(doc) {
		return Results{}, fmt.Errorf("read results: %w: doc is nil", ErrInvalid)
	}
	data, err := doc.Load(ctx)
	if err != nil {
		return Results{}, fmt.Errorf("read results: %w", err)
	}
	results, err := DecodeResults(data, 0)
	if err != nil {
		return Results{}, fmt.Errorf("read results: %w", err)
	}
	results.Merge(more)
	next, err := EncodeResults(results)
	if err != nil {
		return Results{}, fmt.Errorf("encode results: %w", err)
	}
	if bytes.Equal(next, data) {
		return results, nil
	}
	if err := doc.Save(ctx, next); err != nil {
		return Results{}, fmt.Errorf("write results: %w", err)
	}
	return results, nil
}
