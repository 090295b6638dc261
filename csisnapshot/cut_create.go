package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrConflict says that the name of a snapshot is taken by an object that is not the owner's. The error is a
// [*ConflictError]; the object was not touched.
var ErrConflict = errors.New("the snapshot's name is taken by an object of another owner")

// ConflictError names the object that has the name. It is [ErrConflict].
type ConflictError struct {
	Ref Ref
	// UID is the object's, Owner the UID of its owner by its annotations, empty when it has none.
	UID, Owner types.UID
	// Claim is the claim that it is a snapshot of.
	Claim string
}

// Error names the object and its owner.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("VolumeSnapshot %s (UID %q, owner %q, claim %q): %v", e.Ref, e.UID, e.Owner, e.Claim, ErrConflict)
}

// Is reports whether the target is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// found says whose write made a snapshot.
type found uint8

const (
	foundNot    found = iota // this create made it
	foundLate                // this create made it, but its answer was lost: it was read
	foundBefore              // it was there
)

var (
	// errLeaving is the owner's own snapshot that is being deleted: the name is free when it is gone.
	errLeaving = errors.New("the owner's earlier snapshot is being deleted")
	// errUnknown is a create without an answer whose name could not be read either.
	errUnknown = errors.New("it is not known whether it was made")
	// errGone is a snapshot that was gone when it was read.
	errGone = errors.New("the snapshot that had the name is gone")
)

// create makes the volume's snapshot, or adopts the owner's own that has its name. A create without an answer is repeated:
// the name, which is always the same, tells whether it was done. Nothing is sent after the window has ended.
func (r *run) create(ctx, window context.Context, v *volumeRun) (Snapshot, found, error) {
	want := r.s.opts.Names.NewSnapshot(r.owner, ClaimRef{Namespace: v.Namespace, Name: v.Claim, UID: v.ClaimUID}, v.Class)
	for key, value := range v.ClaimLabels {
		if _, own := want.Labels[key]; !own {
			want.Labels[key] = value
		}
	}
	var got Snapshot
	how, lost := foundNot, false
	err := retry(window, r.s.opts.Wait.Timeout, func(ctx context.Context) error {
		if err := r.overdue(window, v); err != nil {
			return finalError{err}
		}
		began := time.Now()
		made, err := r.s.snaps.Snapshots().Create(ctx, want)
		switch {
		case err == nil:
			got, how = made, foundNot
		case apierrors.IsAlreadyExists(err):
			how = foundBefore
			if lost {
				how = foundLate
			}
			if got, err = r.own(ctx, v); errors.Is(err, ErrConflict) || errors.Is(err, errLeaving) && r.isFrozen(v) {
				err = finalError{err}
			}
		default:
			lost = lost || !answered(err)
		}
		switch {
		case err == nil || isVerdict(err) || !retriable(err):
			r.creates.note(v.Driver, began, nil)
		case window.Err() == nil: // else the request may have failed because it was given up
			r.creates.note(v.Driver, began, err)
		}
		return err
	})
	if err == nil {
		return got, how, nil
	}
	stalled := r.creates.stalled(v.Driver)
	if cause := context.Cause(window); stalled != nil && (cause == nil || errors.Is(cause, errCreatesStalled)) && retriable(err) {
		err = stalled // the create's own time may have been over at the same moment
	}
	if lost {
		late, lateErr := r.readLate(ctx, v)
		if lateErr == nil {
			return late, foundLate, nil
		}
		if !isVerdict(lateErr) {
			err = fmt.Errorf("%w; %w: %w", err, errUnknown, lateErr)
		}
	}
	return Snapshot{}, foundNot, fmt.Errorf("create VolumeSnapshot %s: %w", v.ref, err)
}

const (
	// lateTimeout bounds the search for what a create without an answer has made, once nothing else is waited for.
	lateTimeout = 30 * time.Second
	// lateLooks is how often the name is looked at before it counts as free: the create may still be under way.
	lateLooks = 3
)

// readLate finds what creates made whose answers were lost, also after ctx has ended, so that the report names it.
func (r *run) readLate(ctx context.Context, v *volumeRun) (got Snapshot, err error) {
	looks := 0
	err = retry(context.WithoutCancel(ctx), lateTimeout, func(ctx context.Context) (err error) {
		got, err = r.own(ctx, v)
		if looks++; isVerdict(err) && (looks >= lateLooks || !errors.Is(err, errGone)) {
			return finalError{err}
		}
		return err
	})
	return got, err
}

// isVerdict reports whether the error says something about the object.
func isVerdict(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, errLeaving) || errors.Is(err, errGone)
}

// own reads the object that has the name of the volume's snapshot and makes sure that it is that snapshot.
func (r *run) own(ctx context.Context, v *volumeRun) (Snapshot, error) {
	got, err := r.s.snaps.Snapshots().Get(ctx, v.ref.Namespace, v.ref.Name)
	switch {
	case apierrors.IsNotFound(err):
		return Snapshot{}, errGone
	case err != nil:
		return Snapshot{}, err
	case !r.isOf(got, v):
		return Snapshot{}, &ConflictError{
			Ref: v.ref, UID: got.UID, Owner: r.s.opts.Names.OwnerOf(got.Meta), Claim: got.Claim,
		}
	case got.Terminating():
		return Snapshot{}, errLeaving
	}
	return got, nil
}

// isOf reports whether the object is the owner's snapshot of the volume.
func (r *run) isOf(got Snapshot, v *volumeRun) bool {
	names := r.s.opts.Names
	return names.Owns(r.owner.UID, got.Meta) && got.Claim == v.Claim && names.ClaimUID(got.Meta) == v.ClaimUID
}

// adopt finds the owner's snapshots that an earlier Cut made, with one list a namespace, and hands them to the waiter. One
// that is being deleted is not adopted: its volume gets another when it is gone.
func (r *run) adopt(ctx context.Context) error {
	for _, namespace := range r.namespaces() {
		all, err := r.listOwn(ctx, namespace)
		if err != nil {
			return err
		}
		for i := range all {
			s := &all[i]
			v := r.byRef[s.Ref()]
			if v == nil || !r.isOf(*s, v) {
				continue
			}
			if s.Terminating() {
				v.leaving = s.UID
				continue
			}
			r.move(v, func() { v.snapshot, v.adopted = s, true })
			r.waiter.Add(Target{Snapshot: s, Driver: v.Driver}, StageCut)
		}
	}
	r.leavingSince = time.Now()
	return nil
}

// listOwn lists the owner's snapshots in a namespace.
func (r *run) listOwn(ctx context.Context, namespace string) (all []Snapshot, err error) {
	selector := r.s.opts.Names.OwnerSelector(r.owner.UID)
	return r.listSnapshots(ctx, namespace, selector)
}

// listSnapshots lists snapshots page by page, each in a time of its own: a list of many pages may take as long as they do.
func (r *run) listSnapshots(ctx context.Context, namespace, selector string) (all []Snapshot, err error) {
	err = pages(ctx, r.s.opts.Wait.Timeout, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
		page, err := r.s.snaps.Snapshots().List(ctx, namespace, ListOptions{Selector: selector, Limit: opts.Limit, Continue: opts.Continue})
		if err != nil {
			return "", err
		}
		all = append(all, page.Items...)
		return page.Continue, nil
	}, func() { all = nil })
	if apiMissing(err) {
		err = ErrNoSnapshotAPI
	}
	if err != nil {
		return nil, fmt.Errorf("list VolumeSnapshots of namespace %s: %w", namespace, err)
	}
	return all, nil
}

// errExpired is a paged list whose token has expired: it is begun again.
var errExpired = errors.New("the list expired between two pages")
