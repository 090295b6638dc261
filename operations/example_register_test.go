package operations_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sheetanchor/sheetanchor/operations"
)

// A plugin that has started work says so before it goes on. Then the poller follows it, also after a restart.
func ExamplePoller_Register() {
	ctx, backup := context.Background(), operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	actions := map[string]operations.Action{"example.com/copy": &copies{done: map[string]int64{"copy-7731": 100}}}
	poller, err := operations.NewPoller(m, actions, operations.PollerOptions{})
	if err != nil {
		panic(err)
	}
	started := operations.Operation{
		ID: "copy-7731", Action: "example.com/copy",
		Resource: operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
	}
	fmt.Println(poller.Register(ctx, backup, started))
	fmt.Println(poller.Register(ctx, backup, started)) // again, after a crash: it counts once
	started.ID, started.Action = "copy-7732", "example.com/typo"
	fmt.Println(poller.Register(ctx, backup, started))

	sum, err := poller.Run(ctx, backup)
	fmt.Println(sum.Completed, "of", sum.Total, err)
	// Output:
	// <nil>
	// <nil>
	// register operations of velero/nightly (5e1f): operation "copy-7732": unknown action "example.com/typo"
	// 1 of 1 <nil>
}

// A backup is deleted while its operations run: they are asked to stop, and nothing of it is kept in memory.
func ExamplePoller_Forget() {
	ctx, backup := context.Background(), operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	m, poller, _ := newUploads(ctx, backup, operations.PollerHooks{})
	if err := poller.Cancel(ctx, backup, "the backup is being deleted"); err != nil {
		panic(err)
	}
	if _, err := poller.Run(ctx, backup); err != nil { // bounded by the poller's CancelGrace
		panic(err)
	}
	fmt.Println(m.Remove(ctx, backup))
	poller.Forget(backup)
	m.Evict(backup)
	rec, err := m.Get(ctx, backup)
	fmt.Println(rec.Missing(), err)
	// Output:
	// <nil>
	// true <nil>
}

// An action tells trouble that passes from an answer that will not change: only the second ends the operation.
func ExamplePermanent() {
	status := map[int]error{503: errors.New("busy"), 404: operations.Permanent(errors.New("no such upload"))}
	for _, code := range []int{503, 404} {
		err := fmt.Errorf("upload 17: %w", status[code])
		fmt.Println(err, "- asked again:", !operations.IsPermanent(err))
	}
	// Output:
	// upload 17: busy - asked again: true
	// upload 17: no such upload - asked again: false
}
