package tracktest

import (
	"errors"
	"strings"
	"testing"
	"time"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/controller"
	"github.com/vmware-tanzu/velero/pkg/itemoperation"
	"github.com/vmware-tanzu/velero/pkg/itemoperationmap"
	"github.com/vmware-tanzu/velero/pkg/metrics"
	"github.com/vmware-tanzu/velero/pkg/persistence"
	velerostore "github.com/vmware-tanzu/velero/pkg/plugin/velero"
	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

const backupName = "nightly"

// server is a cluster with a backup in it, and what Velero's reconcilers need around them.
type server struct {
	cluster *backuptest.Cluster
	client  client.Client
	objects *velerotest.Objects
	manager velerotest.Manager
	ops     *itemoperationmap.BackupItemOperationsMap
	getter  persistence.ObjectBackupStoreGetter
}

func newServer(t *testing.T, phase velerov1.BackupPhase, action velerotest.Scripted) *server {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{Resources: velerotest.Kinds, Objects: namespaces()})
	c, err := velerotest.NewClient(cluster.Config())
	must(t, err)
	s := &server{
		cluster: cluster, client: c, objects: &velerotest.Objects{}, ops: itemoperationmap.NewBackupItemOperationsMap(),
		getter: persistence.NewObjectBackupStoreGetter(nil),
	}
	s.manager = velerotest.Manager{Objects: s.objects, Actions: map[string]biav2.BackupItemAction{velerotest.ActionName: action}}
	backup := velerotest.NewBackup(backupName)
	backup.Status.Phase, backup.Status.StartTimestamp = phase, new(metav1.Now())
	must(t, s.client.Create(t.Context(), backup))
	must(t, s.client.Create(t.Context(), velerotest.Location()))
	return s
}

// register puts one operation into Velero's map.
func (s *server) register(phase itemoperation.OperationPhase) {
	created := metav1.Now()
	s.ops.PutOperationsForBackup(&itemoperationmap.OperationsForBackup{Operations: []*itemoperation.BackupOperation{{
		Spec:   itemoperation.BackupOperationSpec{BackupName: backupName, BackupItemAction: velerotest.ActionName, OperationID: "op-1"},
		Status: itemoperation.OperationStatus{Phase: phase, Created: &created},
	}}}, backupName)
}

// follow is one pass of the reconciler that follows operations.
func (s *server) follow(t *testing.T) error {
	t.Helper()
	r := controller.NewBackupOperationsReconciler(velerotest.Logger(), s.client, 0, s.manager.New, s.getter, metrics.NewServerMetrics(), s.ops)
	_, err := r.Reconcile(t.Context(), request())
	return err
}

func request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: velerotest.Namespace, Name: backupName}}
}

func (s *server) backup(t *testing.T) *velerov1.Backup {
	t.Helper()
	b := &velerov1.Backup{}
	must(t, s.client.Get(t.Context(), request().NamespacedName, b))
	return b
}

// operation is the one operation as Velero's map or store has it.
func (s *server) operation(t *testing.T) *itemoperation.BackupOperation {
	t.Helper()
	store, err := s.objects.Store()
	must(t, err)
	ops, err := s.ops.GetOperationsForBackup(store, backupName)
	must(t, err)
	if len(ops.Operations) != 1 {
		t.Fatalf("Velero has %d operations, want 1", len(ops.Operations))
	}
	return ops.Operations[0]
}

func failing(string) (velerostore.OperationProgress, error) {
	return velerostore.OperationProgress{Completed: true, Err: "the storage is gone"}, nil
}

func running(string) (velerostore.OperationProgress, error) {
	return velerostore.OperationProgress{}, nil
}

func veleroA(t *testing.T) ending {
	t.Helper()
	s := newServer(t, velerov1.BackupPhaseWaitingForPluginOperations, velerotest.Scripted{OnProgress: failing})
	s.register(itemoperation.OperationPhaseInProgress)
	s.cluster.Fault(backuptest.Fault{Verb: "patch", Resource: "backups", Nth: 1, Times: 1, Code: 500})
	if err := s.follow(t); err == nil {
		t.Fatal("the first pass succeeded without its patch")
	}
	must(t, s.follow(t))
	status := s.backup(t).Status
	return ended(status.Phase == velerov1.BackupPhaseFinalizingPartiallyFailed, "%s, failed=%d, errors=%d", status.Phase, status.BackupItemOperationsFailed, status.Errors)
}

func veleroB(t *testing.T) ending {
	t.Helper()
	s := newServer(t, velerov1.BackupPhaseFinalizing, velerotest.Scripted{})
	s.objects.Fail = func(string) error { return errors.New("507 insufficient storage") }
	r := controller.NewBackupFinalizerReconciler(s.client, s.client, clock.RealClock{}, nil, s.manager.New, controller.NewBackupTracker(), s.getter, velerotest.Logger(), metrics.NewServerMetrics(), time.Second)
	_, err := r.Reconcile(t.Context(), request())
	return ended(s.backup(t).Status.Phase != velerov1.BackupPhaseCompleted, "%s in the cluster, nothing in the store (error returned: %v)", s.backup(t).Status.Phase, err != nil)
}

func veleroD(t *testing.T) ending {
	t.Helper()
	s := newServer(t, velerov1.BackupPhaseWaitingForPluginOperations, velerotest.Scripted{OnProgress: running})
	s.register(itemoperation.OperationPhaseInProgress)
	s.cluster.Fault(backuptest.Fault{Verb: "get", Resource: "backupstoragelocations", Nth: 1, Times: 1, Code: 503})
	if err := s.follow(t); err == nil {
		t.Fatal("the pass succeeded without its storage location")
	}
	status := s.backup(t).Status
	return ended(status.Phase == velerov1.BackupPhaseWaitingForPluginOperations, "%s, errors=%d, completion time: %v, reason %q", status.Phase, status.Errors, status.CompletionTimestamp != nil, status.FailureReason)
}

func veleroE(t *testing.T) ending {
	t.Helper()
	calls := 0
	s := newServer(t, velerov1.BackupPhaseWaitingForPluginOperations, velerotest.Scripted{OnProgress: func(string) (velerostore.OperationProgress, error) {
		if calls++; calls == 1 {
			return velerostore.OperationProgress{}, errors.New("connection refused")
		}
		return velerostore.OperationProgress{Completed: true}, nil
	}})
	s.register(itemoperation.OperationPhaseInProgress)
	must(t, s.follow(t))
	must(t, s.follow(t))
	op := s.operation(t)
	return ended(op.Status.Phase == itemoperation.OperationPhaseCompleted, "operation %s after %d call, backup %s", op.Status.Phase, calls, s.backup(t).Status.Phase)
}

// refused is what a cancel answers in scenario F.
const refused = "cancel refused"

func veleroF(t *testing.T) ending {
	t.Helper()
	cancels := 0
	s := newServer(t, velerov1.BackupPhaseWaitingForPluginOperations, velerotest.Scripted{OnProgress: running, OnCancel: func(string) error {
		cancels++
		return errors.New(refused)
	}})
	s.register(itemoperation.OperationPhaseInProgress)
	rest := time.NewTimer(velerotest.OperationTimeout() + time.Minute)
	<-rest.C
	must(t, s.follow(t))
	op := s.operation(t)
	told := strings.Contains(op.Status.Error, refused)
	return ended(told, "operation %s (%q) after %d cancel, whose error is told: %v", op.Status.Phase, op.Status.Error, cancels, told)
}

func veleroG(t *testing.T) ending {
	t.Helper()
	s := newServer(t, velerov1.BackupPhaseWaitingForPluginOperations, velerotest.Scripted{OnProgress: running})
	s.register("Paused")
	must(t, s.follow(t))
	status := s.backup(t).Status
	return ended(status.Phase == velerov1.BackupPhaseWaitingForPluginOperations, "%s at once, completed=%d, failed=%d", status.Phase, status.BackupItemOperationsCompleted, status.BackupItemOperationsFailed)
}
