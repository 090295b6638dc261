package finalize_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// A restored volume gets back the reclaim policy and the labels that the backup's record holds, in its new namespace.
func ExampleRestorePVs() {
	cluster, err := backuptest.Start(backuptest.Options{Objects: backuptest.Objects(backuptest.Claim{Namespace: "new", Name: "data", VolumeName: "pv-1"})})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	ctx := context.Background()

	records := []volumeinfo.BackupRecord{{
		PVCNamespace: "old", PVCName: "data", Result: volumeinfo.Succeeded, CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "snap-1"},
		PVInfo: &volumeinfo.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"team": "shop"}},
	}}
	volumes, err := finalize.RestoredVolumes(records, map[string]string{"old": "new"})
	if err != nil {
		fmt.Println(err)
		return
	}
	restore := finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{Concurrency: 20})
	validate := finalize.ValidateVolumes(core, volumes, restore.Name)
	runner, err := finalize.New([]finalize.Hook{restore, validate}, finalize.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := runner.Run(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	pv, err := core.CoreV1().PersistentVolumes().Get(ctx, "pv-1", metav1.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Errors(), pv.Spec.PersistentVolumeReclaimPolicy, pv.Labels)
	// Output: 0 Retain map[team:shop]
}

// The item function of a backup is called again for what operations have asked for, and told the phase.
func ExampleUpdateItems() {
	ctx := context.Background()
	ops, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	key := operations.Key{Namespace: "ops", Name: "nightly", UID: "uid-1"}
	_, err = ops.Update(ctx, key, func(l *operations.List) error {
		return l.Add(operations.Operation{
			ID: "op-1", Action: "example.dev/mover", Status: operations.Status{Phase: operations.PhaseCompleted},
			PostItems: []operations.ResourceID{{Resource: "persistentvolumeclaims", Namespace: "app", Name: "data"}},
		})
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	update := func(_ context.Context, item operations.ResourceID, phase string) ([]operations.Operation, error) {
		fmt.Println(phase, item.Namespace, item.Name)
		return nil, nil
	}
	items := finalize.UpdateItems(ops, key, update, finalize.UpdateOptions{})
	runner, err := finalize.New([]finalize.Hook{items, finalize.RefuseOperations(ops, key, items.Name)}, finalize.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := runner.Run(ctx)
	fmt.Println(report.Errors(), err)
	// Output:
	// Finalizing app data
	// 0 <nil>
}

// What the restore adds when it creates pods, whoever runs the hooks records; what nobody records is an error by the timeout.
func ExampleWaitExecHooks() {
	var tracker finalize.ExecTracker
	warm := finalize.ExecHook{Namespace: "app", Pod: "db-0", Container: "main", Name: "warm"}
	tracker.Add(warm)
	tracker.Record(warm, finalize.ExecExecuted, errors.New("exit code 1"))

	runner, err := finalize.New([]finalize.Hook{finalize.WaitExecHooks(&tracker, time.Minute)}, finalize.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := runner.Run(context.Background())
	fmt.Println(report.Results().Errors.Namespaces["app"], err)
	for _, r := range tracker.Records() { // for the restore's own status
		fmt.Println(r.Hook.Pod, r.Hook.Name, r.Err)
	}
	// Output:
	// [hook wait-exec-hooks: app/db-0: container main, hook warm: exit code 1] <nil>
	// db-0 warm exit code 1
}

// Objects that a restore needed on the way are found by the label that says whose they are.
func ExampleRemoveTemporary() {
	temporary := backuptest.Snapshot{Namespace: "app", Name: "tmp", Claim: "data", Labels: map[string]string{"example.dev/restore": "uid-1"}}.VS()
	temporary.SetFinalizers(nil)
	cluster, err := backuptest.Start(backuptest.Options{})
	if err == nil {
		err = cluster.Add(temporary)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	remove := finalize.RemoveTemporary(dynamic.NewForConfigOrDie(cluster.Config()), finalize.Temporary{
		Label: "example.dev/restore", Owner: "uid-1", Namespaces: []string{"app"}, Resources: snapshotResources,
	})
	runner, err := finalize.New([]finalize.Hook{remove}, finalize.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := runner.Run(context.Background())
	fmt.Println(report.Hooks[0].State, cluster.Requests()["delete volumesnapshots"], err)
	// Output: succeeded 1 <nil>
}

var snapshotResources = []schema.GroupVersionResource{snapshotResource("volumesnapshots")}
