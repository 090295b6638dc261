package csisnapshot

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Records are the records of the owner's snapshots, to be written down after a [Snapshotter.Cut] and before
// [Snapshotter.Release]: [RecordOf] each content, read by its name, with Claim filled. They are in the order of refs; one that
// could not be made is zero. Nothing is changed, and trouble of the API is met by trying again until ctx ends or
// Options.Wait.Timeout is over.
//
// The error joins one for each snapshot that has no record, naming it: [ErrNotFound], [ErrForeign] for one that is not the
// owner's, [ErrNotCut] for one without a handle, [ErrRefused], [ErrTimeout] or [ErrCanceled]. An owner or references that are
// not whole are returned before anything is read, with no records.
func (s *Snapshotter) Records(ctx context.Context, owner Owner, refs ...Ref) ([]VolumeRecord, error) {
	if err := errors.Join(s.made(), owner.Validate(), validRefs(refs)); err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Wait.Timeout, fmt.Errorf("Wait.Timeout is over: %w", context.DeadlineExceeded))
	defer cancel()
	records, errs := make([]VolumeRecord, len(refs)), make([]error, len(refs))
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for i, ref := range refs {
		group.Go(func() error {
			record, meta, err := s.record(ctx, ref)
			if err == nil && !s.opts.Names.Owns(owner.UID, meta) {
				record, err = VolumeRecord{}, ErrForeign
			}
			if records[i] = record; err != nil {
				errs[i] = fmt.Errorf("record of snapshot %s: %w", ref, err)
			}
			return nil
		})
	}
	_ = group.Wait() // each snapshot has its own error
	return records, errors.Join(errs...)
}

// record reads the record of one snapshot, whoever's it is, and the snapshot's metadata.
func (s *Snapshotter) record(ctx context.Context, from Ref) (VolumeRecord, Meta, error) {
	var vs Snapshot
	var vsc Content
	err := s.insist(ctx, func(ctx context.Context) (err error) {
		if vs, err = s.snaps.Snapshots().Get(ctx, from.Namespace, from.Name); err != nil {
			return err
		}
		name := contentNameOf(&vs)
		if name == "" {
			return nil
		}
		vsc, err = s.snaps.Contents().Get(ctx, "", name)
		return err
	})
	if err != nil && vs.Name == "" && isGone(err) {
		return VolumeRecord{}, Meta{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err != nil && (vs.Name == "" || !isGone(err)) {
		return VolumeRecord{}, Meta{}, err
	}
	if vsc.physical() == "" || !vsc.Snapshot.is(from, vs.UID) {
		return VolumeRecord{}, Meta{}, ErrNotCut
	}
	record, err := RecordOf(vsc)
	if err != nil {
		return VolumeRecord{}, Meta{}, err
	}
	record.Claim = ClaimRef{Namespace: from.Namespace, Name: vs.Claim, UID: s.opts.Names.ClaimUID(vs.Meta)}
	return record, vs.Meta, nil
}
