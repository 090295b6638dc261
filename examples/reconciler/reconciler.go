package reconciler

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var (
	backups   = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "backups"}
	snapshots = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}
)

// Reconciler brings a Backup of one claim from nothing to the phase Completed.
type Reconciler struct{ Client dynamic.Interface }

// Reconcile does what can be done now, and says when to come back: never, if after is zero.
func (r Reconciler) Reconcile(ctx context.Context, namespace, name string) (after time.Duration, err error) {
	backup, err := r.Client.Resource(backups).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	switch phase, _, _ := unstructured.NestedString(backup.Object, "status", "phase"); phase {
	case "Completed":
		return 0, nil
	case "":
		return time.Second, r.setPhase(ctx, backup, "InProgress")
	}
	snapshot, err := r.snapshot(ctx, backup)
	if err != nil {
		return 0, err
	}
	if ready, _, _ := unstructured.NestedBool(snapshot.Object, "status", "readyToUse"); !ready {
		return 5 * time.Second, nil
	}
	return 0, r.setPhase(ctx, backup, "Completed")
}

// snapshot is the backup's snapshot, which is made if it is not there. Its name follows from the backup's UID, so that a
// process that knows nothing of an earlier one finds what that has made.
func (r Reconciler) snapshot(ctx context.Context, backup *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client := r.Client.Resource(snapshots).Namespace(backup.GetNamespace())
	name := "backup-" + string(backup.GetUID())
	found, err := client.Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return found, err
	}
	claim, _, _ := unstructured.NestedString(backup.Object, "spec", "claim")
	return client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1",
		"kind":       "VolumeSnapshot",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"source": map[string]any{"persistentVolumeClaimName": claim}},
	}}, metav1.CreateOptions{})
}

func (r Reconciler) setPhase(ctx context.Context, backup *unstructured.Unstructured, phase string) error {
	if err := unstructured.SetNestedField(backup.Object, phase, "status", "phase"); err != nil {
		return err
	}
	_, err := r.Client.Resource(backups).Namespace(backup.GetNamespace()).UpdateStatus(ctx, backup, metav1.UpdateOptions{})
	return err
}
