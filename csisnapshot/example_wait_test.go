package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

var exampleOwner = csisnapshot.Owner{UID: "7d0c3a51-4f7e-4a52-9f0b-1c2d3e4f5a6b", Namespace: "backups", Name: "nightly"}

// exampleSnapshots is a cluster with two snapshots of the owner, one ready and one that no controller has seen.
func exampleSnapshots() (*backuptest.Cluster, csisnapshot.Client, []csisnapshot.Ref, error) {
	var (
		names    csisnapshot.Names
		builders []backuptest.Builder
		refs     []csisnapshot.Ref
	)
	for i, state := range []backuptest.SnapshotState{backuptest.SnapshotReady, backuptest.SnapshotCreated} {
		claim := backuptest.Claim{Namespace: "shop", Name: fmt.Sprintf("data-%d", i)}
		vs := names.NewSnapshot(exampleOwner, csisnapshot.ClaimRef{Namespace: "shop", Name: claim.Name, UID: claim.PVC().UID}, "")
		builders = append(builders, claim, backuptest.Snapshot{
			Namespace: "shop", Name: vs.Name, Claim: claim.Name, State: state, Labels: vs.Labels, Annotations: vs.Annotations,
		})
		refs = append(refs, vs.Ref())
	}
	cluster, err := backuptest.Start(backuptest.Options{Objects: backuptest.Objects(builders...)})
	if err != nil {
		return nil, nil, nil, err
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	return cluster, csisnapshot.NewDynamic(client), refs, err
}

func ExampleWaiter_Wait() {
	cluster, client, refs, err := exampleSnapshots()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	waiter, err := csisnapshot.NewWaiter(client, csisnapshot.WaitOptions{MaxWait: time.Second}, exampleOwner, csisnapshot.Names{}, []string{"shop"})
	if err != nil {
		panic(err)
	}
	targets := []csisnapshot.Target{{Ref: refs[0]}, {Ref: refs[1]}}
	for _, o := range waiter.Wait(context.Background(), targets, csisnapshot.StageReady) {
		switch e, ok := errors.AsType[*csisnapshot.WaitError](o.Err); {
		case ok:
			fmt.Println("not ready:", e.Category, "because of", e.Diagnosis)
		default:
			fmt.Println("ready:", o.Result.Ready, "with a handle:", o.Result.Handle != "")
		}
	}
	// Output:
	// ready: true with a handle: true
	// not ready: timed out because of NeverPickedUp
}

func ExampleJudge() {
	target := csisnapshot.Target{Ref: csisnapshot.Ref{Namespace: "shop", Name: "snap"}, UID: "uid-1"}
	meta := csisnapshot.Meta{Namespace: "shop", Name: "snap", UID: "uid-1"}
	content := &csisnapshot.Content{
		Meta: csisnapshot.Meta{Name: "snapcontent-uid-1"}, Snapshot: csisnapshot.SnapshotRef{UID: "uid-1"},
		Status: &csisnapshot.ContentStatus{Handle: new("snap-0a1b")},
	}
	s := csisnapshot.NewState(target)
	for _, look := range []csisnapshot.Look{
		{Snapshot: &csisnapshot.Snapshot{Meta: meta}},
		{Snapshot: &csisnapshot.Snapshot{Meta: meta}, Content: content}, // cut seconds before the snapshot's status says so
		{Snapshot: &csisnapshot.Snapshot{Meta: meta, Status: &csisnapshot.SnapshotStatus{ReadyToUse: new(true)}}},
		{}, // deleted
	} {
		s = csisnapshot.Judge(s, look)
		fmt.Println("cut:", s.Cut, "ready:", s.Ready, "end:", s.End)
	}
	// Output:
	// cut: false ready: false end: <nil>
	// cut: true ready: false end: <nil>
	// cut: true ready: true end: <nil>
	// cut: true ready: true end: <nil>
}

func ExampleAction() {
	cluster, client, refs, err := exampleSnapshots()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	action, err := csisnapshot.NewAction(client, csisnapshot.Names{}, csisnapshot.WaitOptions{})
	if err != nil {
		panic(err)
	}
	for _, ref := range refs {
		id := csisnapshot.OperationID(ref, time.Now())
		progress, err := action.Progress(context.Background(), id)
		fmt.Println(progress.State, progress.Completed, "of", progress.Total, err)
	}
	// Output:
	// Completed 1 of 1 <nil>
	// Running 0 of 1 <nil>
}
