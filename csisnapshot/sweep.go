package csisnapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Leftover is an object of an owner that exists.
type Leftover struct {
	Kind       string // KindSnapshot or KindContent
	Ref        Ref    // of the snapshot; of a content, the one that it refers to, which may be gone
	Content    string // name of the content; of a snapshot, as its status or source tells, else empty
	UID        types.UID
	Policy     DeletionPolicy // of a content
	Driver     string         // of a content
	Handle     string         // of a content; empty if there is no physical snapshot yet
	Borrowed   bool           // the content's physical snapshot belongs to another, and stays
	Leaving    bool           // it has a deletion time
	Finalizers []string
}

// Leftovers are all objects of the owner in the whole cluster, by snapshot, each snapshot before its contents: snapshots that
// carry the owner, and contents that carry it or refer to a snapshot with a name that only this owner gives, also after
// that snapshot is gone. It is what [Snapshotter.Sweep] would remove, and costs one list of snapshots by label and one of
// contents. Nothing is changed. Trouble of the API is met by trying again until ctx ends or Options.Wait.Timeout is over.
func (s *Snapshotter) Leftovers(ctx context.Context, owner types.UID) ([]Leftover, error) {
	left, _, err := s.leftovers(ctx, owner)
	return left, err
}

// ofAnother reports whether the physical snapshot of a content is, or may be, needed by another than the owner's backup.
func (n Names) ofAnother(owner types.UID, vsc *Content) bool {
	return !n.ownsContent(owner, vsc) || n.borrowed(vsc)
}

func (n Names) ownsContent(owner types.UID, vsc *Content) bool {
	return n.Owns(owner, vsc.Meta) || n.OwnsName(owner, vsc.Snapshot.Name)
}

// leftovers also tells which physical snapshots contents of others refer to, or such as were made to restore them.
func (s *Snapshotter) leftovers(ctx context.Context, owner types.UID) ([]Leftover, map[physicalID]string, error) {
	if err := s.made(); err != nil {
		return nil, nil, err
	}
	if owner == "" {
		return nil, nil, errors.New("owner: UID is empty")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Wait.Timeout, fmt.Errorf("Wait.Timeout is over: %w", context.DeadlineExceeded))
	defer cancel()
	names := s.opts.Names
	var left []Leftover
	others := map[physicalID]string{}
	insist := func(ctx context.Context, request func(context.Context) error) error { return s.insist(ctx, request) }
	err := listPages(ctx, insist, s.snaps.Snapshots(), "", names.OwnerSelector(owner), func(vs Snapshot) {
		if names.Owns(owner, vs.Meta) {
			l := Leftover{Kind: KindSnapshot, Ref: vs.Ref(), UID: vs.UID, Leaving: vs.Terminating(), Finalizers: vs.Finalizers, Content: vs.SourceContent}
			if vs.Status != nil && vs.Status.BoundContent != nil {
				l.Content = *vs.Status.BoundContent
			}
			left = append(left, l)
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list snapshots of owner %s: %w", owner, err)
	}
	err = listPages(ctx, insist, s.snaps.Contents(), "", "", func(vsc Content) {
		if names.ofAnother(owner, &vsc) {
			others[vsc.physicalID()] = vsc.Name
		}
		if !names.ownsContent(owner, &vsc) {
			return
		}
		left = append(left, Leftover{
			Kind: KindContent, Ref: Ref{Namespace: vsc.Snapshot.Namespace, Name: vsc.Snapshot.Name}, Content: vsc.Name, UID: vsc.UID,
			Policy: vsc.DeletionPolicy, Driver: vsc.Driver, Handle: vsc.physical(), Borrowed: names.borrowed(&vsc),
			Leaving: vsc.Terminating(), Finalizers: vsc.Finalizers,
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list contents: %w", err)
	}
	slices.SortFunc(left, func(a, b Leftover) int {
		return cmp.Or(a.Ref.Compare(b.Ref), cmp.Compare(b.Kind, a.Kind)*-1, cmp.Compare(a.Content, b.Content))
	})
	return left, others, nil
}

// Sweep removes every object of the owner, wherever it is, with [RemoveOptions.Policy] for the physical snapshots, and looks
// again until nothing of the owner has been seen twice in a row: what a process of the owner's, or a slow
// snapshot-controller, leaves meanwhile goes too. It needs no report and no record of the run that made them, touches
// nothing else, and may be repeated, also after a crash in the middle of it. The whole of what is to go is read before the
// first write. What could not be removed is in the report, once, with a [*RemovalError]; the error joins these and what ended
// the sweep.
func (s *Snapshotter) Sweep(ctx context.Context, owner types.UID, opts RemoveOptions) (*ReleaseReport, error) {
	if err := opts.Validate(); err != nil {
		return &ReleaseReport{}, err
	}
	return s.sweep(ctx, owner, opts, nil)
}

// sweep is Sweep without the snapshots that are to be left alone.
func (s *Snapshotter) sweep(ctx context.Context, owner types.UID, opts RemoveOptions, alone map[Ref]bool) (*ReleaseReport, error) {
	report := &ReleaseReport{}
	tried := map[Ref]bool{}
	maps.Copy(tried, alone)
	for quiet := 0; quiet < 2; {
		left, _, err := s.leftovers(ctx, owner)
		if err != nil {
			return report, errors.Join(report.Err(), fmt.Errorf("sweep: %w", err))
		}
		var refs []Ref
		for _, l := range left {
			if !tried[l.Ref] {
				refs = append(refs, l.Ref)
			}
		}
		if len(refs) == 0 {
			if quiet++; quiet < 2 && !sleepUntil(ctx, time.Now().Add(quietFor), nil) {
				return report, errors.Join(report.Err(), fmt.Errorf("sweep: %w", endOf(ctx, nil)))
			}
			continue
		}
		quiet = 0
		removed, _ := s.remove(ctx, owner, opts, false, refs)
		for _, item := range removed.Items {
			tried[item.Ref] = tried[item.Ref] || item.Err != nil
		}
		report.Items = append(report.Items, removed.Items...)
		if ctx.Err() != nil {
			break
		}
	}
	slices.SortStableFunc(report.Items, func(a, b Removal) int { return a.Ref.Compare(b.Ref) })
	return report, report.Err()
}
