package csisnapshot_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// A backup is deleted, but not before the volumes that were restored from it: some storage refuses that.
func ExampleSnapshotter_Remove() {
	ctx := context.Background()
	snapshots, core, storage, refs, done := exampleBackup(ctx)
	defer done()

	volumes := core.CoreV1().PersistentVolumes()
	restored := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "restored"}}
	if _, err := volumes.Create(ctx, restored, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	after := csisnapshot.AfterVolumes(core, map[csisnapshot.Ref][]string{refs[0]: {"restored"}})
	first, err := after(ctx, refs[0])
	fmt.Println("first:", first, err)
	if err := volumes.Delete(ctx, restored.Name, metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
	// While the volume is there Remove waits, and says ErrHeld in the end.
	options := csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyDelete, Before: after}
	removed, err := snapshots.Remove(ctx, exampleOwner, options, refs...)
	fmt.Println(len(removed.Items), "removed", err, "the storage holds", len(storage.Snapshots()))
	// Output:
	// first: PersistentVolume restored <nil>
	// 3 removed <nil> the storage holds 0
}

// Work that was canceled is cleaned up all the same, with a context that outlives it.
func ExampleCleanupContext() {
	snapshots, _, storage, _, done := exampleBackup(context.Background())
	defer done()
	ctx, cancel := context.WithCancel(context.Background()) // of the work
	cancel()                                                // the user gives up, or the process is told to end

	cleaning, stop := csisnapshot.CleanupContext(ctx, time.Minute)
	defer stop()
	swept, err := snapshots.Sweep(cleaning, exampleOwner.UID, csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyDelete})
	fmt.Println(len(swept.Items), "swept", err, "the storage holds", len(storage.Snapshots()))
	// Output:
	// 3 swept <nil> the storage holds 0
}

// Somebody else removes the snapshots, such as another process or whoever deletes the namespace: this one waits.
func ExampleSnapshotter_WaitGone() {
	ctx := context.Background()
	snapshots, _, _, refs, done := exampleBackup(ctx)
	defer done()
	released := make(chan error)
	go func() {
		_, err := snapshots.Release(ctx, exampleOwner, refs...)
		released <- err
	}()
	gone, err := snapshots.WaitGone(ctx, exampleOwner, refs...)
	for _, item := range gone.Items {
		fmt.Println("gone:", item.Gone)
	}
	fmt.Println(err, <-released)
	// Output:
	// gone: true
	// gone: true
	// gone: true
	// <nil> <nil>
}
