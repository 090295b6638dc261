package backuptest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: a claim whose every patch is a conflict is tried again at the controller's pace, not in a loop that never rests.
func TestControllerConflictForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(
			backuptest.SnapshotClass{}, backuptest.Claim{Namespace: "app", Name: "data"},
		)})
		defer cluster.Fault(backuptest.Fault{Verb: "patch", Resource: "persistentvolumeclaims", Code: 409})()
		client, err := dynamic.NewForConfig(cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		controller := backuptest.NewSnapshotController(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ControllerOptions{})
		var running sync.WaitGroup
		running.Go(func() { _ = controller.Run(ctx) })
		snapshot := backuptest.Snapshot{Namespace: "app", Name: "s", Claim: "data", State: backuptest.SnapshotCreated}.VS()
		if _, err := client.Resource(snapshotsGVR).Namespace("app").Create(t.Context(), snapshot, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
		running.Wait()
		if got := cluster.Requests()["patch persistentvolumeclaims"]; got < 10 || got > 200 {
			t.Errorf("%d patches of the claim in a minute, want some tens", got)
		}
	})
}
