package snapv6

import (
	"maps"
	"slices"
	"time"

	v1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func decodeMeta(m *metav1.ObjectMeta) csisnapshot.Meta {
	return csisnapshot.Meta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Created: m.CreationTimestamp.Time,
		Deleted: timeOf(m.DeletionTimestamp), Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations),
		Finalizers: slices.Clone(m.Finalizers),
	}
}

// encodeMeta is what a user may set.
func encodeMeta(m csisnapshot.Meta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations)}
}

func timeOf(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.Time)
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func valueOf(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// textOf is nil for an empty string.
func textOf(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func decodeError(e *v1.VolumeSnapshotError) *csisnapshot.StatusError {
	if e == nil {
		return nil
	}
	return &csisnapshot.StatusError{Time: timeOf(e.Time), Message: copyOf(e.Message)}
}

func decodeSnapshot(o *v1.VolumeSnapshot) csisnapshot.Snapshot {
	s := csisnapshot.Snapshot{
		Meta: decodeMeta(&o.ObjectMeta), Claim: valueOf(o.Spec.Source.PersistentVolumeClaimName),
		SourceContent: valueOf(o.Spec.Source.VolumeSnapshotContentName), Class: copyOf(o.Spec.VolumeSnapshotClassName),
	}
	if st := o.Status; st != nil {
		s.Status = &csisnapshot.SnapshotStatus{
			BoundContent: copyOf(st.BoundVolumeSnapshotContentName), CreationTime: timeOf(st.CreationTime),
			ReadyToUse: copyOf(st.ReadyToUse), Error: decodeError(st.Error),
		}
		if st.RestoreSize != nil {
			s.Status.RestoreSize = new(st.RestoreSize.Value())
		}
	}
	return s
}

func encodeSnapshot(s csisnapshot.Snapshot) (string, *v1.VolumeSnapshot) {
	o := &v1.VolumeSnapshot{ObjectMeta: encodeMeta(s.Meta)}
	o.Spec.VolumeSnapshotClassName = copyOf(s.Class)
	o.Spec.Source.PersistentVolumeClaimName = textOf(s.Claim)
	o.Spec.Source.VolumeSnapshotContentName = textOf(s.SourceContent)
	return s.Namespace, o
}

func decodeContent(o *v1.VolumeSnapshotContent) csisnapshot.Content {
	ref := o.Spec.VolumeSnapshotRef
	c := csisnapshot.Content{
		Meta: decodeMeta(&o.ObjectMeta), Snapshot: csisnapshot.SnapshotRef{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID},
		Driver: o.Spec.Driver, Class: copyOf(o.Spec.VolumeSnapshotClassName),
		DeletionPolicy: csisnapshot.DeletionPolicy(o.Spec.DeletionPolicy),
		VolumeHandle:   copyOf(o.Spec.Source.VolumeHandle), SnapshotHandle: copyOf(o.Spec.Source.SnapshotHandle),
		SourceVolumeMode: copyOf(o.Spec.SourceVolumeMode),
	}
	if st := o.Status; st != nil {
		c.Status = &csisnapshot.ContentStatus{
			Handle: copyOf(st.SnapshotHandle), RestoreSize: copyOf(st.RestoreSize), ReadyToUse: copyOf(st.ReadyToUse),
			Error: decodeError(st.Error),
		}
		if st.CreationTime != nil {
			c.Status.CreationTime = new(time.Unix(0, *st.CreationTime))
		}
	}
	return c
}

func encodeContent(c csisnapshot.Content) (string, *v1.VolumeSnapshotContent) {
	o := &v1.VolumeSnapshotContent{ObjectMeta: encodeMeta(c.Meta)}
	o.Spec.VolumeSnapshotRef = corev1.ObjectReference{
		APIVersion: v1.SchemeGroupVersion.String(), Kind: csisnapshot.KindSnapshot,
		Namespace: c.Snapshot.Namespace, Name: c.Snapshot.Name, UID: c.Snapshot.UID,
	}
	o.Spec.Driver = c.Driver
	o.Spec.VolumeSnapshotClassName = copyOf(c.Class)
	o.Spec.DeletionPolicy = v1.DeletionPolicy(c.DeletionPolicy)
	o.Spec.Source.VolumeHandle = copyOf(c.VolumeHandle)
	o.Spec.Source.SnapshotHandle = copyOf(c.SnapshotHandle)
	o.Spec.SourceVolumeMode = copyOf(c.SourceVolumeMode)
	return "", o
}

func decodeClass(o *v1.VolumeSnapshotClass) csisnapshot.Class {
	return csisnapshot.Class{
		Meta: decodeMeta(&o.ObjectMeta), Driver: o.Driver, DeletionPolicy: csisnapshot.DeletionPolicy(o.DeletionPolicy),
		Parameters: maps.Clone(o.Parameters),
	}
}

func encodeClass(c csisnapshot.Class) (string, *v1.VolumeSnapshotClass) {
	return "", &v1.VolumeSnapshotClass{
		ObjectMeta: encodeMeta(c.Meta), Driver: c.Driver, DeletionPolicy: v1.DeletionPolicy(c.DeletionPolicy),
		Parameters: maps.Clone(c.Parameters),
	}
}
