package volumeinfo

import "encoding/json"

// CSISnapshotInfo describes a CSI snapshot. Size and ReadyToUse are nil when not known, which is not zero or false.
type CSISnapshotInfo struct {
	// SnapshotHandle is the storage's identifier of the snapshot; empty when there is none, [Unknown] when not known.
	SnapshotHandle string `json:"snapshotHandle"`
	// Size is the size in bytes of a volume restored from the snapshot.
	Size *int64 `json:"size,omitempty"`
	// Driver is the name of the CSI driver.
	Driver string `json:"driver"`
	// VSCName is the name of the VolumeSnapshotContent.
	VSCName string `json:"vscName"`
	// OperationID identifies the asynchronous operation that followed the snapshot.
	OperationID string `json:"operationID,omitempty"`
	// ReadyToUse is the snapshot's own readiness. It is read in any case and written as Velero 1.18 spells it.
	ReadyToUse *bool `json:"ReadyToUse"`
	// ContentVersion is the resourceVersion of the content that the handle, and the readiness of the same look, were read
	// from, empty when not known. A readiness that an operation brings later leaves it. The key is ours: Velero ignores it.
	ContentVersion string `json:"contentResourceVersion,omitempty"`
	// VolumeGroupSnapshotHandle is the handle of the group the snapshot was cut with; empty when there is none.
	VolumeGroupSnapshotHandle string `json:"volumeGroupSnapshotHandle,omitempty"`
	// Extra holds the keys this version does not know.
	Extra map[string]json.RawMessage `json:"-"`
}

// SnapshotDataMovementInfo describes the copy of a snapshot's data in other storage.
type SnapshotDataMovementInfo struct {
	// DataMover names the mover; empty means Velero's own.
	DataMover string `json:"dataMover"`
	// UploaderType is the mover's uploader, for example kopia.
	UploaderType string `json:"uploaderType"`
	// RetainedSnapshot names the local snapshot that was kept, if any.
	RetainedSnapshot string `json:"retainedSnapshot,omitempty"`
	// SnapshotHandle is the repository's identifier of the copy.
	SnapshotHandle string `json:"snapshotHandle"`
	// OperationID identifies the asynchronous operation that made the copy.
	OperationID string `json:"operationID"`
	// Size and IncrementalSize are in bytes; nil when not known.
	Size            *int64 `json:"size,omitempty"`
	IncrementalSize *int64 `json:"incrementalSize,omitempty"`
	// Phase is the data upload's phase. It is read in any case and written as Velero 1.18 spells it.
	Phase string `json:"Phase"`
	// Extra holds the keys this version does not know.
	Extra map[string]json.RawMessage `json:"-"`
}

// NativeSnapshotInfo describes a snapshot made by a cloud provider's plugin.
type NativeSnapshotInfo struct {
	// SnapshotHandle is the provider's identifier of the snapshot.
	SnapshotHandle string `json:"snapshotHandle"`
	// VolumeType, VolumeAZ and IOPS (a number in a string) are the provider's words for the volume.
	VolumeType string `json:"volumeType"`
	VolumeAZ   string `json:"volumeAZ"`
	IOPS       string `json:"iops"`
	// Phase is the native snapshot's phase. It is read in any case and written as Velero 1.18 spells it.
	Phase string `json:"Phase"`
	// Extra holds the keys this version does not know.
	Extra map[string]json.RawMessage `json:"-"`
}

// PodVolumeInfo describes a backup or restore of a volume's files through a pod.
type PodVolumeInfo struct {
	// SnapshotHandle is the repository's identifier of the files.
	SnapshotHandle string `json:"snapshotHandle,omitempty"`
	// Size and IncrementalSize are in bytes; nil when not known.
	Size            *int64 `json:"size,omitempty"`
	IncrementalSize *int64 `json:"incrementalSize,omitempty"`
	// UploaderType is the uploader, for example kopia.
	UploaderType string `json:"uploaderType"`
	// VolumeName is the name of the volume in the pod.
	VolumeName string `json:"volumeName"`
	// PodName and PodNamespace name the pod.
	PodName      string `json:"podName"`
	PodNamespace string `json:"podNamespace"`
	// NodeName is the node the pod ran on; empty in restore records.
	NodeName string `json:"nodeName,omitempty"`
	// Phase is the pod volume backup's phase. It is read in any case and written as Velero 1.18 spells it.
	Phase string `json:"Phase"`
	// Extra holds the keys this version does not know.
	Extra map[string]json.RawMessage `json:"-"`
}

// PVInfo is what is lost when a persistent volume is provisioned anew, for a restore to give back.
type PVInfo struct {
	// ReclaimPolicy is the persistent volume's; empty when not known.
	ReclaimPolicy string `json:"reclaimPolicy"`
	// Labels are the persistent volume's.
	Labels map[string]string `json:"labels"`
	// Extra holds the keys this version does not know.
	Extra map[string]json.RawMessage `json:"-"`
}
