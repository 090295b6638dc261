package csisnapshot

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// early is what watches told of a snapshot before it was added: its events may arrive before the answer to its creation.
type early struct {
	snapshot *Snapshot
	content  *Content
	gone     bool
}

// identity is a snapshot's UID, or its name on fakes that give no UID.
type identity struct {
	uid types.UID
	ref Ref
}

func identify(uid types.UID, ref Ref) identity {
	if uid != "" {
		return identity{uid: uid}
	}
	return identity{ref: ref}
}

// earlyOf is where events of a snapshot are kept that is not waited for yet; nil if it was, or is none of the owner's.
func (w *Waiter) earlyOf(ref Ref, id identity) *early {
	if !w.names.OwnsName(w.owner.UID, ref.Name) || w.added[id] {
		return nil
	}
	e := w.early[id]
	if e == nil {
		e = &early{}
		w.early[id] = e
	}
	return e
}

// keepSnapshot keeps an event of a snapshot that is not waited for.
func (w *Waiter) keepSnapshot(vs *Snapshot, gone bool) {
	if kept := w.earlyOf(vs.Ref(), identify(vs.UID, vs.Ref())); kept != nil {
		kept.snapshot, kept.gone = vs, gone
	}
}

// keepContent keeps an event of a content whose snapshot is not waited for.
func (w *Waiter) keepContent(vsc *Content) {
	ref := Ref{Namespace: vsc.Snapshot.Namespace, Name: vsc.Snapshot.Name}
	if kept := w.earlyOf(ref, identify(vsc.Snapshot.UID, ref)); kept != nil {
		kept.content = vsc
	}
}

// takeEarly gives an entry that is added what was told of it before.
func (w *Waiter) takeEarly(e *entry, now time.Time) {
	id := identify(e.state.UID, e.state.Ref)
	kept := w.early[id]
	delete(w.early, id)
	w.added[id] = true
	if kept == nil || !e.state.identified() && e.snapshot == nil { // the second is read first
		return
	}
	if kept.snapshot != nil {
		e.snapshot = kept.snapshot
		if kept.gone {
			w.confirmAt(e, now)
		}
	}
	e.content = kept.content
}

// confirmAt asks for the snapshot by name out of turn.
func (w *Waiter) confirmAt(e *entry, at time.Time) {
	e.confirm = true
	w.readSnapshotAt(e, at)
}

// readSnapshotAt asks for the snapshot out of turn.
func (w *Waiter) readSnapshotAt(e *entry, at time.Time) {
	e.readSnapshot = at
	w.read.queue(e)
	poke(w.wake)
}
