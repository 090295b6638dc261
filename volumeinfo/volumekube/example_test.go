package volumekube_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
	"github.com/sheetanchor/sheetanchor/volumeinfo/volumekube"
)

// The records of a namespace's volumes, from what is in the cluster, and from the plan: it knows which claims were skipped.
func ExampleCollect() {
	objects := append(backedUp("data", "backup-uid"), backuptest.Claim{Namespace: "app", Name: "media", NFS: true}.Objects()...)
	cluster, err := backuptest.Start(backuptest.Options{Objects: append(objects, backuptest.SnapshotClass{}.Object())})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	ctx := context.Background()
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	snaps := csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(cluster.Config()))
	snapshots, err := csisnapshot.New(core, snaps, csisnapshot.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := snapshots.Plan(ctx, "app") // the one that was given to Cut
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := volumekube.Collect(ctx, core, snaps, volumekube.Options{
		Namespaces: []string{"app"}, Owner: "backup-uid", Skipped: plan.Skipped,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	records, gaps := volumeinfo.Build(found.Inputs)
	for _, r := range records {
		fmt.Printf("%v: %q, skipped: %q\n", r.Volume(), r.Result, r.SkippedReason)
	}
	fmt.Println(len(gaps), "gaps")
	// Output:
	// app/data: "succeeded", skipped: ""
	// app/media: "", skipped: "not CSI (nfs)"
	// 0 gaps
}
