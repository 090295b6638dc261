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
	e := w.early[ref]
	if e == nil {
		e = &early{}
		w.early[ref] = e
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
	kept := w.early[e.state.Ref]
	delete(w.early, e.state.Ref)
	w.added[identify(e.state.UID, e.state.Ref)] = true
	if kept == nil {
		return
	}
	if vs := kept.snapshot; vs != nil && vs.UID == e.state.UID {
		e.snapshot = vs
		if kept.gone {
			w.confirmAt(e, now)
		}
	}
	if vsc := kept.content; vsc != nil && vsc.Snapshot.is(e.state.Ref, e.state.UID) {
		e.content = vsc
	}
}

// confirmAt asks for the snapshot by name out of turn.
func (w *Waiter) confirmAt(e *entry, at time.Time) {
	e.confirm, e.readSnapshot = true, at
	w.read.due = append(w.read.due, e)
	poke(w.wake)
}
