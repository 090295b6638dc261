package operations_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/sheetanchor/sheetanchor/operations"
)

// copies is an action: it knows how far its copies are and can stop them.
type copies struct {
	mu   sync.Mutex // protects done: actions are called from several goroutines
	done map[string]int64
}

func (c *copies) Progress(_ context.Context, id string) (operations.Progress, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done, ok := c.done[id]
	if !ok {
		return operations.Progress{}, operations.Permanent(errors.New("no such copy"))
	}
	c.done[id] = done + 50
	if done >= 100 {
		return operations.Progress{State: operations.StateCompleted, Completed: 100, Total: 100, Units: "MB"}, nil
	}
	return operations.Progress{State: operations.StateRunning, Completed: done, Total: 100, Units: "MB"}, nil
}

func (c *copies) Cancel(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.done, id)
	return nil
}

// A reconciler calls Step and comes back when it says so. Here a loop stands for the workqueue.
func ExamplePoller_Step() {
	ctx := context.Background()
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	key := operations.Key{Namespace: "app", Name: "nightly", UID: "5e1f"}
	_, err = m.Update(ctx, key, func(l *operations.List) error {
		return l.Merge(operations.Operation{ID: "data", Action: "example.com/copy"}, operations.Operation{ID: "lost", Action: "example.com/copy"})
	})
	if err != nil {
		panic(err)
	}

	actions := map[string]operations.Action{"example.com/copy": &copies{done: map[string]int64{"data": 0}}}
	poller, err := operations.NewPoller(m, actions, operations.PollerOptions{})
	if err != nil {
		panic(err)
	}
	for {
		res, err := poller.Step(ctx, key)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d running, %d completed, %d failed\n", res.Summary.Running, res.Summary.Completed, res.Summary.Failed)
		if res.Done {
			break
		}
		poller.Wake(key) // a controller comes back after res.RequeueAfter instead
	}
	sum, err := m.Complete(ctx, key)
	fmt.Println(sum.Total, err)
	// Output:
	// 1 running, 0 completed, 1 failed
	// 1 running, 0 completed, 1 failed
	// 0 running, 1 completed, 1 failed
	// 2 <nil>
}

// A record in a directory outlives the process, as Velero's file.
func ExampleNewFileStore() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := operations.NewFileStore(dir, operations.FileOptions{})
	if err != nil {
		panic(err)
	}
	key := operations.Key{Namespace: "app", Name: "nightly", UID: "5e1f"}
	for range 2 { // two processes, one after the other
		m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
		if err != nil {
			panic(err)
		}
		rec, err := m.Update(ctx, key, func(l *operations.List) error {
			return l.Merge(operations.Operation{ID: "data", Action: "example.com/copy"})
		})
		fmt.Println(rec.Summary().Total, err)
	}
	_, err = os.Stat(dir + "/" + operations.BackupForm.FileName(key.Name))
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// 1 <nil>
	// <nil>
}

// Get, change, put: a record that was overtaken is refused.
func ExampleMap_Put() {
	ctx := context.Background()
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.RestoreForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	key := operations.Key{Namespace: "app", Name: "restore-1", UID: "77aa"}
	mine, _ := m.Get(ctx, key)
	theirs, _ := m.Get(ctx, key)
	if err := errors.Join(mine.List.Add(operations.Operation{ID: "a", Action: "example.com/copy"}), theirs.List.Add(operations.Operation{ID: "b", Action: "example.com/copy"})); err != nil {
		panic(err)
	}
	_, err = m.Put(ctx, mine)
	fmt.Println(err)
	_, err = m.Put(ctx, theirs)
	fmt.Println(errors.Is(err, operations.ErrConflict))
	// Output:
	// <nil>
	// true
}

// A slot keeps any small document in a store.
func ExampleSlot() {
	ctx := context.Background()
	slot := operations.NewSlot(operations.NewMemoryStore(), "backups/nightly/checkpoint.json")
	data, err := slot.Load(ctx)
	fmt.Println(data == nil, err)
	err = slot.Save(ctx, []byte(`{"step":1}`))
	fmt.Println(err)
	data, err = slot.Load(ctx)
	fmt.Println(string(data), err)
	// Output:
	// true <nil>
	// <nil>
	// {"step":1} <nil>
}

// A list is a value: copies are independent.
func ExampleList() {
	var l operations.List
	if err := l.Add(operations.Operation{ID: "a", Action: "example.com/copy", Status: operations.Status{Phase: operations.PhaseFailed}}); err != nil {
		panic(err)
	}
	c := l
	err := c.Add(operations.Operation{ID: "a", Action: "example.com/copy"})
	fmt.Println(errors.Is(err, operations.ErrDuplicate))
	err = c.Merge(operations.Operation{ID: "a", Action: "example.com/copy"}, operations.Operation{ID: "b", Action: "example.com/copy"})
	fmt.Println(err, l.Len(), c.Len(), c.Summary().Failed)
	// Output:
	// true
	// <nil> 1 2 1
}

// A plugin starts its work and registers the operation. Registering it again, after a crash, changes nothing.
func ExampleList_Merge() {
	ctx := context.Background()
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	backup := operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	for range 2 {
		rec, err := m.Update(ctx, backup, func(l *operations.List) error {
			return l.Merge(operations.Operation{
				ID:       "copy-7731",        // what the action needs to find its work again
				Action:   "example.com/copy", // the name under which the poller has the action
				Resource: operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
			})
		})
		if err != nil {
			panic(err)
		}
		for op := range rec.List.All() {
			fmt.Println(op.ID, op.Resource.Namespace+"/"+op.Resource.Name, op.Status.Phase, rec.Summary().Running)
		}
	}
	// Output:
	// copy-7731 shop/data New 1
	// copy-7731 shop/data New 1
}

// batch is an action of a service that lists all its jobs in one request.
type batch struct {
	copies
	requests int
}

func (b *batch) ProgressMany(_ context.Context, ids []string) (map[string]operations.ProgressResult, error) {
	b.requests++
	jobs := map[string]operations.State{"job-1": operations.StateCompleted, "job-2": operations.StateFailed}
	out := map[string]operations.ProgressResult{}
	for _, id := range ids {
		state, ok := jobs[id]
		if !ok {
			out[id] = operations.ProgressResult{Err: operations.Permanent(errors.New("no such job"))}
			continue
		}
		out[id] = operations.ProgressResult{Progress: operations.Progress{State: state, Error: "out of space"}}
	}
	return out, nil
}

// One request answers for all operations of an action.
func ExampleManyAction() {
	ctx := context.Background()
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	key := operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	_, err = m.Update(ctx, key, func(l *operations.List) error {
		for _, id := range []string{"job-1", "job-2", "job-3"} {
			if err := l.Merge(operations.Operation{ID: id, Action: "example.com/batch"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	action := &batch{}
	poller, err := operations.NewPoller(m, map[string]operations.Action{"example.com/batch": action}, operations.PollerOptions{})
	if err != nil {
		panic(err)
	}
	sum, err := poller.Run(ctx, key)
	fmt.Println(sum.Completed, sum.Failed, err, action.requests)
	rec, err := m.Get(ctx, key)
	if err != nil {
		panic(err)
	}
	for _, op := range rec.List.Failures() {
		fmt.Println(op.ID, op.Status.Error)
	}
	// Output:
	// 1 2 <nil> 1
	// job-2 out of space
	// job-3 no such job
}
