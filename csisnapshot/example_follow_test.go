package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
	"github.com/sheetanchor/sheetanchor/operations"
)

// What was cut becomes ready as an operation, which a poller follows while the backup goes on with other work.
func ExampleSnapshotter_Action() {
	ctx := context.Background()
	snapshots, _, _, refs, done := exampleBackup(ctx)
	defer done()
	ops, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	actions := map[string]operations.Action{csisnapshot.ActionName: snapshots.Action()}
	poller, err := operations.NewPoller(ops, actions, operations.PollerOptions{})
	if err != nil {
		panic(err)
	}
	backup := operations.Key{Namespace: exampleOwner.Namespace, Name: exampleOwner.Name, UID: exampleOwner.UID}
	for _, ref := range refs { // Register(ctx, backup, report.Operations()...) when the report of Cut is at hand
		op := operations.Operation{ID: csisnapshot.OperationID(ref, time.Now()), Action: csisnapshot.ActionName}
		if err := poller.Register(ctx, backup, op); err != nil {
			panic(err)
		}
	}
	sum, err := poller.Run(ctx, backup)
	fmt.Println(sum.Completed, "of", sum.Total, "are ready", err)
	// Output:
	// 3 of 3 are ready <nil>
}

// One request answers for all snapshots of a namespace. A cancel ends the wait; CSI cannot stop a snapshot.
func ExampleAction_ProgressMany() {
	cluster, client, refs, err := exampleSnapshots()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	action, err := csisnapshot.NewAction(client, csisnapshot.Names{}, csisnapshot.WaitOptions{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	var ids []string
	for _, ref := range refs {
		ids = append(ids, csisnapshot.OperationID(ref, time.Now()))
	}
	if err := action.Cancel(ctx, ids[1]); err != nil {
		panic(err)
	}
	answers, err := action.ProgressMany(ctx, ids)
	for _, id := range ids {
		fmt.Println(answers[id].Progress.State, answers[id].Err)
	}
	fmt.Println(err)
	// Output:
	// Completed <nil>
	// Canceled <nil>
	// <nil>
}

// Snapshots that the caller makes itself are waited for as they come. The watch is open before the first is made.
func ExampleWaiter_Add() {
	cluster, client, refs, err := exampleSnapshots()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	waiter, err := csisnapshot.NewWaiter(client, csisnapshot.WaitOptions{}, exampleOwner, csisnapshot.Names{}, []string{"shop"})
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- waiter.Run(context.Background()) }()
	<-waiter.Opened()

	ready := waiter.Add(csisnapshot.Target{Ref: refs[0], Driver: backuptest.DefaultDriver}, csisnapshot.StageReady)
	late := waiter.Add(csisnapshot.Target{Ref: refs[1], Driver: backuptest.DefaultDriver}, csisnapshot.StageReady)
	select {
	case <-ready.PickedUp(): // from here on another create does not wait behind this one
	case <-waiter.Stalled(backuptest.DefaultDriver):
		fmt.Println("the driver has made no progress for ten minutes")
	}
	<-ready.Freed() // its place under a limit of snapshots in flight
	<-ready.Done(csisnapshot.StageReady)
	result, err := ready.Outcome(csisnapshot.StageReady)
	fmt.Println("ready:", result.Ready, err)

	late.Drop() // it is of no use any more
	_, err = late.Wait(context.Background(), csisnapshot.StageReady)
	fmt.Println("canceled:", errors.Is(err, csisnapshot.ErrCanceled))
	waiter.Close()
	fmt.Println(<-ended)
	// Output:
	// ready: true <nil>
	// canceled: true
	// <nil>
}

// A progress bar and a count of what failed.
func ExampleObserver() {
	cluster, core, client, err := exampleCluster()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	ctx, stop := context.WithCancel(context.Background())
	controller := backuptest.NewSnapshotController(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ControllerOptions{})
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	var bar string
	snapshots, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{Observer: csisnapshot.Observer{
		Progress: func(p csisnapshot.Progress) { bar = fmt.Sprintf("%3.0f %% of %d volumes", 100*p.Done(), p.Volumes) },
	}})
	if err != nil {
		panic(err)
	}
	plan, err := snapshots.Plan(ctx, "shop")
	if err != nil {
		panic(err)
	}
	report, err := snapshots.Cut(ctx, exampleOwner, plan)
	if err != nil {
		panic(err)
	}
	fmt.Println(bar, "-", report.Failed(), "failed")
	stop()
	fmt.Println(<-ended)
	// Output:
	// 100 % of 3 volumes - 0 failed
	// <nil>
}

// unreachable freezes pods, and cannot thaw them: their node does not answer any more.
type unreachable struct{ podexec.Annotations }

func (unreachable) Exec(_ context.Context, pod csisnapshot.PodRef, hook csisnapshot.Hook) error {
	if hook.Command[1] == "--unfreeze" {
		return errors.New("node does not answer")
	}
	fmt.Println("exec in", pod, hook.Command)
	return nil
}

// A backup that is canceled thaws what its process before left frozen. Intents are what it is found by.
func ExampleSnapshotter_Thaw() {
	cluster, core, client, err := exampleCluster()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	ctx, stop := context.WithCancel(context.Background())
	controller := backuptest.NewSnapshotController(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ControllerOptions{})
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	store := operations.NewMemoryStore()
	process := func(quiescer csisnapshot.Quiescer) *csisnapshot.Snapshotter {
		snapshots, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{
			Quiescer: quiescer, Intents: operations.NewSlot(store, "backups/nightly/intents.json"),
		})
		if err != nil {
			panic(err)
		}
		return snapshots
	}
	before := process(unreachable{})
	plan, err := before.Plan(ctx, "shop")
	if err != nil {
		panic(err)
	}
	if _, err := before.Cut(ctx, exampleOwner, plan); err != nil {
		panic(err)
	}
	thawed, err := process(printer{}).Thaw(ctx, exampleOwner)
	for _, t := range thawed {
		fmt.Println(t.Pod, t.Outcome, t.Err)
	}
	fmt.Println(err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// exec in shop/db [fsfreeze --freeze /data]
	// exec in shop/db [fsfreeze --unfreeze /data]
	// shop/db thawed <nil>
	// <nil>
	// <nil>
}
