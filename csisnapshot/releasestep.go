package csisnapshot

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// passes reports whether the next round may meet another answer: trouble of the API, or an object that has changed.
func passes(err error) bool {
	return retriable(err) || apierrors.IsConflict(err) || isGone(err)
}

// step takes the item's next step. An error is of a request; what the item itself is at fault for ends it.
func (r *remover) step(ctx context.Context, m *removal) error {
	if m.snapshot != nil && !r.names.Owns(r.owner, m.snapshot.Meta) {
		m.fail(ErrForeign, nil)
		return nil
	}
	if m.snapshot == nil && m.content == nil {
		r.vanish(m)
		return nil
	}
	m.vanished = time.Time{}
	if r.look {
		return nil
	}
	if ok, err := r.cleared(ctx, m); !ok || err != nil {
		return err
	}
	for _, ready := range []func(context.Context, *removal) (bool, error){r.unused, r.ensurePolicy, r.unused} {
		if ok, err := ready(ctx, m); !ok || err != nil {
			return err
		}
	}
	if m.snapshot != nil {
		return r.deleteSnapshot(ctx, m)
	}
	return r.deleteContent(ctx, m)
}

// vanish ends an item of which nothing is left. A content may come late for a snapshot that was deleted before one was
// seen, so that is looked for twice.
func (r *remover) vanish(m *removal) {
	now := time.Now()
	if m.vanished.IsZero() {
		m.vanished = now
	}
	if m.seen && m.contentSeen.IsZero() && now.Sub(m.vanished) < quietFor {
		return
	}
	if r.policy == DeletionPolicyRetain && m.lost() {
		m.fail(ErrLost, nil)
		m.Gone = true
		return
	}
	m.finish()
}

// lost reports whether a physical snapshot went with a content that was not last read with Retain, or with one that
// was there while this call ran and that nobody saw. Of a content that went before, as with a snapshot that an earlier
// call had begun to delete, nobody can tell.
func (m *removal) lost() bool {
	if m.contentSeen.IsZero() {
		return m.taken
	}
	return !m.retained
}

// ensurePolicy makes the content say what is to become of the physical snapshot. It reports whether a read said so.
func (r *remover) ensurePolicy(ctx context.Context, m *removal) (bool, error) {
	vsc := m.content
	policy := r.policyFor(vsc)
	keep := policy == DeletionPolicyRetain
	switch {
	case vsc == nil && keep && !m.snapshot.Terminating():
		category := ErrNotCut
		if m.taken {
			category = ErrLost
		}
		m.fail(category, nil)
		return false, nil
	case vsc == nil:
		return true, nil
	case keep && vsc.Terminating() && vsc.DeletionPolicy != DeletionPolicyRetain && !held(vsc):
		m.fail(ErrLost, nil)
		return false, nil
	case keep && vsc.physical() == "" && m.Handle == "":
		m.fail(ErrNotCut, nil)
		return false, nil
	case vsc.DeletionPolicy == policy:
		return true, nil
	}
	m.turned = !keep
	if err := r.setPolicy(ctx, vsc, policy); err != nil {
		return false, err
	}
	return r.readPolicyBack(ctx, m)
}

func (r *remover) setPolicy(ctx context.Context, vsc *Content, policy DeletionPolicy) error {
	patch := mergePatch(vsc.Meta, nil, map[string]any{"deletionPolicy": string(policy)})
	err := r.write(ctx, func(ctx context.Context) error {
		_, err := r.client.Contents().Patch(ctx, "", vsc.Name, patch)
		return err
	})
	if err != nil {
		return fmt.Errorf("set policy %s of content %s: %w", policy, vsc.Name, err)
	}
	return nil
}

// held reports whether a content that is being deleted still keeps its physical snapshot: without the mark that its
// snapshot is being deleted, too, the sidecar waits, but for a content made by hand that was never bound.
func held(vsc *Content) bool {
	return vsc.Snapshot.UID != "" && vsc.Annotations[beingDeletedKey] == ""
}

// policyFor is what the content must say. A physical snapshot that is another's stays whatever is asked for.
func (r *remover) policyFor(vsc *Content) DeletionPolicy {
	if r.names.borrowed(vsc) {
		return DeletionPolicyRetain
	}
	return r.policy
}

// readPolicyBack reads the content again. Only what the server then says counts.
func (r *remover) readPolicyBack(ctx context.Context, m *removal) (bool, error) {
	var vsc Content
	err := r.call(ctx, func(ctx context.Context) (err error) {
		vsc, err = r.client.Contents().Get(ctx, "", m.content.Name)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read content %s back: %w", m.content.Name, err)
	}
	if vsc.UID != m.content.UID || vsc.DeletionPolicy != r.policyFor(&vsc) {
		return false, nil // the next round sees what there is now
	}
	m.content = &vsc
	m.changed(time.Now())
	return true, nil
}

// deleteSnapshot deletes the VolumeSnapshot that was read, once.
func (r *remover) deleteSnapshot(ctx context.Context, m *removal) error {
	if m.snapshot.Terminating() {
		return r.touchIfStuck(ctx, m)
	}
	only := Preconditions{UID: m.snapshot.UID}
	if r.policy == DeletionPolicyDelete {
		if r.tooEarly(m) {
			return nil
		}
		if m.content == nil { // a controller that takes it up meanwhile changes it
			only.ResourceVersion = m.snapshot.ResourceVersion
		}
	}
	err := r.write(ctx, func(ctx context.Context) error {
		return r.client.Snapshots().Delete(ctx, m.Ref.Namespace, m.Ref.Name, only)
	})
	if err != nil && !isGone(err) {
		return fmt.Errorf("delete snapshot %s: %w", m.Ref, err)
	}
	m.progress = time.Now()
	return nil
}

// tooEarly reports whether the snapshot is being made at this moment: with it the controller would delete a content that
// has no finalizer yet, or is about to make one, and the physical snapshot would stay behind.
func (r *remover) tooEarly(m *removal) bool {
	vs, vsc := m.snapshot, m.content
	failed, _ := statusErrors(vs, nil)
	switch {
	case vsc != nil:
		return exposed(vsc, m.contentSeen)
	case !pickedUp(vs, nil), failed != nil: // nobody makes a content, or there is nothing to make one from
		return false
	default:
		return time.Since(m.since) < protectionWait
	}
}

// deleteContent deletes the content whose snapshot is gone, with the UID that was read, once. Release deletes it only as
// it was read: someone may change its policy meanwhile.
func (r *remover) deleteContent(ctx context.Context, m *removal) error {
	vsc := m.content
	if vsc.Terminating() {
		return r.touchIfStuck(ctx, m)
	}
	if r.policyFor(vsc) == DeletionPolicyDelete && (exposed(vsc, m.contentSeen) || unknown(vsc)) {
		return nil
	}
	only := Preconditions{UID: vsc.UID}
	if r.policyFor(vsc) == DeletionPolicyRetain {
		only.ResourceVersion = vsc.ResourceVersion // the one that says Retain
	}
	err := r.write(ctx, func(ctx context.Context) error {
		return r.client.Contents().Delete(ctx, "", vsc.Name, only)
	})
	if err != nil && !isGone(err) {
		m.retained = m.retained && !apierrors.IsConflict(err) // what was read does not hold any more
		return fmt.Errorf("delete content %s: %w", vsc.Name, err)
	}
	m.progress = time.Now()
	return nil
}

// changed notes progress.
func (m *removal) changed(now time.Time) {
	snapshotAt, contentAt := "", ""
	if m.snapshot != nil {
		snapshotAt = m.snapshot.ResourceVersion
		m.seen, m.UID = true, m.snapshot.UID
		m.taken = m.taken || !m.snapshot.Terminating() && hasPhysical(m.snapshot.Status)
		if m.since.IsZero() {
			m.since = now
		}
	}
	if m.content != nil {
		contentAt = m.content.ResourceVersion
		m.seen, m.Content = true, m.content.Name
		m.retained = m.content.DeletionPolicy == DeletionPolicyRetain
		if m.contentSeen.IsZero() {
			m.contentSeen = now
		}
		if h := m.content.physical(); h != "" {
			m.Handle = h
		}
	}
	if snapshotAt != m.snapshotAt || contentAt != m.contentAt {
		m.progress = now
	}
	m.snapshotAt, m.contentAt = snapshotAt, contentAt
}

// hasPhysical reports whether the status tells of a physical snapshot.
func hasPhysical(st *SnapshotStatus) bool {
	return st != nil && (st.CreationTime != nil || st.ReadyToUse != nil && *st.ReadyToUse)
}
