package csisnapshot

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// entryOf is the entry whose snapshot the content is of; nil if nobody waits for that.
func (w *Waiter) entryOf(vsc *Content) *entry {
	if e := w.uids[vsc.Snapshot.UID]; e != nil {
		return e
	}
	return w.entries[Ref{Namespace: vsc.Snapshot.Namespace, Name: vsc.Snapshot.Name}]
}

// contentEvent takes in what an event tells of a content.
func (w *Waiter) contentEvent(vsc *Content, gone bool, now time.Time) {
	if e := w.entryOf(vsc); e != nil {
		e.toldContent = now
	}
	w.sawContent(vsc, gone, now)
}

// contentRead takes in a content that was found by a read begun at the time, and reports whether it told news.
func (w *Waiter) contentRead(vsc *Content, began, now time.Time) (news bool) {
	e := w.entryOf(vsc)
	told := e != nil && !e.toldContent.Before(began)
	if told && e.content != nil && older(vsc.Meta, e.content.Meta) {
		return false
	}
	return w.sawContent(vsc, false, now) && !told
}

// sawContent takes in a content that was read or told by an event, and drops those of others.
func (w *Waiter) sawContent(vsc *Content, gone bool, now time.Time) (news bool) {
	e := w.entryOf(vsc)
	if e == nil {
		w.keepContent(vsc)
		return false
	}
	if !e.state.identified() || !vsc.Snapshot.is(e.state.Ref, e.state.UID) {
		return false // its content is read after the snapshot
	}
	news = e.content == nil || e.content.ResourceVersion != vsc.ResourceVersion
	e.content, e.readContent = vsc, time.Time{}
	if e.snapshot != nil || e.gone {
		w.judge(e, now)
	} else {
		e.state.observe(nil, vsc, now)
	}
	if gone {
		e.content = nil
	}
	return news
}

// older reports whether a read has found an object as it was before an event that came while the read was made: its answer can
// be on its way when the change is made, and arrive after it. Without versions that can be compared nothing is known.
func older(read, told Meta) bool {
	order, err := resourceversion.CompareResourceVersion(read.ResourceVersion, told.ResourceVersion)
	return err == nil && order < 0 && read.UID == told.UID
}
