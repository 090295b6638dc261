package backuptest

import (
	"context"
	"crypto/sha256"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// makeMembers creates the content and the snapshot of each member, and binds them.
func (r *controllerRun) makeMembers(ctx context.Context, group, content *unstructured.Unstructured) error {
	for _, m := range membersOf(content) {
		if err := r.makeMember(ctx, group, content, m); err != nil {
			return err
		}
	}
	return nil
}

func (r *controllerRun) makeMember(ctx context.Context, group, groupContent *unstructured.Unstructured, m member) error {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(string(group.GetUID())+m.volume)))
	content := newContent(contentSpec{
		Name: "snapcontent-" + sum, Namespace: group.GetNamespace(), Snapshot: "snapshot-" + sum, Driver: specString(groupContent, "spec", "driver"),
		Policy: policyOf(groupContent), VolumeHandle: m.volume,
	})
	unstructured.RemoveNestedField(content.Object, "spec", "volumeSnapshotClassName")
	content.SetAnnotations(map[string]string{groupHandleAnnotation: specString(groupContent, "status", "volumeGroupSnapshotHandle")})
	content, err := r.createOrGet(ctx, r.contents, content)
	if err != nil {
		return err
	}
	vs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": snapshotAPIVersion, "kind": "VolumeSnapshot",
		"spec": map[string]any{"source": map[string]any{"persistentVolumeClaimName": r.claimWithHandle(ctx, m.volume).Name}},
	}}
	vs.SetNamespace(group.GetNamespace())
	vs.SetName("snapshot-" + sum)
	vs.SetFinalizers([]string{inGroupFinalizer})
	vs.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: groupOwnerVersion, Kind: groupKind, Name: group.GetName(), UID: group.GetUID()}})
	if vs, err = r.createOrGet(ctx, r.snapshots, vs); err != nil {
		return err
	}
	if !isReserved(content) || specString(content, "spec", "volumeSnapshotRef", "uid") == "" {
		if content, err = r.patchObject(ctx, r.contents, content, "", func(*unstructured.Unstructured) map[string]any {
			return map[string]any{"spec": map[string]any{"volumeSnapshotRef": map[string]any{"uid": string(vs.GetUID())}}}
		}); err != nil {
			return err
		}
	}
	if boundContentName(vs) == "" {
		if vs, err = r.patchObject(ctx, r.snapshots, vs, "status", func(*unstructured.Unstructured) map[string]any {
			return map[string]any{"status": map[string]any{"boundVolumeSnapshotContentName": content.GetName()}}
		}); err != nil {
			return err
		}
	}
	if statusOf(content) != nil {
		return nil
	}
	// The real controller's own look at the new snapshot, which finds its content without status, is faster than the next write.
	if _, err = r.patchObject(ctx, r.snapshots, vs, "status", func(current *unstructured.Unstructured) map[string]any {
		if _, set := statusOf(current)["readyToUse"]; set {
			return nil
		}
		return map[string]any{"status": map[string]any{"readyToUse": false}}
	}); err != nil {
		return err
	}
	_, err = r.patchObject(ctx, r.contents, content, "status", func(current *unstructured.Unstructured) map[string]any {
		return statusPatch(statusOf(current), m.status(specString(groupContent, "status", "volumeGroupSnapshotHandle")))
	})
	return err
}

func (r *controllerRun) createOrGet(ctx context.Context, feed *objectFeed, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client := feed.in(object.GetNamespace())
	made, err := client.Create(ctx, object, metav1.CreateOptions{FieldManager: "snapshot-controller"})
	if apierrors.IsAlreadyExists(err) {
		made, err = client.Get(ctx, object.GetName(), metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	feed.see(made, false, false)
	return made, nil
}

// groupOf is the group that a snapshot is a member of, or "".
func groupOf(vs *unstructured.Unstructured) string {
	for _, owner := range vs.GetOwnerReferences() {
		if owner.Kind == groupKind {
			return owner.Name
		}
	}
	return ""
}
