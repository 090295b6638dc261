package volumeinfo

import "encoding/json"

// RestoreRecord says what a restore did with one volume. It is one entry of Velero's
// restores/NAME/NAME-volumeinfo.json.gz. The zero value is valid and says nothing.
type RestoreRecord struct {
	// PVCName and PVCNamespace name the restored claim; empty for a volume without one.
	PVCName      string `json:"pvcName,omitempty"`
	PVCNamespace string `json:"pvcNamespace,omitempty"`
	// PVCUID is the restored claim's UID, empty when not known. The key is ours: Velero ignores it.
	PVCUID string `json:"pvcUID,omitempty"`
	// PVName names the restored persistent volume, empty while the claim is not bound.
	PVName string `json:"pvName,omitempty"`
	// RestoreMethod is empty when nothing was done with the volume.
	RestoreMethod Method `json:"restoreMethod,omitempty"`
	// SnapshotDataMoved reports whether the data came from a moved snapshot.
	SnapshotDataMoved bool `json:"snapshotDataMoved"`

	// At most one or two of these are set, as RestoreMethod and SnapshotDataMoved say.
	CSISnapshotInfo          *CSISnapshotInfo          `json:"csiSnapshotInfo,omitempty"`
	SnapshotDataMovementInfo *SnapshotDataMovementInfo `json:"snapshotDataMovementInfo,omitempty"`
	NativeSnapshotInfo       *NativeSnapshotInfo       `json:"nativeSnapshotInfo,omitempty"`
	PVRInfo                  *PodVolumeInfo            `json:"pvrInfo,omitempty"`

	// Extra holds the keys this version does not know, as they were read. They are written back.
	Extra map[string]json.RawMessage `json:"-"`
}

// Volume returns what identifies the record's volume.
func (r RestoreRecord) Volume() VolumeID {
	return VolumeID{Namespace: r.PVCNamespace, Claim: r.PVCName, ClaimUID: r.PVCUID, PV: r.PVName}
}
