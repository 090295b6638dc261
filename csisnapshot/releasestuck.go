package csisnapshot

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// exposed reports whether the content, first seen at the time, has no protection against being deleted too soon: the
// finalizer that the snapshot-controller puts on it, after which the sidecar deletes the physical snapshot first. The
// sidecar's status may come before it, so that a status alone shortens the wait, and only a ready one ends it.
func exposed(vsc *Content, since time.Time) bool {
	switch st := vsc.Status; {
	case hasStackFinalizer(vsc.Meta), st != nil && st.ReadyToUse != nil && *st.ReadyToUse && time.Since(since) >= firstLook:
		return false
	case st != nil:
		return time.Since(since) < statusWait
	default:
		return time.Since(since) < protectionWait
	}
}

// unknown reports whether the driver's sidecar has yet to look at a content made by hand: it deletes only a physical
// snapshot that it has written into the status. One that it did not find is gone.
func unknown(vsc *Content) bool {
	if vsc.SnapshotHandle == nil || vsc.Handle() != "" {
		return false
	}
	_, failed := statusErrors(nil, vsc)
	return failed == nil || !strings.Contains(failed.text(), "can not find snapshot") && GRPCCode(failed.text()) != "NotFound"
}

// touchIfStuck changes an annotation of a content that stays Terminating: its sidecar looks at it only when it changes. One
// whose snapshot went before the snapshot-controller could say so on the content is told what the controller would have.
func (r *remover) touchIfStuck(ctx context.Context, m *removal) error {
	vsc, now := m.content, time.Now()
	if vsc == nil || !vsc.Terminating() {
		m.terminating = time.Time{}
		return nil
	}
	if m.terminating.IsZero() {
		m.terminating = now
	}
	if now.Sub(m.terminating) < stuckAfter || !m.touched.IsZero() && now.Sub(m.touched) < touchEvery {
		return nil
	}
	m.touched = now
	marks := map[string]any{r.names.key("touched"): now.UTC().Format(time.RFC3339Nano)}
	if m.snapshot == nil && vsc.Snapshot.UID != "" {
		marks[beingDeletedKey] = "yes"
	}
	patch := mergePatch(vsc.Meta, map[string]any{"annotations": marks}, nil)
	err := r.write(ctx, func(ctx context.Context) error {
		touched, err := r.client.Contents().Patch(ctx, "", vsc.Name, patch)
		if err == nil {
			m.contentAt = touched.ResourceVersion // our own change is no progress
		}
		return err
	})
	if err != nil && !isGone(err) {
		return fmt.Errorf("touch content %s: %w", vsc.Name, err)
	}
	return nil
}

// beingDeletedKey is the annotation of a content whose snapshot was deleted: without it the sidecar lets none go.
const beingDeletedKey = stackPrefix + "volumesnapshot-being-deleted"
