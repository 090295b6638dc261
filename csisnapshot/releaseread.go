package csisnapshot

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// readAll reads the snapshots and contents of the open items: one list of the owner's snapshots for each namespace, one
// read by name for what is missing there, and for contents reads by name up to 50, else one list.
func (r *remover) readAll(ctx context.Context) {
	open := r.open()
	byNamespace := map[string][]*removal{}
	for _, m := range open {
		m.snapshot, m.content, m.read = nil, nil, true
		if !m.gone {
			byNamespace[m.Ref.Namespace] = append(byNamespace[m.Ref.Namespace], m)
		}
	}
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for namespace, items := range byNamespace {
		group.Go(func() error { r.readSnapshots(ctx, namespace, items); return nil })
	}
	_ = group.Wait() // each item has its own error
	r.readContents(ctx, open)
	r.findOrphans(ctx, open)
	now := time.Now()
	for _, m := range open {
		if m.read {
			m.changed(now)
		} else {
			m.note(m.trouble, now)
		}
	}
}

func (m *removal) unread(err error) { m.read, m.trouble = false, err }

func (r *remover) readSnapshots(ctx context.Context, namespace string, items []*removal) {
	found := map[string]*Snapshot{}
	if len(items) > 1 {
		err := listPages(ctx, r.call, r.client.Snapshots(), namespace, r.names.OwnerSelector(r.owner), func(vs Snapshot) {
			found[vs.Name] = &vs
		})
		if err != nil {
			for _, m := range items {
				m.unread(fmt.Errorf("list snapshots of namespace %s: %w", namespace, err))
			}
			return
		}
	}
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for _, m := range items {
		if m.snapshot = found[m.Ref.Name]; m.snapshot == nil {
			group.Go(func() error { r.readSnapshot(ctx, m); return nil })
		} else {
			m.dropReplaced()
		}
	}
	_ = group.Wait() // each item has its own error
}

func (r *remover) readSnapshot(ctx context.Context, m *removal) {
	err := r.call(ctx, func(ctx context.Context) error {
		vs, err := r.client.Snapshots().Get(ctx, m.Ref.Namespace, m.Ref.Name)
		m.snapshot = &vs
		return err
	})
	if err != nil {
		m.snapshot = nil
		if m.gone = isGone(err); !m.gone {
			m.unread(fmt.Errorf("read snapshot %s: %w", m.Ref, err))
		}
		return
	}
	m.dropReplaced()
}

// dropReplaced forgets an object that has the name but is not the one that this call began to remove.
func (m *removal) dropReplaced() {
	if m.seen && m.snapshot.UID != m.UID {
		m.snapshot, m.gone = nil, true
	}
}

func (r *remover) readContents(ctx context.Context, items []*removal) {
	var wanted []*removal
	named := true
	for _, m := range items {
		if m.read && (m.snapshot != nil || m.seen) {
			wanted = append(wanted, m)
			named = named && m.contentName() != ""
		}
	}
	if len(wanted) > maxGets || !named {
		r.listContents(ctx, wanted)
		return
	}
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for _, m := range wanted {
		group.Go(func() error { r.readContent(ctx, m); return nil })
	}
	_ = group.Wait() // each item has its own error
}

// contentName is the name of the item's content; empty if it is not known, as on fakes that give no UID.
func (m *removal) contentName() string {
	switch {
	case m.Content != "":
		return m.Content
	case m.snapshot != nil:
		return contentNameOf(m.snapshot)
	case m.UID != "":
		return ContentName(m.UID)
	default:
		return ""
	}
}

func (r *remover) readContent(ctx context.Context, m *removal) {
	err := r.call(ctx, func(ctx context.Context) error {
		vsc, err := r.client.Contents().Get(ctx, "", m.contentName())
		if err == nil && m.holds(vsc) {
			m.content = &vsc
		}
		return err
	})
	if err != nil && !isGone(err) {
		m.unread(fmt.Errorf("read content %s: %w", m.contentName(), err))
	}
}

// holds reports whether the content is of the snapshot.
func (m *removal) holds(vsc Content) bool {
	uid := m.UID
	if m.snapshot != nil {
		uid = m.snapshot.UID
	}
	if uid == "" && m.snapshot == nil && m.orphan != "" {
		return vsc.UID == m.orphan
	}
	if vsc.Snapshot.UID == "" && vsc.SnapshotHandle != nil { // made by hand and not bound yet
		return vsc.Snapshot.Namespace == m.Ref.Namespace && vsc.Snapshot.Name == m.Ref.Name
	}
	return vsc.Snapshot.is(m.Ref, uid)
}

func (r *remover) listContents(ctx context.Context, wanted []*removal) {
	byName := map[Ref][]*removal{}
	for _, m := range wanted {
		byName[m.Ref] = append(byName[m.Ref], m)
	}
	err := r.eachContent(ctx, func(vsc Content) {
		for _, m := range byName[Ref{Namespace: vsc.Snapshot.Namespace, Name: vsc.Snapshot.Name}] {
			if m.holds(vsc) {
				m.content = &vsc
			}
		}
	})
	if err != nil {
		for _, m := range wanted {
			m.unread(err)
		}
	}
}

func (r *remover) eachContent(ctx context.Context, fn func(Content)) error {
	var all []Content
	err := listPages(ctx, r.call, r.client.Contents(), "", "", func(vsc Content) { all = append(all, vsc) })
	if apierrors.IsResourceExpired(err) {
		err = errExpired // the next round begins again
	}
	if err != nil {
		return fmt.Errorf("list contents: %w", err)
	}
	for _, vsc := range all {
		fn(vsc)
	}
	return nil
}

// findOrphans looks, once for each item, for contents whose snapshot is gone already: a call before this one was stopped
// half way, or someone deleted the snapshot. The name of the snapshot in the reference tells whose they are. An item that
// could not be read is looked for when it was.
func (r *remover) findOrphans(ctx context.Context, open []*removal) {
	lost := map[Ref]*removal{}
	for _, m := range open {
		if m.read && m.snapshot == nil && !m.seen && !m.searched && r.names.OwnsName(r.owner, m.Ref.Name) {
			lost[m.Ref] = m
		}
	}
	if len(lost) == 0 {
		return
	}
	err := r.eachContent(ctx, func(vsc Content) {
		m := lost[Ref{Namespace: vsc.Snapshot.Namespace, Name: vsc.Snapshot.Name}]
		if m == nil {
			return
		}
		if m.content != nil { // of another incarnation
			m = &removal{Removal: Removal{Ref: m.Ref}, read: true, gone: true, searched: true}
			r.items = append(r.items, m)
		}
		m.content, m.orphan = &vsc, vsc.UID
		m.changed(time.Now())
	})
	for _, m := range lost {
		if m.searched = err == nil; err != nil {
			m.unread(err)
		}
	}
}
