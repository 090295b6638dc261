package backuptest_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func ExampleNewDriver() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	for range 2 { // as a controller that was restarted does
		if _, err := driver.CreateSnapshot(ctx, backuptest.CreateRequest{Name: "snapshot-1", VolumeHandle: "vol-app-data"}); err != nil {
			fmt.Println(err)
		}
	}
	for _, snapshot := range driver.Snapshots() {
		fmt.Println(snapshot.Name, "of", snapshot.VolumeHandle, "ready:", snapshot.ReadyToUse)
	}
	// Output:
	// snapshot-1 of vol-app-data ready: true
}

// A cluster with a controller takes a snapshot, after an error of the storage. In a testing/synctest bubble this needs no real time.
func ExampleNewSnapshotController() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster, err := backuptest.Start(backuptest.Options{Objects: backuptest.Objects(
		backuptest.Claim{Namespace: "app", Name: "data"},
		backuptest.SnapshotClass{},
	)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		fmt.Println(err)
		return
	}

	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	controller := backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{
		RetryStart: time.Millisecond,
		Scripts:    map[string]backuptest.Script{"app/data": {Errors: []backuptest.DriverError{{Code: "Internal", Text: "busy", Times: 2}}}},
	})
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = controller.Run(ctx) })

	snapshots := client.Resource(snapshotsGVR).Namespace("app")
	changes, err := snapshots.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer changes.Stop()
	snapshot := backuptest.Snapshot{Namespace: "app", Name: "nightly", Claim: "data", State: backuptest.SnapshotCreated}
	if _, err := snapshots.Create(ctx, snapshot.VS(), metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	for change := range changes.ResultChan() {
		if ready, _, _ := unstructured.NestedBool(change.Object.(*unstructured.Unstructured).Object, "status", "readyToUse"); ready {
			break
		}
	}
	fmt.Println("physical snapshots:", len(driver.Snapshots()), "of claim", driver.Snapshots()[0].Claim)
	// Output:
	// physical snapshots: 1 of claim app/data
}
