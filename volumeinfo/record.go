package volumeinfo

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unknown is what Velero writes into string fields whose value it does not know, for example the snapshot handle of a
// snapshot that was moved. It identifies nothing.
const Unknown = "unknown"

// Method is the way in which a volume's data was handled. Empty means that nothing was done, or that it is not known.
type Method string

// The methods Velero knows. PodVolumeRestore occurs in restore records only.
const (
	NativeSnapshot   Method = "NativeSnapshot"
	PodVolumeBackup  Method = "PodVolumeBackup"
	CSISnapshot      Method = "CSISnapshot"
	PodVolumeRestore Method = "PodVolumeRestore"
)

// Result is how the work on a volume ended. The zero value says that it has not ended, or not yet been recorded.
type Result string

// The closed set of results. A file of a newer writer may hold others; they are kept and count as not final.
const (
	NotFinal  Result = ""
	Succeeded Result = "succeeded"
	Failed    Result = "failed"
)

// BackupRecord says what a backup did with one volume. It is one entry of Velero's backups/NAME/NAME-volumeinfo.json.gz.
// The zero value is valid and says nothing. It is plain data: copies share the nested structs and the map.
type BackupRecord struct {
	// PVCName and PVCNamespace name the claim; empty for a volume without one.
	PVCName      string `json:"pvcName,omitempty"`
	PVCNamespace string `json:"pvcNamespace,omitempty"`
	// PVCUID is the claim's UID at the time of the backup, empty when not known. The key is ours: Velero ignores it.
	PVCUID string `json:"pvcUID,omitempty"`
	// PVName names the persistent volume, empty when the claim was not bound or the volume is not known.
	PVName string `json:"pvName,omitempty"`
	// BackupMethod is empty when nothing was done with the volume.
	BackupMethod Method `json:"backupMethod,omitempty"`
	// SnapshotDataMoved reports whether the snapshot's data was copied to other storage.
	SnapshotDataMoved bool `json:"snapshotDataMoved"`
	// PreserveLocalSnapshot reports whether the snapshot stays in the volume's own storage.
	PreserveLocalSnapshot bool `json:"preserveLocalSnapshot"`
	// Skipped reports whether the volume was left out on purpose, SkippedReason says why. A skipped record has no handle.
	Skipped       bool   `json:"skipped"`
	SkippedReason string `json:"skippedReason,omitempty"`
	// StartTimestamp and CompletionTimestamp bound the work, to the second; nil when not known.
	StartTimestamp      *metav1.Time `json:"startTimestamp,omitempty"`
	CompletionTimestamp *metav1.Time `json:"completionTimestamp,omitempty"`
	// Result is how the work ended; empty while it has not, and for a skipped volume.
	Result Result `json:"result,omitempty"`
	// Error says why Result is failed, empty when not known. The key is ours: Velero ignores it.
	Error string `json:"error,omitempty"`

	// At most one or two of these are set, as BackupMethod and SnapshotDataMoved say.
	CSISnapshotInfo          *CSISnapshotInfo          `json:"csiSnapshotInfo,omitempty"`
	SnapshotDataMovementInfo *SnapshotDataMovementInfo `json:"snapshotDataMovementInfo,omitempty"`
	NativeSnapshotInfo       *NativeSnapshotInfo       `json:"nativeSnapshotInfo,omitempty"`
	PVBInfo                  *PodVolumeInfo            `json:"pvbInfo,omitempty"`
	// PVInfo is what a restore has to give back to the persistent volume; nil when the volume was not known.
	PVInfo *PVInfo `json:"pvInfo,omitempty"`

	// Extra holds the keys this version does not know, as they were read. They are written back.
	Extra map[string]json.RawMessage `json:"-"`
}

// Volume returns what identifies the record's volume.
func (r BackupRecord) Volume() VolumeID {
	return VolumeID{Namespace: r.PVCNamespace, Claim: r.PVCName, ClaimUID: r.PVCUID, PV: r.PVName}
}

// Final reports whether nothing more is to come: the volume was skipped, or its work ended one way or the other.
func (r BackupRecord) Final() bool {
	return r.Skipped || r.Result == Succeeded || r.Result == Failed
}

// Handle returns the handle of the data that was backed up: of the moved copy if there is one, else of the snapshot. It
// returns the empty string when there is none or when it is not known.
func (r BackupRecord) Handle() string {
	var handle string
	switch {
	case r.SnapshotDataMovementInfo != nil:
		handle = r.SnapshotDataMovementInfo.SnapshotHandle
	case r.CSISnapshotInfo != nil:
		handle = r.CSISnapshotInfo.SnapshotHandle
	case r.NativeSnapshotInfo != nil:
		handle = r.NativeSnapshotInfo.SnapshotHandle
	case r.PVBInfo != nil:
		handle = r.PVBInfo.SnapshotHandle
	}
	if handle == Unknown {
		return ""
	}
	return handle
}

// Restorable returns nil when the volume can be restored from the record. Otherwise the error is [ErrNotRestorable] and
// names the volume and the reason: it was skipped, its work failed or has no final result, or it has no handle.
func (r BackupRecord) Restorable() error {
	switch {
	case r.Skipped:
		return fmt.Errorf("volume %s: %w: skipped: %s", r.Volume(), ErrNotRestorable, orUnknown(r.SkippedReason))
	case r.Result == Failed:
		return fmt.Errorf("volume %s: %w: failed: %s", r.Volume(), ErrNotRestorable, orUnknown(r.Error))
	case r.Result != Succeeded:
		return fmt.Errorf("volume %s: %w: no final result (%q)", r.Volume(), ErrNotRestorable, r.Result)
	case r.Handle() == "":
		return fmt.Errorf("volume %s: %w: no handle", r.Volume(), ErrNotRestorable)
	}
	return nil
}

// OperationID returns the identifier of the asynchronous operation that ends the record's work, empty when there is none.
func (r BackupRecord) OperationID() string {
	if r.SnapshotDataMovementInfo != nil && known(r.SnapshotDataMovementInfo.OperationID) {
		return r.SnapshotDataMovementInfo.OperationID
	}
	if r.CSISnapshotInfo != nil && known(r.CSISnapshotInfo.OperationID) {
		return r.CSISnapshotInfo.OperationID
	}
	return ""
}

func known(s string) bool { return s != "" && s != Unknown }

func orUnknown(s string) string {
	if s == "" {
		return "reason unknown"
	}
	return s
}
