package conformance

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// World is a cluster with a snapshot stack on it.
type World struct {
	// Client may do everything.
	Client dynamic.Interface
	// Driver is the name of the CSI driver that the stack runs. StorageClass is a class of it that binds at once.
	Driver, StorageClass string
	// Node is a node of the cluster, for classes that wait for the first consumer.
	Node string
	// SetScript tells the storage what to do with the snapshots of a claim "NAMESPACE/NAME" from now on.
	SetScript func(ctx context.Context, claim string, script backuptest.Script) error
	// Patience is how long a state is waited for. 0: two minutes.
	Patience time.Duration
}

var (
	snapshots      = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}
	contents       = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotcontents"}
	classes        = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotclasses"}
	groups         = schema.GroupVersionResource{Group: "groupsnapshot.storage.k8s.io", Version: "v1beta2", Resource: "volumegroupsnapshots"}
	groupContents  = schema.GroupVersionResource{Group: "groupsnapshot.storage.k8s.io", Version: "v1beta2", Resource: "volumegroupsnapshotcontents"}
	groupClasses   = schema.GroupVersionResource{Group: "groupsnapshot.storage.k8s.io", Version: "v1beta2", Resource: "volumegroupsnapshotclasses"}
	claims         = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	volumes        = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
	namespaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	events         = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	storageClasses = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
)

// sleep waits and reports whether ctx lives.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
