package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrInUse is a physical snapshot that a content of somebody else refers to, as while it is being restored.
var ErrInUse = errors.New("the physical snapshot is in use")

// Expire ends the life of a backup: it deletes the physical snapshots of the records, whose objects were released, and
// everything that is left of the owner's objects in the cluster, by turning the policy Retain to Delete, reading that back
// and deleting. For a record without a content it makes one, so that the driver is told. Records of other drivers and
// handles than the owner's may be given; a physical snapshot that is gone already is no error, so that it may be repeated,
// also after a crash in the middle of it. At the end no content of the owner exists.
//
// A physical snapshot to which a content of somebody else, or one that was made to restore it, refers is left alone with all
// its objects: [ErrInUse], naming that content. That is looked at when Expire begins, and again before each policy is turned
// and each object is deleted, by a list of contents that is at most a second old; a policy that was turned is turned back. A
// restore that begins after that look finds the physical snapshot gone: whoever restores from backups that expire must hold
// one off while it does the other. The error joins those of the items and what ended the call; the report is never nil.
func (s *Snapshotter) Expire(ctx context.Context, owner Owner, opts RemoveOptions, records ...VolumeRecord) (*ReleaseReport, error) {
	if opts.Policy == "" {
		opts.Policy = DeletionPolicyDelete
	}
	faults := []error{s.made(), owner.Validate(), opts.Validate()}
	for i, r := range records {
		if err := r.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("records[%d]: %w", i, err))
		}
	}
	if opts.Policy == DeletionPolicyRetain {
		faults = append(faults, errors.New("RemoveOptions.Policy: Expire deletes, want Delete or empty"))
	}
	if err := errors.Join(faults...); err != nil {
		return &ReleaseReport{}, err
	}
	left, others, err := s.leftovers(ctx, owner.UID)
	if err != nil {
		return &ReleaseReport{}, fmt.Errorf("expire: %w", err)
	}
	used := &ReleaseReport{}
	alone, known := map[Ref]bool{}, map[physicalID]bool{}
	for _, l := range left {
		id := physicalID{l.Driver, l.Handle}
		if l.Kind != KindContent || l.Handle == "" || l.Borrowed {
			continue
		}
		known[id] = true
		if other := others[id]; other != "" && !alone[l.Ref] {
			alone[l.Ref] = true
			used.Items = append(used.Items, inUse(Removal{Ref: l.Ref, Content: l.Content, Handle: l.Handle}, other))
		}
	}
	made := s.expireRecords(ctx, owner, records, known, others)
	opts.users = &users{}
	swept, err := s.sweep(ctx, owner.UID, opts, alone)
	swept.Items = slices.Concat(swept.Items, used.Items, made.Items)
	slices.SortStableFunc(swept.Items, func(a, b Removal) int { return a.Ref.Compare(b.Ref) })
	return swept, errors.Join(err, used.Err(), made.Err())
}

// expiredUID is to the snapshot-controller the UID of a snapshot that is gone: it protects the content of such a one, and
// takes no notice of a content that is bound to none. The sidecar then deletes the physical snapshot of a content if an
// annotation says that its snapshot was deleted, as it stands on every content whose snapshot was.
const expiredUID = "expired"

// expireRecords makes contents for the records that have none. Its report has those that could not be made.
func (s *Snapshotter) expireRecords(
	ctx context.Context, owner Owner, records []VolumeRecord, known map[physicalID]bool, others map[physicalID]string,
) *ReleaseReport {
	report := &ReleaseReport{}
	for _, r := range records {
		id := physicalID{r.Driver, r.Handle}
		if known[id] {
			continue
		}
		known[id] = true
		namespace := r.Claim.Namespace
		if namespace == "" {
			namespace = "default" // nothing is made there: a reference needs one
		}
		content := s.opts.Names.static(owner, namespace, r, DeletionPolicyDelete).Content
		content.Snapshot.UID = expiredUID
		content.Annotations[beingDeletedKey] = "yes"
		item := Removal{Ref: Ref{Namespace: namespace, Name: content.Snapshot.Name}, Content: content.Name, Handle: r.Handle}
		if other := others[id]; other != "" {
			report.Items = append(report.Items, inUse(item, other))
			continue
		}
		if err := s.makeContent(ctx, owner, content); err != nil && !errors.Is(err, errLeaving) {
			item.Err = &RemovalError{Ref: item.Ref, Object: KindContent + " " + content.Name, Category: categoryOf(err), Err: err}
			report.Items = append(report.Items, item)
		}
	}
	return report
}

func inUse(item Removal, by string) Removal {
	item.Err = &RemovalError{Ref: item.Ref, Object: KindContent + " " + by, Category: ErrInUse}
	return item
}

// categoryOf is the category of an error of insist.
func categoryOf(err error) error {
	for _, category := range []error{ErrConflict, ErrTimeout, ErrCanceled} {
		if errors.Is(err, category) {
			return category
		}
	}
	return ErrRefused
}
