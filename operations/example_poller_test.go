package operations_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/sheetanchor/sheetanchor/operations"
)

// uploads is an action whose work is told from outside: what it is asked, it looks up.
type uploads struct {
	mu    sync.Mutex // protects state: actions are called from several goroutines
	state map[string]operations.State
}

func (u *uploads) set(id string, state operations.State) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state[id] = state
}

func (u *uploads) Progress(_ context.Context, id string) (operations.Progress, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := operations.Progress{State: u.state[id]}
	if p.State == operations.StateFailed {
		p.Error = "no space left"
	}
	return p, nil
}

// Cancel stops what runs. What has ended stays as it is: the first end wins.
func (u *uploads) Cancel(_ context.Context, id string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state[id] == operations.StateRunning {
		u.state[id] = operations.StateCanceled
	}
	return nil
}

// newUploads returns a map and a poller of an action "upload", with three operations that run: two are parts of the
// first.
func newUploads(ctx context.Context, key operations.Key, hooks operations.PollerHooks) (*operations.Map, *operations.Poller, *uploads) {
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	action := &uploads{state: map[string]operations.State{}}
	poller, err := operations.NewPoller(m, map[string]operations.Action{"upload": action}, operations.PollerOptions{Hooks: hooks})
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"all", "part-1", "part-2"} {
		action.set(id, operations.StateRunning)
	}
	err = poller.Register(ctx, key,
		operations.Operation{ID: "all", Action: "upload"},
		operations.Operation{ID: "part-1", Action: "upload", Parent: "all"},
		operations.Operation{ID: "part-2", Action: "upload", Parent: "all"})
	if err != nil {
		panic(err)
	}
	return m, poller, action
}

func printOperations(ctx context.Context, m *operations.Map, key operations.Key) {
	rec, err := m.Get(ctx, key)
	if err != nil {
		panic(err)
	}
	for op := range rec.List.All() {
		fmt.Println(strings.TrimSpace(fmt.Sprint(op.ID, " ", op.Status.Phase, " ", op.Status.Error)))
	}
}

// When a parent fails, its parts that still run are asked to stop; one that has ended keeps its result.
func ExampleOperation_cascade() {
	ctx, key := context.Background(), operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	m, poller, action := newUploads(ctx, key, operations.PollerHooks{})
	action.set("part-1", operations.StateCompleted)
	if _, err := poller.Step(ctx, key); err != nil {
		panic(err)
	}
	action.set("all", operations.StateFailed)
	poller.Wake(key) // something told us; otherwise the next Step would come in a second
	sum, err := poller.Run(ctx, key)
	fmt.Println(sum.Completed, sum.Failed, sum.Canceled, err)
	printOperations(ctx, m, key)
	// Output:
	// 1 1 1 <nil>
	// all Failed no space left
	// part-1 Completed
	// part-2 Canceled its parent "all" ended as Failed
}

// A user gives up. What ended before the request arrived keeps its result.
func ExamplePoller_Cancel() {
	ctx, key := context.Background(), operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	m, poller, action := newUploads(ctx, key, operations.PollerHooks{})
	action.set("part-2", operations.StateCompleted)
	if err := poller.Cancel(ctx, key, "the backup is being deleted"); err != nil {
		panic(err)
	}
	if _, err := poller.Run(ctx, key); err != nil {
		panic(err)
	}
	printOperations(ctx, m, key)
	// Output:
	// all Canceled the backup is being deleted
	// part-1 Canceled the backup is being deleted
	// part-2 Completed
}

// Hooks feed metrics: a counter and a histogram of calls, gauges of what runs and what stalls, a counter of ends.
func ExamplePollerHooks() {
	calls, ends, running := map[string]int{}, map[operations.Phase]int{}, 0
	hooks := operations.PollerHooks{
		Called: func(_ context.Context, _ operations.Key, c operations.Call) {
			calls[fmt.Sprintf("%s/%s failed=%t", c.Action, c.Method, c.Err != nil)]++ // and observe c.Duration
		},
		Changed: func(_ context.Context, _ operations.Key, op operations.Operation) {
			if op.Status.Phase.IsTerminal() {
				ends[op.Status.Phase]++
			}
		},
		Stepped: func(_ context.Context, _ operations.Key, res operations.Result, _ error) {
			running = res.Summary.Running // and len(res.Stalled), len(res.Notes)
		},
	}
	ctx, key := context.Background(), operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	_, poller, action := newUploads(ctx, key, hooks)
	action.set("part-1", operations.StateCompleted)
	if _, err := poller.Step(ctx, key); err != nil {
		panic(err)
	}
	fmt.Println(calls, ends, running)
	// Output:
	// map[upload/Progress failed=false:3] map[Completed:1] 2
}
