package volumeinfo

import "time"

// Inputs is what a backup left behind, as plain data. Every slice may be empty and in any order, every optional field
// absent; nothing in it is changed.
type Inputs struct {
	// Owner is the UID of the backup. Snapshots of another owner are gaps. Empty: owners are not compared.
	Owner string
	// Claims are the claims the backup was to handle. Each gives a record.
	Claims []Claim
	// PVs are persistent volumes; those of no claim above are not looked at.
	PVs []PV
	// Snapshots are the backup's snapshots. Each goes into a record or a gap.
	Snapshots []Snapshot
	// Contents are snapshot contents; those of no snapshot above are not looked at.
	Contents []Content
	// Operations are the asynchronous operations that follow the snapshots. Each goes into a record or a gap.
	Operations []Operation
	// Skips are volumes left out on purpose. Each gives a record.
	Skips []Skip
	// Records are those the caller made for volumes it handled in other ways. They are taken as they are, and such a
	// volume gets no other record.
	Records []BackupRecord
}

// Claim is a PersistentVolumeClaim.
type Claim struct {
	Namespace, Name string
	UID             string
	PV              string // spec.volumeName, empty while unbound
}

// PV is a PersistentVolume.
type PV struct {
	Name           string
	ClaimNamespace string
	ClaimName      string
	ClaimUID       string
	Driver         string // of its CSI source, empty when it has none
	ReclaimPolicy  string
	Labels         map[string]string
}

// Snapshot is a VolumeSnapshot. A nil pointer is a field that is absent.
type Snapshot struct {
	Namespace, Name string
	UID             string
	OwnerUID        string
	Claim           *string // spec.source.persistentVolumeClaimName
	ClaimUID        string
	Content         *string // status.boundVolumeSnapshotContentName
	ReadyToUse      *bool
	RestoreSize     *int64
	CreationTime    *time.Time
	Error           string // status.error.message
}

// Content is a VolumeSnapshotContent. A nil pointer is a field that is absent.
type Content struct {
	Name        string
	SnapshotUID string // spec.volumeSnapshotRef.uid
	// ResourceVersion is the content's when its handle and readiness were read; empty when not known.
	ResourceVersion string
	Driver          string
	Handle          *string
	GroupHandle     *string
	ReadyToUse      *bool
	RestoreSize     *int64
	CreationTime    *time.Time
}

// Operation is an asynchronous operation on a snapshot.
type Operation struct {
	ID string
	// Namespace and Name are the snapshot's.
	Namespace, Name string
	// Result is empty while the operation runs.
	Result Result
	// Error is why it failed.
	Error string
	// Ended is when it ended, zero when not known.
	Ended time.Time
}

// Skip is a volume left out, by its claim, its persistent volume or both.
type Skip struct {
	Namespace, Claim string
	ClaimUID         string
	PV               string
	Reason           string
}
