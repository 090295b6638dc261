package volumeinfo

import (
	"encoding/json"

	"github.com/sheetanchor/sheetanchor/internal/gzipjson"
)

// The keys each type knows; what is not among them goes to Extra. A test holds them to the struct tags.
var (
	backupKeys = []string{
		"pvcName", "pvcNamespace", "pvcUID", "pvName", "backupMethod", "snapshotDataMoved", "preserveLocalSnapshot", "skipped",
		"skippedReason", "startTimestamp", "completionTimestamp", "result", "error", "csiSnapshotInfo",
		"snapshotDataMovementInfo", "nativeSnapshotInfo", "pvbInfo", "pvInfo",
	}
	restoreKeys = []string{
		"pvcName", "pvcNamespace", "pvcUID", "pvName", "restoreMethod", "snapshotDataMoved", "csiSnapshotInfo",
		"snapshotDataMovementInfo", "nativeSnapshotInfo", "pvrInfo",
	}
	csiKeys = []string{
		"snapshotHandle", "size", "driver", "vscName", "operationID", "ReadyToUse", "contentResourceVersion",
		"volumeGroupSnapshotHandle",
	}
	movementKeys = []string{
		"dataMover", "uploaderType", "retainedSnapshot", "snapshotHandle", "operationID", "size", "incrementalSize", "Phase",
	}
	nativeKeys    = []string{"snapshotHandle", "volumeType", "volumeAZ", "iops", "Phase"}
	podVolumeKeys = []string{
		"snapshotHandle", "size", "incrementalSize", "uploaderType", "volumeName", "podName", "podNamespace", "nodeName", "Phase",
	}
	pvKeys = []string{"reclaimPolicy", "labels"}
)

// read decodes object into plain, which has no methods, and returns the keys it does not know.
func read(object []byte, plain any, keys []string) (map[string]json.RawMessage, error) {
	if err := json.Unmarshal(object, plain); err != nil {
		return nil, err
	}
	return gzipjson.Unknown(object, keys)
}

// write encodes plain, which has no methods, and adds the keys it does not know.
func write(plain any, keys []string, extra map[string]json.RawMessage) ([]byte, error) {
	object, err := json.Marshal(plain)
	if err != nil {
		return nil, err
	}
	return gzipjson.Join(object, keys, extra)
}

// UnmarshalJSON implements [json.Unmarshaler]: keys match in any case, unknown ones go to Extra.
func (r *BackupRecord) UnmarshalJSON(object []byte) (err error) {
	type plain BackupRecord
	var p plain
	p.Extra, err = read(object, &p, backupKeys)
	*r = BackupRecord(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (r BackupRecord) MarshalJSON() ([]byte, error) {
	type plain BackupRecord
	return write(plain(r), backupKeys, r.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]: keys match in any case, unknown ones go to Extra.
func (r *RestoreRecord) UnmarshalJSON(object []byte) (err error) {
	type plain RestoreRecord
	var p plain
	p.Extra, err = read(object, &p, restoreKeys)
	*r = RestoreRecord(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (r RestoreRecord) MarshalJSON() ([]byte, error) {
	type plain RestoreRecord
	return write(plain(r), restoreKeys, r.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]: keys match in any case, unknown ones go to Extra.
func (r *CSISnapshotInfo) UnmarshalJSON(object []byte) (err error) {
	type plain CSISnapshotInfo
	var p plain
	p.Extra, err = read(object, &p, csiKeys)
	*r = CSISnapshotInfo(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (r CSISnapshotInfo) MarshalJSON() ([]byte, error) {
	type plain CSISnapshotInfo
	return write(plain(r), csiKeys, r.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]: keys match in any case, unknown ones go to Extra.
func (r *SnapshotDataMovementInfo) UnmarshalJSON(object []byte) (err error) {
	type plain SnapshotDataMovementInfo
	var p plain
	p.Extra, err = read(object, &p, movementKeys)
	*r = SnapshotDataMovementInfo(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (r SnapshotDataMovementInfo) MarshalJSON() ([]byte, error) {
	type plain SnapshotDataMovementInfo
	return write(plain(r), movementKeys, r.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]: keys match in any case, unknown ones go to Extra.
func (r *NativeSnapshotInfo) UnmarshalJSON(object []byte) (err error) {
	type plain NativeSnapshotInfo
	var p plain
	p.Extra, err = read(object, &p, nativeKeys)
	*r = NativeSnapshotInfo(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (r NativeSnapshotInfo) MarshalJSON() ([]byte, error) {
	type plain NativeSnapshotInfo
	return write(plain(r), nativeKeys, r.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]: keys match in any case, unknown ones go to Extra.
func (r *PodVolumeInfo) UnmarshalJSON(object []byte) (err error) {
	type plain PodVolumeInfo
	var p plain
	p.Extra, err = read(object, &p, podVolumeKeys)
	*r = PodVolumeInfo(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (r PodVolumeInfo) MarshalJSON() ([]byte, error) {
	type plain PodVolumeInfo
	return write(plain(r), podVolumeKeys, r.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]: keys match in any case, unknown ones go to Extra.
func (r *PVInfo) UnmarshalJSON(object []byte) (err error) {
	type plain PVInfo
	var p plain
	p.Extra, err = read(object, &p, pvKeys)
	*r = PVInfo(p)
	return err
}

// MarshalJSON implements [json.Marshaler]: Extra follows the known keys, sorted.
func (r PVInfo) MarshalJSON() ([]byte, error) {
	type plain PVInfo
	return write(plain(r), pvKeys, r.Extra)
}
