package csisnapshot

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Target is a snapshot to wait for. Watches and lists select by the owner's label, which [Names.NewSnapshot] gives and
// [Names.Labels] tells. A snapshot that has not got it, because something else made it, is waited for all the same: it is read
// by itself, as often as a poll or [WaitOptions.SafetyRead] is due, so that with a watch its readiness can be told that late.
type Target struct {
	// Ref names the VolumeSnapshot. It may be left zero if Snapshot is set.
	Ref Ref
	// UID is the object meant; empty means the one found at the first read.
	UID types.UID
	// Driver is the CSI driver of the volume: its clock is shared. Empty if unknown.
	Driver string
	// Snapshot is the object as it was created or read; nil if it was not read.
	Snapshot *Snapshot
	// Created says that this process created Snapshot while the waiter was open, so that the watches tell all there is
	// to know. Otherwise the snapshot and its content are read at once.
	Created bool
}

// Result is what is known of a snapshot.
type Result struct {
	Ref      Ref
	UID      types.UID
	Driver   string
	PickedUp bool   // the snapshot-controller has been seen to work on it
	Begun    bool   // the driver's sidecar has been seen to work on its content
	Cut      bool   // it has a handle; stays true
	Ready    bool   // it was ready to use with a handle; stays true
	Content  string // name of the content; empty while there is none
	Handle   string // of the physical snapshot; empty while there is none
	// ContentVersion is the resourceVersion that the content had when Handle was last read from it; once the
	// snapshot is ready it does not change any more. Empty: there is no handle, or it is not known.
	ContentVersion string
	RestoreSize    *int64     // bytes
	CreationTime   *time.Time // of the physical snapshot, by the driver's clock
	ReadyToUse     *bool      // as last seen, or as seen when it became ready
	LastError      string     // the error text that stands in a status; an old one may stand beside a handle
	Diagnosis      Diagnosis
	PickedUpAt     time.Time // when this wait first saw it; zero: not yet
	CutAt          time.Time
	ReadyAt        time.Time
}

// Reached reports whether the snapshot has come to the stage.
func (r Result) Reached(s Stage) bool {
	if s.known() == StageReady {
		return r.Ready
	}
	return r.Cut
}
