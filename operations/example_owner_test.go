package operations_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sheetanchor/sheetanchor/operations"
)

// Two replicas on one store: the one that looks on peeks, and forgets what it knew when it becomes the leader.
func ExampleMap_EvictAll() {
	ctx, backup := context.Background(), operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	store := operations.NewMemoryStore()
	var replicas []*operations.Map
	for range 2 {
		m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
		if err != nil {
			panic(err)
		}
		replicas = append(replicas, m)
	}
	leader, other := replicas[0], replicas[1]
	if other.Unfenced() {
		fmt.Println("a deposed leader could overwrite what the next one has written")
	}
	show := func(what string, rec operations.Record, err error) { fmt.Println(what, rec.Summary().Total, err) }
	rec, err := other.Get(ctx, backup) // remembered from now on
	show("other:", rec, err)
	rec, err = leader.Update(ctx, backup, func(l *operations.List) error {
		return l.Merge(operations.Operation{ID: "data", Action: "example.com/copy"})
	})
	show("leader:", rec, err)
	rec, err = other.Peek(ctx, backup)
	show("other, peeking:", rec, err)

	other.EvictAll() // in the callback of leader election, before the first step
	rec, err = other.Get(ctx, backup)
	show("other, as the leader:", rec, err)
	// Output:
	// other: 0 <nil>
	// leader: 1 <nil>
	// other, peeking: 1 <nil>
	// other, as the leader: 1 <nil>
}

// Changes that come often are put in memory, and written now and then; those that must not be lost are written at once.
func ExampleMap_UploadProgressAndPut() {
	ctx, backup := context.Background(), operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	progress := func(completed int64, put func(context.Context, operations.Record) (operations.Record, error)) error {
		rec, err := m.Get(ctx, backup)
		if err != nil {
			return err
		}
		op := operations.Operation{ID: "data", Action: "example.com/copy", Status: operations.Status{
			Phase: operations.PhaseInProgress, Completed: completed, Total: 100, Units: "MB",
		}}
		if err := errors.Join(rec.List.Merge(op), rec.List.Set(op)); err != nil {
			return err
		}
		_, err = put(ctx, rec)
		return err
	}
	stored := func() int64 {
		rec, err := m.Peek(ctx, backup)
		if err != nil {
			panic(err)
		}
		op, _ := rec.List.Get("data")
		return op.Status.Completed
	}
	fmt.Println(progress(10, m.UploadProgressAndPut), stored())
	fmt.Println(progress(20, m.Put), stored())
	fmt.Println(m.Upload(ctx, backup), stored())
	// Output:
	// <nil> 10
	// <nil> 10
	// <nil> 20
}

// Before the last steps: a record that should be there and is not was lost, and does not mean that nothing ran.
func ExampleRecord_Expect() {
	ctx, backup := context.Background(), operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	rec, err := m.Load(ctx, backup)
	if err != nil {
		panic(err)
	}
	attempted := 3 // status.backupItemOperationsAttempted
	fmt.Println(rec.Missing(), rec.Expect(0), errors.Is(rec.Expect(attempted), operations.ErrNotFound))
	// Output:
	// true <nil> true
}

// Velero's file of a backup's operations, read and written without a store: in a command line tool, say.
func ExampleForm_Decode() {
	key := operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	list, err := operations.NewList(
		operations.Operation{ID: "copy-1", Action: "example.com/copy", Status: operations.Status{Phase: operations.PhaseCompleted}},
		operations.Operation{ID: "copy-2", Action: "example.com/copy", Status: operations.Status{Phase: operations.PhaseFailed, Error: "no space"}},
	)
	if err != nil {
		panic(err)
	}
	data, err := operations.BackupForm.Encode(key, list)
	if err != nil {
		panic(err)
	}
	read, err := operations.BackupForm.Decode(key, data)
	fmt.Println(operations.BackupForm.FileName(key.Name), read.Summary().Failed, err)

	read, faults, err := operations.BackupForm.DecodeLenient(key, data[:len(data)-8]) // an upload that broke off
	fmt.Println(read.Len(), len(faults), err)

	key.UID = "77aa" // a backup that was made again under its old name
	_, err = operations.BackupForm.Decode(key, data)
	fmt.Println(errors.Is(err, operations.ErrForeignRecord))
	// Output:
	// backups/nightly/nightly-itemoperations.json.gz 1 <nil>
	// 2 1 <nil>
	// true
}
