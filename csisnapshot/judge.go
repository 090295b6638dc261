package csisnapshot

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Look is what was seen of a snapshot at one moment.
type Look struct {
	Snapshot   *Snapshot  // nil: there is none with this name
	Content    *Content   // nil: none is known
	Classifier Classifier // nil: no error is final
	Now        time.Time
}

// Judge decides what a look means after what was seen before. It is pure: watching and polling share it, so that the
// same history gives the same result. For one UID,
//
//	stage   what decides, first match wins
//	cut     a content that refers to the UID has, or once had, a non-empty snapshotHandle
//	        > replaced > deleted > final error > waiting
//	ready   readyToUse is true, or once was, together with a handle
//	        > replaced > deleted > final error > waiting
//
// so cut stays cut and ready stays ready whatever follows. Of an object with another UID, and of a content that refers
// to one, nothing counts. A snapshot with a deletion time counts as deleted. An error is history, never final, when a
// handle or a creation time stands beside it, unless it is newer than every error seen before the handle was.
func Judge(before State, look Look) State {
	s, vs, vsc := before, look.Snapshot, look.Content
	if vs != nil && !s.identified() {
		s.UID = vs.UID
	}
	replaced := vs != nil && vs.UID != s.UID
	if replaced {
		vs = nil
	}
	never := vs == nil && !replaced && !s.identified()
	if vsc != nil && (never || !vsc.Snapshot.is(s.Ref, s.UID)) {
		vsc = nil
	}
	s.observe(vs, vsc, look.Now)
	final := s.judgeErrors(vs, vsc, look)
	s.End = nil
	switch {
	case s.Ready:
	case replaced:
		s.End = ErrReplaced
	case never:
		s.End = ErrNotFound
	case vs == nil || vs.Terminating():
		s.End = ErrDeleted
	case final:
		s.End = ErrFinal
	}
	s.Diagnosis = s.diagnose(vs, vsc)
	if s.changed(before, vs, vsc) {
		s.LastChange = look.Now
	}
	return s
}

// is reports whether the reference is to the snapshot. The UID decides; where neither has one, as on fakes, the name does.
func (r SnapshotRef) is(ref Ref, uid types.UID) bool {
	return r.UID == uid && (uid != "" || r.Namespace == ref.Namespace && r.Name == ref.Name)
}

// identified reports whether it is known which object the state is of: its UID is known, or it was looked at on a fake
// that gives none. Before, no content can be said to be the snapshot's: the name may have been another's.
func (s *State) identified() bool { return s.UID != "" || !s.LastChange.IsZero() }

// observe takes over what the objects say, and latches the steps taken.
func (s *State) observe(vs *Snapshot, vsc *Content, now time.Time) {
	if vsc != nil {
		s.Content = vsc.Name
		if h := vsc.Handle(); h != "" && s.Handle == "" {
			s.Handle = h
		}
		if vsc.Handle() == s.Handle && s.Handle != "" && !s.Ready {
			s.ContentVersion = vsc.ResourceVersion
		}
		if st := vsc.Status; st != nil {
			s.RestoreSize, s.CreationTime = keep(s.RestoreSize, st.RestoreSize), keep(s.CreationTime, st.CreationTime)
		}
	}
	if vs != nil && vs.Status != nil {
		s.RestoreSize, s.CreationTime = keep(s.RestoreSize, vs.Status.RestoreSize), keep(s.CreationTime, vs.Status.CreationTime)
		if !s.Ready {
			s.ReadyToUse = keep(s.ReadyToUse, vs.Status.ReadyToUse)
		}
	}
	if !s.PickedUp && pickedUp(vs, vsc) {
		s.PickedUp, s.PickedUpAt = true, now
		s.progress(now)
	}
	if !s.Begun && begun(vsc) {
		s.Begun = true
		s.progress(now)
	}
	if !s.Cut && s.Handle != "" {
		s.Cut, s.CutAt = true, now
		s.oldError = newest(s.oldError, vs, vsc)
		s.progress(now)
	}
	if !s.Ready && s.Cut && s.ReadyToUse != nil && *s.ReadyToUse {
		s.Ready, s.ReadyAt = true, now
		s.progress(now)
	}
	if !s.Cut {
		s.oldError = newest(s.oldError, vs, vsc)
	}
}

// keep is the newer value, or the one before if the newer is absent.
func keep[T any](before, now *T) *T {
	if now == nil {
		return before
	}
	return now
}

// pickedUp reports whether anyone has worked on the snapshot.
func pickedUp(vs *Snapshot, vsc *Content) bool {
	if vsc != nil {
		return true
	}
	return vs != nil && (vs.Status != nil || hasStackFinalizer(vs.Meta))
}

// begun reports whether the driver's sidecar has worked on the content.
func begun(vsc *Content) bool {
	return vsc != nil && (vsc.Status != nil || vsc.Annotations[stackPrefix+"volumesnapshot-being-created"] != "")
}

// stackPrefix begins the finalizers and annotations of snapshot-controller and sidecar.
const stackPrefix = "snapshot.storage.kubernetes.io/"

func hasStackFinalizer(m Meta) bool {
	for _, f := range m.Finalizers {
		if strings.HasPrefix(f, stackPrefix) {
			return true
		}
	}
	return false
}

// statusErrors are the errors that stand in the two statuses; nil where there is none.
func statusErrors(vs *Snapshot, vsc *Content) (snapshot, content *StatusError) {
	if vs != nil && vs.Status != nil {
		snapshot = vs.Status.Error
	}
	if vsc != nil && vsc.Status != nil {
		content = vsc.Status.Error
	}
	return snapshot, content
}

// newest is the latest time of t and of the errors in the two statuses.
func newest(t time.Time, vs *Snapshot, vsc *Content) time.Time {
	a, b := statusErrors(vs, vsc)
	for _, e := range []*StatusError{a, b} {
		if e != nil && e.Time != nil && e.Time.After(t) {
			t = *e.Time
		}
	}
	return t
}

// changed reports whether the objects differ from those of the look before.
func (s *State) changed(before State, vs *Snapshot, vsc *Content) bool {
	first := before.LastChange.IsZero()
	if vs != nil {
		s.snapshotVersion = vs.ResourceVersion
	}
	if vsc != nil {
		s.contentVersion = vsc.ResourceVersion
	}
	return first || s.snapshotVersion != before.snapshotVersion || s.contentVersion != before.contentVersion ||
		s.ProgressAt != before.ProgressAt || s.errors != before.errors || s.End != before.End //nolint:errorlint // End is one of the package's own variables.
}
