package finalize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

// Releaser removes the objects of snapshots. [csisnapshot.Snapshotter] is one.
type Releaser interface {
	// Release removes the objects and keeps the physical snapshots.
	Release(ctx context.Context, owner csisnapshot.Owner, refs ...csisnapshot.Ref) (*csisnapshot.ReleaseReport, error)
	// Destroy removes the objects and the physical snapshots.
	Destroy(ctx context.Context, owner csisnapshot.Owner, refs ...csisnapshot.Ref) (*csisnapshot.ReleaseReport, error)
}

// Pauses between looks at operations that still run.
const operationPause = 10 * time.Second

// ReleaseSnapshots returns the hook "release-snapshots", which clears away the objects of the owner's snapshots. What
// becomes of one is decided by all its operations together: while one runs, the snapshot is left alone and the hook
// comes back later; if one has completed, the snapshot is released and its data kept; only if every one ended in another
// way is it destroyed. Operations of other actions are not looked at. A snapshot that could not be removed is an error of
// the report, under its namespace and name; the others are removed all the same. All of it is decided on what the store
// holds at that moment; while it cannot be read the hook comes back later. The hook is retried twice and has 15 minutes for
// each call. [New] refuses it when snaps or ops is nil, or owner or key not valid.
func ReleaseSnapshots(snaps Releaser, owner csisnapshot.Owner, ops Operations, key operations.Key) Hook {
	h := Hook{Name: "release-snapshots", Timeout: 15 * time.Minute, Retries: 2, Run: func(ctx context.Context) error {
		rec, err := read(ctx, ops, key)
		if err != nil {
			return unreadable(err)
		}
		fates, faults := judge(rec.List)
		running := ""
		var release, destroy []csisnapshot.Ref
		for _, ref := range slices.SortedFunc(maps.Keys(fates), csisnapshot.Ref.Compare) {
			switch fates[ref].verdict() {
			case fateWait:
				running = fates[ref].running
			case fateRelease:
				release = append(release, ref)
			case fateDestroy:
				destroy = append(destroy, ref)
			}
		}
		keepData, loseData := snaps.Release, snaps.Destroy
		released, destroyed := make(chan error, 1), make(chan error, 1)
		go func() { released <- removeAll(ctx, keepData, owner, release) }()
		go func() { destroyed <- removeAll(ctx, loseData, owner, destroy) }()
		faults = append(faults, <-released, <-destroyed)
		if running != "" {
			faults = append(faults, Later(operationPause, "operation "+running+" has not ended"))
		}
		return errors.Join(faults...)
	}}
	return h.need("snaps", snaps).need("ops", ops).valid("owner", owner).valid("key", key)
}

// unreadable makes an outage of the store a reason to come back: snapshots that nobody lets go of stay for ever. A record
// that will not become readable is a failure.
func unreadable(err error) error {
	for _, final := range []error{operations.ErrForeignRecord, operations.ErrMalformed, operations.ErrTooLarge} {
		if errors.Is(err, final) {
			return err
		}
	}
	return Later(operationPause, err.Error())
}

// remove is one of a Releaser's methods.
type remove func(context.Context, csisnapshot.Owner, ...csisnapshot.Ref) (*csisnapshot.ReleaseReport, error)

// removeAll removes refs and returns an item for each that failed.
func removeAll(ctx context.Context, remove remove, owner csisnapshot.Owner, refs []csisnapshot.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	var faults []error
	err := protect(ctx, func(ctx context.Context) error {
		report, err := remove(ctx, owner, refs...)
		if report != nil {
			for _, item := range report.Items {
				faults = append(faults, Item(item.Ref.Namespace, item.Ref.Name, item.Err))
			}
		}
		return err
	})
	if joined := errors.Join(faults...); joined != nil {
		return joined
	}
	if err != nil {
		return fmt.Errorf("remove snapshots: %w", err)
	}
	return nil
}

// fate is what the operations of one snapshot say.
type fate struct {
	running   string // one that has not ended
	completed bool
}

const (
	fateWait = iota
	fateRelease
	fateDestroy
)

func (f fate) verdict() int {
	switch {
	case f.running != "":
		return fateWait
	case f.completed:
		return fateRelease
	}
	return fateDestroy
}

// judge sums up the operations of each snapshot. An operation that names no snapshot is a fault, and nothing is done.
func judge(list operations.List) (fates map[csisnapshot.Ref]fate, faults []error) {
	fates = map[csisnapshot.Ref]fate{}
	for op := range list.All() {
		if op.Action != csisnapshot.ActionName {
			continue
		}
		ref, err := snapshotOf(op)
		if err != nil {
			faults = append(faults, Item(op.Resource.Namespace, op.Resource.Name, err))
			continue
		}
		f := fates[ref]
		switch phase := op.Status.Phase; {
		case !phase.IsTerminal():
			f.running = op.ID
		case phase == operations.PhaseCompleted:
			f.completed = true
		}
		fates[ref] = f
	}
	return fates, faults
}
