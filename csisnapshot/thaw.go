package csisnapshot

import (
	"context"
	"errors"
	"fmt"
)

// Thaw thaws every pod that has a freeze intent without a thaw record, whoever froze it, as [Snapshotter.Cut] does before
// anything else. It is for a workflow that will not cut again: one that was canceled, or ended while its pods were frozen.
// Without intents it does nothing and returns none.
//
// The reports are in the order of the freezes. A post hook that fails is in its report, and the intent stays open. The error
// says that it could not be found out what became of a pod, or that the intents cannot be read or written. Thaw must not run
// beside a Cut of the same workflow: it would thaw what that has just frozen.
func (s *Snapshotter) Thaw(ctx context.Context, owner Owner) ([]ThawReport, error) {
	if err := errors.Join(s.made(), owner.Validate()); err != nil {
		return nil, fmt.Errorf("thaw: %w", err)
	}
	journal, err := openJournal(ctx, s.opts.Intents, owner, s.opts.Clock)
	if err != nil {
		return nil, fmt.Errorf("thaw for %s/%s: %w", owner.Namespace, owner.Name, err)
	}
	r := &run{s: s, owner: owner, journal: journal, events: newDispatcher()}
	reports, err := r.thawLeftovers(ctx)
	r.events.close()
	if err = errors.Join(err, r.flush(ctx)); err != nil {
		return reports, fmt.Errorf("thaw for %s/%s: %w", owner.Namespace, owner.Name, err)
	}
	return reports, nil
}
