package backuptest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

// The answer to the first write is lost: a Slot finds out that its document is there.
func ExampleNewStore() {
	store := backuptest.NewStore(operations.NewMemoryStore())
	store.Fault(backuptest.StoreFault{Op: "write", Nth: 1, Action: backuptest.StoreLoseAnswer, Err: operations.ErrUnknownOutcome})

	slot := operations.NewSlot(store, "backups/nightly.json")
	fmt.Println(slot.Save(context.Background(), []byte("{}")))
	for _, call := range store.Calls() {
		fmt.Println(call.Op, call.Name, call.Err != nil)
	}
	// Output:
	// <nil>
	// read backups/nightly.json true
	// write backups/nightly.json true
	// read backups/nightly.json false
}

// A Quiescer for tests of csisnapshot: the hooks of every pod are called freeze and thaw, and the first thaw of db-0 fails.
func ExampleNewHooks() {
	hooks := backuptest.NewHooks(
		func(*corev1.Pod) (csisnapshot.PodHooks, error) {
			return csisnapshot.PodHooks{
				Pre:  []csisnapshot.Hook{{Name: "freeze", Command: []string{"fsfreeze", "-f", "/data"}}},
				Post: []csisnapshot.Hook{{Name: "thaw", Command: []string{"fsfreeze", "-u", "/data"}}},
			}, nil
		},
		func(pod csisnapshot.PodRef, hook csisnapshot.Hook) backuptest.HookCall {
			return backuptest.HookCall{Pod: pod.String(), Kind: backuptest.HookKind(hook.Name)}
		})
	hooks.Script(backuptest.HookCall{Pod: "shop/db-0", Kind: backuptest.HookThaw}, backuptest.HookScript{Errors: []error{errors.New("busy")}})

	var quiescer csisnapshot.Quiescer = hooks
	pod := csisnapshot.PodRef{Namespace: "shop", Name: "db-0"}
	for _, hook := range []string{"freeze", "thaw"} {
		if err := quiescer.Exec(context.Background(), pod, csisnapshot.Hook{Name: hook}); err != nil {
			fmt.Println(hook, err)
		}
	}
	fmt.Println(hooks.Frozen())
	fmt.Println(quiescer.Exec(context.Background(), pod, csisnapshot.Hook{Name: "thaw"}), hooks.ThawedOnce())
	fmt.Println(len(hooks.Runs()), "hooks,", len(hooks.Freezes()), "freeze, short:", hooks.FrozenAtMost(10*time.Second) == nil)
	// Output:
	// thaw busy
	// [shop/db-0]
	// <nil> <nil>
	// 3 hooks, 1 freeze, short: true
}
