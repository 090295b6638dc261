package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Restored is what became of one record.
type Restored struct {
	Record  VolumeRecord
	Ref     Ref    // of the snapshot to restore claims from, as their dataSource
	Content string // its content
	Err     error  // nil: both exist
}

// Restore makes the pair of [Names.Static] in the namespace for each record, the content first. What the owner made before
// is adopted, so that it may be repeated, also after a crash in the middle of it; trouble of the API is met by trying again
// until ctx ends or Options.Wait.Timeout is over. The results are in the order of the records, and the error joins theirs:
// [ErrConflict] if the name belongs to another, [ErrRefused] for what the server refuses, [ErrTimeout] and [ErrCanceled].
// It does not wait until the snapshots are ready; [Snapshotter.Wait] does.
func (s *Snapshotter) Restore(ctx context.Context, owner Owner, namespace string, records ...VolumeRecord) ([]Restored, error) {
	results := make([]Restored, len(records))
	if err := s.made(); err != nil {
		return results, fmt.Errorf("restore: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Wait.Timeout, fmt.Errorf("Wait.Timeout is over: %w", context.DeadlineExceeded))
	defer cancel()
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for i, record := range records {
		group.Go(func() error {
			results[i] = s.restore(ctx, owner, namespace, record)
			if record.Validate() != nil {
				results[i].Err = fmt.Errorf("records[%d]: %w", i, results[i].Err)
			}
			return nil
		})
	}
	_ = group.Wait() // each record has its own error
	errs := make([]error, 0, len(results))
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	return results, errors.Join(errs...)
}

// Clone makes the pair of a snapshot that has a content with a handle, in another namespace or the same. It is
// [Snapshotter.Restore] with the record of the snapshot's content. Owner is who restores; the snapshot may be another's, and
// is not changed. The errors are those of Restore, [ErrNotFound] if there is no such snapshot, and [ErrNotCut] if there is no
// handle yet; each names the snapshot.
func (s *Snapshotter) Clone(ctx context.Context, owner Owner, from Ref, namespace string) (Restored, error) {
	if err := errors.Join(s.made(), from.whole()); err != nil {
		return Restored{}, fmt.Errorf("clone snapshot %s: %w", from, err)
	}
	record, _, err := s.record(ctx, from)
	if err != nil {
		return Restored{}, fmt.Errorf("clone snapshot %s: %w", from, err)
	}
	results, err := s.Restore(ctx, owner, namespace, record)
	if err != nil {
		err = fmt.Errorf("clone snapshot %s: %w", from, err)
	}
	return results[0], err
}

func (s *Snapshotter) restore(ctx context.Context, owner Owner, namespace string, record VolumeRecord) Restored {
	result := Restored{Record: record}
	pair, err := s.opts.Names.Static(owner, namespace, record)
	if err != nil {
		result.Err = err
		return result
	}
	result.Ref, result.Content = pair.Snapshot.Ref(), pair.Content.Name
	if err := s.makeContent(ctx, owner, pair.Content); err != nil {
		result.Err = fmt.Errorf("restore %s: content %s: %w", result.Ref, result.Content, err)
		return result
	}
	if err := s.makeSnapshot(ctx, owner, pair.Snapshot); err != nil {
		result.Err = fmt.Errorf("restore %s: snapshot: %w", result.Ref, err)
	}
	return result
}

// makeContent creates the content, or adopts what the owner made before.
func (s *Snapshotter) makeContent(ctx context.Context, owner Owner, want Content) error {
	return s.insist(ctx, func(ctx context.Context) error {
		_, err := s.snaps.Contents().Create(ctx, want)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		got, err := s.snaps.Contents().Get(ctx, "", want.Name)
		switch {
		case isGone(err): // just now
			return errLeaving
		case err != nil:
			return err
		case !s.opts.Names.Owns(owner.UID, got.Meta), got.Driver != want.Driver, got.physical() != *want.SnapshotHandle,
			got.DeletionPolicy != want.DeletionPolicy:
			return &ConflictError{Ref: want.Ref(), UID: got.UID, Owner: s.opts.Names.OwnerOf(got.Meta)}
		case got.Terminating():
			return errLeaving
		default:
			return nil
		}
	})
}

func (s *Snapshotter) makeSnapshot(ctx context.Context, owner Owner, want Snapshot) error {
	return s.insist(ctx, func(ctx context.Context) error {
		_, err := s.snaps.Snapshots().Create(ctx, want)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		got, err := s.snaps.Snapshots().Get(ctx, want.Namespace, want.Name)
		switch {
		case isGone(err): // just now
			return errLeaving
		case err != nil:
			return err
		case !s.opts.Names.Owns(owner.UID, got.Meta), got.SourceContent != want.SourceContent:
			return &ConflictError{Ref: want.Ref(), UID: got.UID, Owner: s.opts.Names.OwnerOf(got.Meta), Claim: got.Claim}
		case got.Terminating():
			return errLeaving
		default:
			return nil
		}
	})
}

// insist makes requests until they succeed, are refused for good, or ctx ends.
func (s *Snapshotter) insist(ctx context.Context, request func(context.Context) error) error {
	started := time.Now()
	var refused time.Time
	for {
		err := bounded(ctx, s.opts.Wait.CallTimeout, request)
		now := time.Now()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return endOf(ctx, err)
		case errors.Is(err, ErrConflict), isGone(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			return refusal(err)
		case errors.Is(err, errLeaving), retriable(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = now
		case now.Sub(refused) >= deniedFor:
			return refusal(err)
		}
		elapsed := now.Sub(started)
		if !sleepUntil(ctx, now.Add(max(firstLook, s.opts.Wait.Schedule.Next(elapsed)-elapsed)), nil) {
			return endOf(ctx, err)
		}
	}
}

// refusal marks an error of the server as one that will not pass.
func refusal(err error) error {
	if errors.Is(err, ErrConflict) || isGone(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// endOf is why a call ended with its context, and the trouble before.
func endOf(ctx context.Context, trouble error) error {
	parts := []error{endCategory(ctx), context.Cause(ctx)}
	if trouble != nil && !slices.Contains(parts, trouble) {
		parts = append(parts, trouble)
	}
	return errors.Join(parts...)
}
