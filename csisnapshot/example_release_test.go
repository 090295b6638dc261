package csisnapshot_test

import (
	"context"
	"fmt"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// Release lets go of the objects and keeps the physical snapshot; Destroy is the only way to lose it.
func ExampleSnapshotter_Release() {
	cluster, core, client, err := exampleCluster()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	ctx, stop := context.WithCancel(context.Background())
	storage := backuptest.NewDriver(backuptest.DriverOptions{})
	controller := backuptest.NewSnapshotController(client, storage, backuptest.ControllerOptions{})
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	snapshots, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{})
	if err != nil {
		panic(err)
	}
	plan, err := snapshots.Plan(ctx, "shop")
	if err != nil {
		panic(err)
	}
	owner := csisnapshot.Owner{UID: "1f0a", Namespace: "shop", Name: "nightly"}
	report, err := snapshots.Cut(ctx, owner, plan)
	if err != nil {
		panic(err)
	}
	for _, v := range report.Volumes {
		ref := csisnapshot.Ref{Namespace: v.Namespace, Name: v.Snapshot}
		remove := snapshots.Release
		if v.Claim == "wal" {
			remove = snapshots.Destroy
		}
		removed, err := remove(ctx, owner, ref)
		if err != nil {
			panic(err)
		}
		fmt.Println(v.Claim, "gone:", removed.Items[0].Gone)
	}
	fmt.Println("the storage holds", len(storage.Snapshots()), "snapshots")
	stop()
	fmt.Println(<-ended)
	// Output:
	// data gone: true
	// old gone: true
	// wal gone: true
	// the storage holds 2 snapshots
	// <nil>
}
