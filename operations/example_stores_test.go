package operations_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sheetanchor/sheetanchor/operations"
)

// A bucket with object lock takes each object once: progress goes to another store.
func ExampleNewWriteOnceStore() {
	working, locked := operations.NewMemoryStore(), operations.NewMemoryStore()
	store, err := operations.NewWriteOnceStore(working, locked)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	key := operations.Key{Namespace: "app", Name: "nightly", UID: "3c1f"}
	file := operations.BackupForm.FileName(key.Name)
	_, err = m.Update(ctx, key, func(l *operations.List) error {
		return l.Add(operations.Operation{ID: "snapshot-1", Action: "csi", Status: operations.Status{Phase: operations.PhaseCompleted}})
	})
	_, _, missing := locked.Read(ctx, file)
	fmt.Println(err, errors.Is(missing, operations.ErrNotFound))

	sum, err := m.Complete(ctx, key)
	_, _, there := locked.Read(ctx, file)
	fmt.Println(sum.Completed, err, there)
	// Output:
	// <nil> true
	// 1 <nil> <nil>
}

// A progress bar needs no call of the store.
func ExampleMapHooks() {
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{
		Hooks: operations.MapHooks{Changed: func(_ context.Context, c operations.Change) {
			fmt.Printf("%s: %d of %d run\n", c.Key.Name, c.After.Running, c.After.Total)
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	key := operations.Key{Namespace: "app", Name: "nightly", UID: "3c1f"}
	for _, phase := range []operations.Phase{operations.PhaseInProgress, operations.PhaseCompleted} {
		_, err := m.Update(context.Background(), key, func(l *operations.List) error {
			o := operations.Operation{ID: "snapshot-1", Action: "csi", Status: operations.Status{Phase: phase}}
			return errors.Join(l.Merge(o), l.Set(o))
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// nightly: 1 of 1 run
	// nightly: 0 of 1 run
}

// A damaged record does not keep a backup waiting for ever: what can be read is read.
func ExampleMap_LoadLenient() {
	store := operations.NewMemoryStore()
	key := operations.Key{Namespace: "app", Name: "nightly", UID: "3c1f"}
	ctx := context.Background()
	if _, err := store.Write(ctx, operations.BackupForm.FileName(key.Name), []byte("not a gzip file"), ""); err != nil {
		fmt.Println(err)
		return
	}
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = m.Get(ctx, key)
	fmt.Println(errors.Is(err, operations.ErrMalformed))
	rec, faults, err := m.LoadLenient(ctx, key)
	fmt.Println(rec.List.Len(), len(faults), err)
	// Output:
	// true
	// 0 1 <nil>
}

// A sweeper removes the records of backups that ended long ago.
func ExampleMap_Remove() {
	store := operations.NewMemoryStore()
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	key := operations.Key{Namespace: "app", Name: "nightly", UID: "3c1f"}
	set := func(phase operations.Phase) {
		_, err := m.Update(ctx, key, func(l *operations.List) error {
			o := operations.Operation{ID: "snapshot-1", Action: "csi", Status: operations.Status{Phase: phase}}
			return errors.Join(l.Merge(o), l.Set(o))
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	set(operations.PhaseInProgress)
	fmt.Println(m.Remove(ctx, key))
	set(operations.PhaseFailed)
	fmt.Println(m.Remove(ctx, key))
	// Output:
	// operations of app/nightly (3c1f): 1 of 1 still running
	// <nil>
}
