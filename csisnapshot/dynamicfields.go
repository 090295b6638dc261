package csisnapshot

import (
	"encoding/json"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// fields is a JSON object whose values may be absent or of any type. Reading what is not there gives nil or zero.
type fields map[string]any

// in is the object under the key, nil if there is none.
func (f fields) in(key string) fields {
	m, ok := f[key].(map[string]any)
	if !ok {
		return nil
	}
	return m
}

func (f fields) text(key string) *string {
	s, ok := f[key].(string)
	if !ok {
		return nil
	}
	return &s
}

func (f fields) value(key string) string {
	s, _ := f[key].(string)
	return s
}

func (f fields) flag(key string) *bool {
	b, ok := f[key].(bool)
	if !ok {
		return nil
	}
	return &b
}

// number is an integer in any form that a JSON decoder may give it.
func (f fields) number(key string) *int64 {
	switch v := f[key].(type) {
	case int64:
		return &v
	case int:
		return new(int64(v))
	case float64:
		return new(int64(v))
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return &n
		}
	}
	return nil
}

// quantity is a size: a number or a string as "10Gi".
func (f fields) quantity(key string) *int64 {
	s, ok := f[key].(string)
	if !ok {
		return f.number(key)
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return nil
	}
	return new(q.Value())
}

func (f fields) time(key string) *time.Time {
	t, err := time.Parse(time.RFC3339, f.value(key))
	if err != nil {
		return nil
	}
	return &t
}

// nanos is a time as nanoseconds since 1970.
func (f fields) nanos(key string) *time.Time {
	n := f.number(key)
	if n == nil {
		return nil
	}
	return new(time.Unix(0, *n))
}

// set writes a value unless it is nil.
func set[T any](f fields, key string, value *T) {
	if value != nil {
		f[key] = *value
	}
}

func decodeMeta(u *unstructured.Unstructured) Meta {
	metadata := fields(u.Object).in("metadata")
	m := Meta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		Labels: metadata.texts("labels"), Annotations: metadata.texts("annotations"), Deleted: metadata.time("deletionTimestamp"),
	}
	if created := metadata.time("creationTimestamp"); created != nil {
		m.Created = *created
	}
	finalizers, _ := metadata["finalizers"].([]any)
	for _, f := range finalizers {
		if s, ok := f.(string); ok {
			m.Finalizers = append(m.Finalizers, s)
		}
	}
	return m
}

// texts is a map of strings; values of other types are left out.
func (f fields) texts(key string) map[string]string {
	object := f.in(key)
	if len(object) == 0 {
		return nil
	}
	all := make(map[string]string, len(object))
	for k, v := range object {
		switch v := v.(type) {
		case string:
			all[k] = v
		case bool:
			all[k] = strconv.FormatBool(v)
		}
	}
	return all
}

func decodeStatusError(f fields) *StatusError {
	if f == nil {
		return nil
	}
	return &StatusError{Time: f.time("time"), Message: f.text("message")}
}

func decodeSnapshot(m Meta, f fields) Snapshot {
	source, status := f.in("spec").in("source"), f.in("status")
	s := Snapshot{
		Meta: m, Claim: source.value("persistentVolumeClaimName"), SourceContent: source.value("volumeSnapshotContentName"),
		Class: f.in("spec").text("volumeSnapshotClassName"),
	}
	if status != nil {
		s.Status = &SnapshotStatus{
			BoundContent: status.text("boundVolumeSnapshotContentName"), CreationTime: status.time("creationTime"),
			ReadyToUse: status.flag("readyToUse"), RestoreSize: status.quantity("restoreSize"),
			Error: decodeStatusError(status.in("error")),
		}
	}
	return s
}

func encodeSnapshot(s Snapshot) (Meta, fields) {
	source := map[string]any{}
	if s.Claim != "" {
		source["persistentVolumeClaimName"] = s.Claim
	}
	if s.SourceContent != "" {
		source["volumeSnapshotContentName"] = s.SourceContent
	}
	spec := fields{"source": source}
	set(spec, "volumeSnapshotClassName", s.Class)
	return s.Meta, fields{"spec": map[string]any(spec)}
}

func decodeContent(m Meta, f fields) Content {
	spec, status := f.in("spec"), f.in("status")
	ref, source := spec.in("volumeSnapshotRef"), spec.in("source")
	c := Content{
		Meta: m, Driver: spec.value("driver"), Class: spec.text("volumeSnapshotClassName"),
		Snapshot:       SnapshotRef{Namespace: ref.value("namespace"), Name: ref.value("name"), UID: types.UID(ref.value("uid"))},
		DeletionPolicy: DeletionPolicy(spec.value("deletionPolicy")),
		VolumeHandle:   source.text("volumeHandle"), SnapshotHandle: source.text("snapshotHandle"),
	}
	if mode := spec.text("sourceVolumeMode"); mode != nil {
		c.SourceVolumeMode = new(corev1.PersistentVolumeMode(*mode))
	}
	if status != nil {
		c.Status = &ContentStatus{
			Handle: status.text("snapshotHandle"), CreationTime: status.nanos("creationTime"),
			RestoreSize: status.number("restoreSize"), ReadyToUse: status.flag("readyToUse"),
			Error: decodeStatusError(status.in("error")),
		}
	}
	return c
}

func encodeContent(c Content) (Meta, fields) {
	source := fields{}
	set(source, "volumeHandle", c.VolumeHandle)
	set(source, "snapshotHandle", c.SnapshotHandle)
	ref := fields{"kind": KindSnapshot, "apiVersion": snapshotGroup.String()}
	for key, value := range map[string]string{"namespace": c.Snapshot.Namespace, "name": c.Snapshot.Name, "uid": string(c.Snapshot.UID)} {
		if value != "" {
			ref[key] = value
		}
	}
	spec := fields{
		"volumeSnapshotRef": map[string]any(ref), "driver": c.Driver,
		"deletionPolicy": string(c.DeletionPolicy), "source": map[string]any(source),
	}
	set(spec, "volumeSnapshotClassName", c.Class)
	if c.SourceVolumeMode != nil {
		spec["sourceVolumeMode"] = string(*c.SourceVolumeMode)
	}
	return c.Meta, fields{"spec": map[string]any(spec)}
}

func decodeClass(m Meta, f fields) Class {
	return Class{Meta: m, Driver: f.value("driver"), DeletionPolicy: DeletionPolicy(f.value("deletionPolicy")), Parameters: f.texts("parameters")}
}

func encodeClass(c Class) (Meta, fields) {
	f := fields{"driver": c.Driver, "deletionPolicy": string(c.DeletionPolicy)}
	if len(c.Parameters) > 0 {
		parameters := map[string]any{}
		for k, v := range c.Parameters {
			parameters[k] = v
		}
		f["parameters"] = parameters
	}
	return c.Meta, f
}
