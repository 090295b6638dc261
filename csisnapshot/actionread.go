package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sheetanchor/sheetanchor/operations"
)

// readSnapshots finds the snapshots of one namespace: one by name, several by one list, and by name those that the list
// does not have.
func (a *Action) readSnapshots(ctx context.Context, namespace string, questions []*asked) {
	found := map[string]*Snapshot{}
	if len(questions) > 1 {
		err := listPages(ctx, a.call, a.client.Snapshots(), namespace, a.names.OwnerLabel(), func(vs Snapshot) { found[vs.Name] = &vs })
		if err != nil {
			for _, q := range questions {
				q.err = fmt.Errorf("list snapshots of namespace %s: %w", namespace, err)
			}
			return
		}
	}
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for _, q := range questions {
		if q.snapshot = found[q.ref.Name]; q.snapshot == nil {
			group.Go(func() error { a.readSnapshot(ctx, q); return nil })
		}
	}
	_ = group.Wait() // each question has its own error
	for _, q := range questions {
		q.newer = q.snapshot != nil && q.state.UID != q.snapshot.UID && isNewer(*q.snapshot, q.id)
	}
}

func (a *Action) readSnapshot(ctx context.Context, q *asked) {
	err := a.call(ctx, func(ctx context.Context) error {
		vs, err := a.client.Snapshots().Get(ctx, q.ref.Namespace, q.ref.Name)
		q.snapshot = &vs
		return err
	})
	if err != nil {
		q.snapshot = nil
		if !isGone(err) {
			q.err = fmt.Errorf("read snapshot %s: %w", q.ref, err)
		}
	}
}

// call makes one request within its own time.
func (a *Action) call(ctx context.Context, request func(context.Context) error) error {
	return bounded(ctx, a.opts.CallTimeout, request)
}

// bounded makes one request within the limit.
func bounded(ctx context.Context, limit time.Duration, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	return request(ctx)
}

// readContents reads the contents of snapshots that are not known to be cut.
func (a *Action) readContents(ctx context.Context, questions []*asked) {
	var wanted []*asked
	named := true
	for _, q := range questions {
		if q.err == nil && q.snapshot != nil && !q.newer && !q.state.Cut {
			wanted = append(wanted, q)
			named = named && contentNameOf(q.snapshot) != ""
		}
	}
	if len(wanted) == 0 {
		return
	}
	if len(wanted) > maxGets || !named {
		a.listContents(ctx, wanted)
		return
	}
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for _, q := range wanted {
		group.Go(func() error {
			var vsc Content
			err := a.call(ctx, func(ctx context.Context) (err error) {
				vsc, err = a.client.Contents().Get(ctx, "", contentNameOf(q.snapshot))
				return err
			})
			q.takeContent(&vsc, err)
			return nil
		})
	}
	_ = group.Wait() // each question has its own error
}

func (q *asked) takeContent(vsc *Content, err error) {
	switch {
	case err == nil:
		q.content = vsc
	case !isGone(err):
		q.err = fmt.Errorf("read content of snapshot %s: %w", q.ref, err)
	}
}

func (a *Action) listContents(ctx context.Context, wanted []*asked) {
	var all []*Content
	err := listPages(ctx, a.call, a.client.Contents(), "", "", func(vsc Content) {
		if strings.HasPrefix(vsc.Snapshot.Name, a.names.withDefaults().Prefix+"-") {
			all = append(all, &vsc)
		}
	})
	byRef := map[SnapshotRef]*Content{}
	for _, vsc := range all {
		byRef[vsc.Snapshot] = vsc
	}
	for _, q := range wanted {
		if err != nil {
			q.err = fmt.Errorf("list contents: %w", err)
			continue
		}
		q.content = byRef[SnapshotRef{Namespace: q.ref.Namespace, Name: q.ref.Name, UID: q.snapshot.UID}]
	}
}

// contentNameOf is the name of the snapshot's content: as its source or its status tells, else as the snapshot-controller
// gives it. It is empty on fakes that give no UID.
func contentNameOf(vs *Snapshot) string {
	if vs.SourceContent != "" {
		return vs.SourceContent
	}
	if vs.Status != nil && vs.Status.BoundContent != nil && *vs.Status.BoundContent != "" {
		return *vs.Status.BoundContent
	}
	if vs.UID == "" {
		return ""
	}
	return ContentName(vs.UID)
}

// Cancel marks the snapshot, unless it is ready or gone.
func (a *Action) Cancel(ctx context.Context, operationID string) error {
	if err := a.made(); err != nil {
		return err
	}
	ref, err := ParseOperationID(operationID)
	if err != nil {
		return operations.Permanent(err)
	}
	if a.recall(operationID, ref, time.Now()).Ready {
		return nil
	}
	for range conflictTries {
		err = a.call(ctx, func(ctx context.Context) error { return a.cancel(ctx, ref, operationID) })
		if !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil && !errors.Is(err, ErrForeign) {
		return fmt.Errorf("cancel snapshot %s: %w", ref, err)
	}
	return operations.Permanent(err)
}

// conflictTries is how often a change is tried on an object that others change at the same time.
const conflictTries = 5

func (a *Action) cancel(ctx context.Context, ref Ref, id string) error {
	vs, err := a.client.Snapshots().Get(ctx, ref.Namespace, ref.Name)
	switch {
	case err != nil && isGone(err):
		return nil
	case err != nil:
		return err
	case a.names.OwnerOf(vs.Meta) == "":
		return fmt.Errorf("snapshot %s: %w", ref, ErrForeign)
	case isNewer(vs, id): // the operation's own is gone
		return nil
	case vs.Annotations[a.names.cancelKey()] != "":
		return nil
	case vs.Status != nil && vs.Status.ReadyToUse != nil && *vs.Status.ReadyToUse:
		return nil
	}
	_, err = a.client.Snapshots().Patch(ctx, ref.Namespace, ref.Name, mergePatch(vs.Meta, annotation(a.names.cancelKey(), "true"), nil))
	return err
}
