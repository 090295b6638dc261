package compattest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/compattest"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// S11: a Velero plugin made of csisnapshot cuts a claim's snapshot, answers Velero's questions until it is ready, rides out an
// API error that Velero would take for the end, and cancels.
func TestPlugin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claims := []backuptest.Claim{{Namespace: "app", Name: "data"}, {Namespace: "app", Name: "logs"}}
		cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(claims[0], claims[1], backuptest.SnapshotClass{Default: true})})
		slow := backuptest.Script{CutAfter: 2 * time.Second, ReadyAfter: time.Minute}
		backuptest.RunSnapshots(t, cluster, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": slow, "logs": slow}})
		snaps := csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(cluster.Config()))
		snapshotter, err := csisnapshot.New(kubernetes.NewForConfigOrDie(cluster.Config()), snaps, csisnapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		action, err := csisnapshot.NewAction(snaps, csisnapshot.Names{}, csisnapshot.WaitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		running := make(chan error, 1)
		go func() { running <- action.Run(ctx) }()
		defer func() {
			end()
			if err := <-running; err != nil {
				t.Error(err)
			}
		}()
		var plugin biav2.BackupItemAction = &compattest.Plugin{Context: t.Context(), Snapshotter: snapshotter, Action: action}
		backup := velerotest.NewBackup("nightly")
		var ids []string
		for _, claim := range claims {
			item, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim.PVC())
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, _, id, update, err := plugin.Execute(&unstructured.Unstructured{Object: item}, backup)
			if err != nil || id == "" || len(update) != 1 || time.Since(start) != 2*time.Second {
				t.Fatalf("Execute of %s after %v = %q, %v, %v, want an operation after the cut's 2 s", claim.Name, time.Since(start), id, update, err)
			}
			ids = append(ids, id)
		}
		if ids[0] == ids[1] {
			t.Fatalf("both claims have the operation %s", ids[0])
		}
		cluster.Fault(backuptest.Fault{Resource: "volumesnapshots", Nth: 1, Times: 1, Code: 500})
		for range 2 { // the first meets the error
			if p, err := plugin.Progress(ids[0], backup); err != nil || p.Completed {
				t.Errorf("Progress before it is ready = %+v, %v, want it running", p, err)
			}
		}
		if err := plugin.Cancel(ids[1], backup); err != nil {
			t.Error(err)
		}
		if p, err := plugin.Progress(ids[1], backup); err != nil || !p.Completed || p.Err == "" {
			t.Errorf("Progress after Cancel = %+v, %v, want an end with an error", p, err)
		}
		time.Sleep(3 * time.Minute)
		if p, err := plugin.Progress(ids[0], backup); err != nil || !p.Completed || p.Err != "" {
			t.Errorf("Progress when it is ready = %+v, %v, want Completed", p, err)
		}
		if _, err := plugin.Progress("nonsense", backup); err == nil || err.Error() != biav2.InvalidOperationIDError("nonsense").Error() {
			t.Errorf("Progress of a bad ID = %v", err)
		}
		if _, _, id, _, err := plugin.Execute(&unstructured.Unstructured{Object: map[string]any{"spec": 1}}, backup); err == nil || id != "" {
			t.Errorf("Execute of no claim = %q, %v, want an error", id, err)
		}
	})
}
