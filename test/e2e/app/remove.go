package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// Remove deletes the application and all that its backups left: at the driver, in the cluster, in its namespace. It returns
// when they are gone. Removing what is not there is no error.
func (a *App) Remove(ctx context.Context) error {
	if err := errors.Join(a.revoke(ctx), a.deleteContents(ctx), a.deletePhysical(ctx)); err != nil {
		return fmt.Errorf("remove %s: %w", a.Namespace, err)
	}
	namespaces := a.cluster.Core.CoreV1().Namespaces()
	if err := ignoreGone(namespaces.Delete(ctx, a.Namespace, metav1.DeleteOptions{})); err != nil {
		return fmt.Errorf("remove %s: %w", a.Namespace, err)
	}
	return await(ctx, "namespace "+a.Namespace+" is gone", func(ctx context.Context) (bool, error) {
		namespace, err := namespaces.Get(ctx, a.Namespace, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), ignoreGone(err)
		}
		if deleted := namespace.DeletionTimestamp; deleted != nil && time.Since(deleted.Time) > forgotten {
			err = a.touchForgotten(ctx)
		}
		return false, errors.Join(err, remains(namespace))
	})
}

// remains is an error that tells what a namespace that is deleted still holds, or nil if nothing is known to remain.
func remains(namespace *corev1.Namespace) error {
	var errs []error
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			errs = append(errs, errors.New(c.Message))
		}
	}
	return errors.Join(errs...)
}

// forgotten is how long a content is being deleted that the sidecar has most likely forgotten.
const forgotten = 5 * time.Second

// touchForgotten changes the contents that the sidecar may have forgotten: it often does when one is deleted while its snapshot is made,
// and looks at it again when it changes.
func (a *App) touchForgotten(ctx context.Context) error {
	contents, err := a.Contents(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range contents {
		if c.DeletionTimestamp == nil || time.Since(c.DeletionTimestamp.Time) <= forgotten {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"e2e.sheetanchor.io/touched":%q}}}`, time.Now().Format(time.RFC3339Nano))
		_, err := a.cluster.Snapshots.SnapshotV1().VolumeSnapshotContents().Patch(ctx, c.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		errs = append(errs, ignoreGone(err))
	}
	return errors.Join(errs...)
}

// Contents are the contents of snapshots in the namespace, also of snapshots that are gone.
func (a *App) Contents(ctx context.Context) ([]snapshotv1.VolumeSnapshotContent, error) {
	list, err := a.cluster.Snapshots.SnapshotV1().VolumeSnapshotContents().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list contents: %w", err)
	}
	var own []snapshotv1.VolumeSnapshotContent
	for i := range list.Items {
		if list.Items[i].Spec.VolumeSnapshotRef.Namespace == a.Namespace {
			own = append(own, list.Items[i])
		}
	}
	return own, nil
}

// Snapshots are the VolumeSnapshots in the namespace.
func (a *App) Snapshots(ctx context.Context) ([]snapshotv1.VolumeSnapshot, error) {
	list, err := a.cluster.Snapshots.SnapshotV1().VolumeSnapshots(a.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list snapshots in %s: %w", a.Namespace, err)
	}
	return list.Items, nil
}

// deleteContents deletes contents whose snapshots are gone, and takes the finalizers from those of a driver that nobody runs.
func (a *App) deleteContents(ctx context.Context) error {
	contents, err := a.Contents(ctx)
	if err != nil {
		return err
	}
	client := a.cluster.Snapshots.SnapshotV1().VolumeSnapshotContents()
	var errs []error
	for _, c := range contents {
		errs = append(errs, ignoreGone(client.Delete(ctx, c.Name, metav1.DeleteOptions{})))
		if c.Spec.Driver != stack.DriverName {
			_, err := client.Patch(ctx, c.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			errs = append(errs, ignoreGone(err))
		}
	}
	return errors.Join(errs...)
}

// deletePhysical deletes what the driver holds of the application's snapshots: whatever was released is nobody's now.
func (a *App) deletePhysical(ctx context.Context) error {
	held, err := a.cluster.Stack.Driver().Cuts(ctx, a.Pattern())
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(a.cluster.Stack.CSIEndpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("the driver's endpoint: %w", err)
	}
	defer func() { _ = conn.Close() }()
	client := csi.NewControllerClient(conn)
	var errs []error
	for _, cut := range held {
		if cut.Held {
			_, err := client.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: cut.ID})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
