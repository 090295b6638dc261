package loadtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vmware-tanzu/velero/pkg/itemoperation"
	"github.com/vmware-tanzu/velero/pkg/itemoperationmap"
	"github.com/vmware-tanzu/velero/pkg/persistence"
	velerostore "github.com/vmware-tanzu/velero/pkg/plugin/velero"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// begun is when every operation here was registered.
var begun = time.Date(2026, 12, 1, 1, 2, 3, 0, time.UTC)

func keyOf(i int) operations.Key {
	return operations.Key{Namespace: velerotest.Namespace, Name: fmt.Sprintf("backup-%04d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))}
}

func operationID(i int) string {
	return fmt.Sprintf("app/velero-data-%05d-abcde/2026-12-01T01:02:03Z", i)
}

// postItems are the names of the snapshot and the content that Velero's action has it back up again at the end.
func postItems(i int) (snapshot, content string) {
	return fmt.Sprintf("velero-data-%05d-abcde", i), fmt.Sprintf("snapcontent-00000000-0000-4000-8000-%012d", i)
}

// veleroOperations are n operations of a backup as Velero keeps them.
func veleroOperations(key operations.Key, n int) *itemoperationmap.OperationsForBackup {
	ops := make([]*itemoperation.BackupOperation, 0, n)
	for i := range n {
		created := metav1.NewTime(begun)
		name, content := postItems(i)
		snapshot := velerostore.ResourceIdentifier{GroupResource: snapshotResource, Namespace: app, Name: name}
		ops = append(ops, &itemoperation.BackupOperation{
			Spec: itemoperation.BackupOperationSpec{
				BackupName: key.Name, BackupUID: string(key.UID), BackupItemAction: "velero.io/csi-volumesnapshot-backupper", OperationID: operationID(i),
				ResourceIdentifier: snapshot,
				PostOperationItems: []velerostore.ResourceIdentifier{snapshot, {GroupResource: contentResource, Name: content}},
			},
			Status: itemoperation.OperationStatus{Phase: itemoperation.OperationPhaseInProgress, Created: &created, Started: &created, Updated: &created, NTotal: int64(i), OperationUnits: "Bytes"},
		})
	}
	return &itemoperationmap.OperationsForBackup{Operations: ops, ChangesSinceUpdate: true}
}

var (
	snapshotResource = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}
	contentResource  = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}
)

// ourOperations are the same operations as ours.
func ourOperations(t *testing.T, n int) operations.List {
	t.Helper()
	ops := make([]operations.Operation, 0, n)
	for i := range n {
		name, content := postItems(i)
		snapshot := operations.ResourceID{Group: snapshotResource.Group, Resource: snapshotResource.Resource, Namespace: app, Name: name}
		created := begun
		ops = append(ops, operations.Operation{
			ID: operationID(i), Action: "velero.io/csi-volumesnapshot-backupper", Resource: snapshot,
			PostItems: []operations.ResourceID{snapshot, {Group: contentResource.Group, Resource: contentResource.Resource, Name: content}},
			Status:    operations.Status{Phase: operations.PhaseInProgress, Created: &created, Started: &created, Updated: &created, Total: int64(i), Units: "Bytes"},
		})
	}
	list, err := operations.NewList(ops...)
	must(t, err)
	return list
}

// slowStore is a store of ours with the latency of an object store.
type slowStore struct {
	operations.Store

	latency time.Duration
	// hang makes writes of that document wait for the context's end.
	hang string
}

func (s *slowStore) Read(ctx context.Context, name string) ([]byte, string, error) {
	if err := s.wait(ctx); err != nil {
		return nil, "", err
	}
	return s.Store.Read(ctx, name)
}

func (s *slowStore) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	if s.hang != "" && name == s.hang {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	if err := s.wait(ctx); err != nil {
		return "", err
	}
	return s.Store.Write(ctx, name, data, old)
}

func (s *slowStore) wait(ctx context.Context) error {
	if s.latency == 0 {
		return nil
	}
	timer := time.NewTimer(s.latency)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func newMap(t *testing.T, store *slowStore) *operations.Map {
	t.Helper()
	if store.Store == nil {
		store.Store = operations.NewMemoryStore()
	}
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	must(t, err)
	return m
}

// touch changes the first operation, so that there is something to write.
func touch(n int64) func(*operations.List) error {
	return func(l *operations.List) error {
		op, ok := l.Get(operationID(0))
		if !ok {
			return errors.New("the first operation is gone")
		}
		op.Status.Completed = n
		return l.Set(op)
	}
}

// veleroMap is Velero's map and its own store over objects.
type veleroMap struct {
	*itemoperationmap.BackupItemOperationsMap

	store persistence.BackupStore
}

func newVeleroMap(t *testing.T, objects *velerotest.Objects) veleroMap {
	t.Helper()
	store, err := objects.Store()
	must(t, err)
	return veleroMap{itemoperationmap.NewBackupItemOperationsMap(), store}
}

// upload changes the first operation and uploads, as Velero's reconciler does after each look at running operations.
func (m veleroMap) upload(name string, n int64) error {
	ops, err := m.GetOperationsForBackup(m.store, name)
	if err != nil {
		return err
	}
	ops.Operations[0].Status.NCompleted = n
	ops.ChangesSinceUpdate = true
	return m.UploadProgressAndPutOperationsForBackup(m.store, ops, name)
}
