package finalize

import (
	"context"
	"errors"
	"fmt"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// Thawer thaws pods that were left frozen. [csisnapshot.Snapshotter] is one.
type Thawer interface {
	Thaw(ctx context.Context, owner csisnapshot.Owner) ([]csisnapshot.ThawReport, error)
}

// ThawPods returns the hook "thaw-pods", which thaws what a process froze that ended before it could thaw, so that no way to
// the end of a backup, a cancel included, leaves a pod frozen. A pod that could not be thawed is an error of the report; one
// that is gone, or another pod now, is a warning. The hook is retried three times. [New] refuses it when
// snaps is nil or owner not valid.
func ThawPods(snaps Thawer, owner csisnapshot.Owner) Hook {
	h := Hook{Name: "thaw-pods", Retries: 3, Run: func(ctx context.Context) error {
		reports, err := snaps.Thaw(ctx, owner)
		faults := []error{err}
		for _, left := range reports {
			faults = append(faults, thawFault(left))
		}
		return errors.Join(faults...)
	}}
	return h.need("snaps", snaps).valid("owner", owner)
}

func thawFault(left csisnapshot.ThawReport) error {
	switch {
	case left.Outcome == csisnapshot.ThawFailed:
		return Item(left.Pod.Namespace, left.Pod.Name, fmt.Errorf("left frozen and not thawed: %w", left.Err))
	case left.Outcome != csisnapshot.ThawDone:
		return Warning(Item(left.Pod.Namespace, left.Pod.Name, fmt.Errorf("left frozen: %s", left.Outcome)))
	case left.Err != nil:
		return Warning(Item(left.Pod.Namespace, left.Pod.Name, fmt.Errorf("left frozen and thawed with errors: %w", left.Err)))
	}
	return nil
}
