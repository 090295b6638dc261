package driver

import "time"

// Volume is a volume that the driver holds.
type Volume struct {
	ID     string    // the volume handle
	Name   string    // the name of the CreateVolume call
	Claim  string    // "NAMESPACE/CLAIM"; empty if the caller did not say
	Bytes  int64     // the size
	Source string    // the handle of the snapshot it was restored from; empty for a blank volume
	Made   time.Time // when it was created
}

// Snapshot is a snapshot that the driver holds and whose cut is over.
type Snapshot struct {
	ID             string // the snapshot handle
	Name           string // the name of the CreateSnapshot call, such as "snapshot-UID"; GROUP/VOLUME for one of a group
	Claim          string // "NAMESPACE/CLAIM" of the volume; empty if not known
	Volume         string // the handle of the volume
	VolumeSnapshot string // "NAMESPACE/NAME"; empty if the caller did not say, and for one of a group
	Content        string // the name of the VolumeSnapshotContent; empty like VolumeSnapshot
	Group          string // the handle of the group it belongs to; empty for a single one
	Bytes          int64  // the size of the volume
	CutAt          time.Time
	Ready          bool
}

// Group is a group of snapshots.
type Group struct {
	ID      string   // the group snapshot handle
	Name    string   // the name of the CreateVolumeGroupSnapshot call
	Volumes []string // the handles of the source volumes, sorted
	Members []string // the handles of the snapshots in the order of Volumes; empty until all are cut
}
