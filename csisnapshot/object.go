package csisnapshot

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Meta is the part of an object's metadata that the package uses.
type Meta struct {
	Namespace       string // empty for cluster-scoped objects
	Name            string
	UID             types.UID // empty on fakes that give none
	ResourceVersion string    // empty on fakes that give none
	Created         time.Time // zero if unknown
	Deleted         *time.Time
	Labels          map[string]string
	Annotations     map[string]string
	Finalizers      []string
}

// Terminating reports whether the object has a deletion time.
func (m Meta) Terminating() bool { return m.Deleted != nil }

// DeletionPolicy says what happens to the physical snapshot when its content is deleted.
type DeletionPolicy string

// The two policies of the API.
const (
	DeletionPolicyDelete DeletionPolicy = "Delete"
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// Snapshot is a VolumeSnapshot.
type Snapshot struct {
	Meta
	Claim         string  // spec.source.persistentVolumeClaimName; empty when made from a content
	SourceContent string  // spec.source.volumeSnapshotContentName; empty when made from a claim
	Class         *string // spec.volumeSnapshotClassName; nil takes the default class
	Status        *SnapshotStatus
}

// SnapshotStatus is the status of a VolumeSnapshot; nil until the snapshot-controller comes to it.
type SnapshotStatus struct {
	BoundContent *string
	CreationTime *time.Time
	ReadyToUse   *bool
	RestoreSize  *int64 // bytes
	Error        *StatusError
}

// StatusError is the error in a status. An old one may stand beside a success.
type StatusError struct {
	Time    *time.Time // when this text was first set
	Message *string
}

// text is the message, or a placeholder for an error without one; empty for nil.
func (e *StatusError) text() string {
	switch {
	case e == nil:
		return ""
	case e.Message == nil || strings.TrimSpace(*e.Message) == "":
		return "error without a message"
	default:
		return *e.Message
	}
}

// Content is a VolumeSnapshotContent.
type Content struct {
	Meta
	Snapshot       SnapshotRef // spec.volumeSnapshotRef
	Driver         string
	Class          *string
	DeletionPolicy DeletionPolicy
	VolumeHandle   *string // spec.source.volumeHandle
	SnapshotHandle *string // spec.source.snapshotHandle, of a content made by hand
	// SourceVolumeMode is spec.sourceVolumeMode, the mode of the volume that was cut; nil: the content does not say.
	SourceVolumeMode *corev1.PersistentVolumeMode
	Status           *ContentStatus
}

// SnapshotRef is a content's reference to its VolumeSnapshot.
type SnapshotRef struct {
	Namespace string
	Name      string
	UID       types.UID
}

// ContentStatus is the status of a VolumeSnapshotContent; nil until the driver's sidecar comes to it.
type ContentStatus struct {
	Handle       *string // snapshotHandle: non-empty once the snapshot is cut
	CreationTime *time.Time
	RestoreSize  *int64 // bytes
	ReadyToUse   *bool
	Error        *StatusError
}

// Handle is the handle of the physical snapshot, empty while there is none.
func (c *Content) Handle() string {
	if c == nil || c.Status == nil || c.Status.Handle == nil {
		return ""
	}
	return *c.Status.Handle
}

// Class is a VolumeSnapshotClass.
type Class struct {
	Meta
	Driver         string
	DeletionPolicy DeletionPolicy
	Parameters     map[string]string
}

// IsDefault reports whether the class is annotated as its driver's default.
func (c Class) IsDefault() bool {
	return c.Annotations["snapshot.storage.kubernetes.io/is-default-class"] == "true"
}

// ContentName is the name that the snapshot-controller gives to the content of the VolumeSnapshot with this UID.
func ContentName(uid types.UID) string { return "snapcontent-" + string(uid) }
