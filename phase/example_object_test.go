package phase_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// errLocked is what the user's database says when it is busy.
var errLocked = errors.New("the table is locked")

// row is an Object in a database: here one row, which is locked at first.
type row struct {
	state  phase.State[MyPhase]
	locked int
}

func (r *row) Get(context.Context) (phase.State[MyPhase], error) { return r.state, nil }

func (r *row) Update(_ context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	if r.locked--; r.locked >= 0 {
		return phase.State[MyPhase]{}, phase.TransientAfter(errLocked, time.Millisecond) // nothing was written
	}
	if r.state.Phase != old.Phase || r.state.Version != old.Version {
		return phase.State[MyPhase]{}, fmt.Errorf("%w: the row is in phase %q", phase.ErrConflict, r.state.Phase)
	}
	r.state = c.Result(r.state)
	r.state.Version += "+"
	return r.state, nil
}

// The phase of a backup may be in any place that can compare and swap: here a row of a table.
func ExampleObject() {
	ctx := context.Background()
	table := &row{state: phase.State[MyPhase]{Phase: phase.New, UID: "5e1f"}, locked: 1}
	backup, err := phase.NewApplier(phase.Backup[MyPhase](), table, phase.ApplierOptions[MyPhase]{Owner: "replica-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := table.Get(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	after, err := backup.Apply(ctx, state, phase.EventStart, "") // the lock has passed meanwhile
	fmt.Println(after.Phase, err)

	cut := phase.Change[MyPhase]{From: phase.New, To: phase.InProgress, At: time.Now()}
	_, err = table.Update(ctx, state, cut) // by somebody who has not heard of it
	fmt.Println(errors.Is(err, phase.ErrConflict))
	fmt.Println(cut.Result(state).Phase)
	// Output:
	// InProgress <nil>
	// true
	// InProgress
}

// What a store's error means is said by whoever knows the store.
func ExampleTransient() {
	for _, err := range []error{errLocked, phase.Transient(errLocked), phase.TransientAfter(errLocked, 30*time.Second)} {
		err = fmt.Errorf("update backups/nightly: %w", err)
		fmt.Println(phase.IsTransient(err), err)
	}
	// Output:
	// false update backups/nightly: the table is locked
	// true update backups/nightly: the table is locked
	// true update backups/nightly: the table is locked
}

// file is a Document in memory; operations.NewSlot makes one in any store.
type file struct{ data []byte }

func (f *file) Load(context.Context) ([]byte, error) { return f.data, nil }

func (f *file) Save(_ context.Context, data []byte) error { f.data = data; return nil }

// The record is written before the object. One that is ahead of it is what counts when a process starts again, and a late
// change of a process that was overtaken is seen not to follow.
func ExampleNewDocumentRecord() {
	ctx := context.Background()
	object, record := phase.NewMemory(phase.State[MyPhase]{UID: "5e1f"}), phase.NewDocumentRecord[MyPhase](&file{}, "5e1f")
	backup, err := phase.NewApplier(phase.Backup[MyPhase](), object, phase.ApplierOptions[MyPhase]{Owner: "replica-1", Record: record})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := backup.Load(ctx)
	if err == nil {
		state, err = backup.Apply(ctx, state, phase.EventStart, "")
	}
	if err == nil {
		_, err = backup.Apply(ctx, state, phase.EventWait, "")
	}
	stored, found, loadErr := record.Load(ctx)
	fmt.Println(stored.To, found, errors.Join(err, loadErr))

	changes := object.Changes()
	fmt.Println(changes[1].Follows(changes[0]), changes[0].Follows(stored))
	// Output:
	// WaitingForPluginOperations true <nil>
	// true false
}

// A program of which one process runs at a time takes over whatever it finds when it starts.
func ExampleSingleOwner() {
	object := phase.NewMemory(phase.State[MyPhase]{Phase: phase.WaitingForPluginOperations, Owner: "yesterday's pod"})
	backup, err := phase.NewApplier(phase.Backup[MyPhase](), object, phase.ApplierOptions[MyPhase]{Owner: "today's pod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := backup.Recover(context.Background(), phase.SingleOwner())
	fmt.Println(r.Mine, r.Action, r.Life, err)
	// Output: true resume dead <nil>
}
