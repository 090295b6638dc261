package csisnapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The categories of a [RemovalError], beside [ErrTimeout], [ErrCanceled], [ErrForeign], [ErrHeld] and [ErrInUse].
var (
	// ErrNotCut is a snapshot without a handle: Release has nothing to keep, Destroy removes it.
	ErrNotCut = errors.New("no physical snapshot to keep")
	// ErrLost is a physical snapshot that Release could not keep: its content is being deleted together with it, or is gone
	// and was not read with the policy Retain, so that nothing says that the physical snapshot was kept.
	ErrLost = errors.New("the physical snapshot is not kept: someone else deletes it")
	// ErrRefused is a change that the API server refused for a reason that will not pass.
	ErrRefused = errors.New("refused")
)

// ReleaseReport is what became of the snapshots that Release or Destroy was given.
type ReleaseReport struct {
	// Items are sorted by snapshot. A snapshot of which several contents were left has an item for each.
	Items []Removal
}

// Removal is what became of one snapshot.
type Removal struct {
	Ref     Ref
	UID     types.UID // of the VolumeSnapshot; empty if it was gone before
	Content string    // name of the content; empty if there was none
	Handle  string    // of the physical snapshot, which without Err Release kept and Destroy deleted; empty if none was seen
	Gone    bool      // neither the snapshot nor the content exists any more
	Err     error     // a *RemovalError, or nil
}

// Err joins the errors of the items.
func (r *ReleaseReport) Err() error {
	errs := make([]error, 0, len(r.Items))
	for _, item := range r.Items {
		errs = append(errs, item.Err)
	}
	return errors.Join(errs...)
}

// RemovalError says why a snapshot could not be removed, and what was left.
type RemovalError struct {
	Ref        Ref
	Object     string   // the object at fault, as "VolumeSnapshotContent snapcontent-1"
	Finalizers []string // that hold it back; the library removes none of them
	Category   error    // one of the Err… variables of this package
	Err        error    // what the API said, or nil
}

// Error names the snapshot, the object and what holds it back.
func (e *RemovalError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "remove snapshot %s: %s: %v", e.Ref, e.Object, e.Category)
	if len(e.Finalizers) > 0 {
		fmt.Fprintf(&b, ", held back by finalizers %s", strings.Join(e.Finalizers, ", "))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is holds for the category; a timeout is also context.DeadlineExceeded.
func (e *RemovalError) Is(target error) bool {
	return target == e.Category || target == context.DeadlineExceeded && e.Category == ErrTimeout
}

// Unwrap is what the API said.
func (e *RemovalError) Unwrap() error { return e.Err }

// Release removes the objects of the owner's snapshots and keeps the physical snapshots. For each it makes the content
// say Retain and reads that back, deletes the VolumeSnapshot, then the content, each only with the UID that was read,
// and waits until both are gone. Snapshots of others, and those without a handle, are errors and are not touched. One
// whose content goes away before it was read back with Retain is [ErrLost]; someone else's deletion alone, after that, loses
// nothing. But the server deletes a VolumeSnapshot without regard to its content: who sets the policy back to Delete after
// it was read back, in the moment before the VolumeSnapshot is deleted or when the content is being deleted already, loses
// the physical snapshot, and Release may not be able to tell. A policy that is seen to be set back is set to Retain again.
// What is gone when Release begins is no error, so that it may be repeated, also after a crash in the middle of it; nor is
// a content that is gone while its VolumeSnapshot is still being deleted, as the controller may leave it after such a crash.
// Of both the report has no Handle: that they were kept is what the call before has seen, or nobody.
//
// The wait ends with ctx or after Options.Wait.Timeout without progress of any of them, so that a slow queue fails nobody. The
// error joins those of the items; the report is never nil.
func (s *Snapshotter) Release(ctx context.Context, owner Owner, refs ...Ref) (*ReleaseReport, error) {
	return s.Remove(ctx, owner, RemoveOptions{Policy: DeletionPolicyRetain}, refs...)
}

// Destroy removes the objects of the owner's snapshots and the physical snapshots with them. It is the only way in which
// the library loses data. Otherwise it is as [Snapshotter.Release]; snapshots without a handle are removed too, and a
// content that was just created is deleted only when its finalizer or a status was seen, since deleting it sooner leaves
// the physical snapshot behind. A content that stays Terminating is touched with an annotation, to which its sidecar
// reacts. A content that [Names.Static] made keeps saying Retain: its physical snapshot is another's.
func (s *Snapshotter) Destroy(ctx context.Context, owner Owner, refs ...Ref) (*ReleaseReport, error) {
	return s.Remove(ctx, owner, RemoveOptions{Policy: DeletionPolicyDelete}, refs...)
}

func (s *Snapshotter) remove(ctx context.Context, owner types.UID, opts RemoveOptions, look bool, refs []Ref) (*ReleaseReport, error) {
	r := &remover{
		client: s.snaps, names: s.opts.Names, opts: s.opts.Wait, owner: owner, policy: opts.Policy, before: opts.Before, users: opts.users,
		look: look, atOnce: cmp.Or(opts.Concurrency, writesAtOnce), turns: turns{interval: opts.MinInterval},
	}
	refs = slices.SortedFunc(slices.Values(refs), Ref.Compare)
	for _, ref := range slices.Compact(refs) {
		r.items = append(r.items, &removal{Removal: Removal{Ref: ref}, progress: time.Now()})
	}
	r.run(ctx)
	report := &ReleaseReport{}
	for _, item := range r.items {
		report.Items = append(report.Items, item.Removal)
	}
	slices.SortStableFunc(report.Items, func(a, b Removal) int { return a.Ref.Compare(b.Ref) })
	return report, report.Err()
}
