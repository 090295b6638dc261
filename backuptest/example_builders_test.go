package backuptest_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func ExampleStatefulSet() {
	set := backuptest.StatefulSet{Namespace: "shop", Name: "db", Replicas: 2}
	for _, pod := range set.Pods() {
		fmt.Println(pod.Name, pod.Claims)
	}
	fmt.Println(len(set.Objects()), "objects")
	// Output:
	// db-0 [data-db-0]
	// db-1 [data-db-1]
	// 7 objects
}

// A test begins where the real controllers might have left things.
func ExampleSnapshot() {
	for _, s := range []backuptest.Snapshot{
		{State: backuptest.SnapshotCreated},
		{State: backuptest.SnapshotBeingCreated, Deleting: true},
		{State: backuptest.SnapshotCut, Error: "an old error, which stays until the snapshot is ready"},
		{Leftover: true},
	} {
		s.Namespace, s.Name, s.Claim = "shop", "nightly", "data"
		fmt.Println(kinds(s.Objects()))
	}
	// Output:
	// [VolumeSnapshot]
	// [VolumeSnapshot VolumeSnapshotContent]
	// [VolumeSnapshot VolumeSnapshotContent]
	// [VolumeSnapshotContent]
}

func kinds(objects []runtime.Object) (names []string) {
	for _, o := range objects {
		names = append(names, o.GetObjectKind().GroupVersionKind().Kind)
	}
	return names
}
