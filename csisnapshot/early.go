package csisnapshot

import "time"

// early is what watches told of a snapshot before it was added: its events may arrive before the answer to its creation.
type early struct {
	snapshot *Snapshot
	content  *Content
	gone     bool
}

// earlyOf is where events of a snapshot are kept that is not waited for yet; nil if it was, or is none of the owner's.
func (w *Waiter) earlyOf(ref Ref, known func() bool) *early {
	if !w.names.OwnsName(w.owner.UID, ref.Name) || known() {
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
	if kept := w.earlyOf(vs.Ref(), func() bool { return w.added[vs.UID] }); kept != nil {
		kept.snapshot, kept.gone = vs, gone
	}
}

// keepContent keeps an event of a content whose snapshot is not waited for.
func (w *Waiter) keepContent(vsc *Content) {
	ref := Ref{Namespace: vsc.Snapshot.Namespace, Name: vsc.Snapshot.Name}
	if kept := w.earlyOf(ref, func() bool { return w.added[vsc.Snapshot.UID] }); kept != nil {
		kept.content = vsc
	}
}

// takeEarly gives an entry that is added what was told of it before.
func (w *Waiter) takeEarly(e *entry, now time.Time) {
	kept := w.early[e.state.Ref]
	delete(w.early, e.state.Ref)
	w.added[e.state.UID] = true
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
