package phase_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// MyPhase is the string type of a user's own resource.
type MyPhase string

func ExampleMachine_Next() {
	m := phase.Backup[MyPhase]()
	to, err := m.Next(phase.New, phase.EventStart)
	fmt.Println(to, err)
	_, err = m.Next(phase.Completed, phase.EventStart)
	fmt.Println(err)
	// Output:
	// InProgress <nil>
	// illegal phase transition: event "Start" in phase "Completed", which is terminal
}

func ExampleMachine_Outcome() {
	m := phase.Backup[MyPhase]()
	ev, move, _ := m.Outcome(phase.InProgress, phase.Tally{Running: 2, Completed: 1})
	fmt.Println(ev, move)
	ev, move, _ = m.Outcome(phase.WaitingForPluginOperations, phase.Tally{Running: 1, Completed: 1, Failed: 1})
	fmt.Println(ev, move)
	ev, move, _ = m.Outcome(phase.WaitingForPluginOperationsPartiallyFailed, phase.Tally{Running: 1, Failed: 1})
	fmt.Println(ev, move)
	// Output:
	// Wait true
	// WaitPartiallyFailed true
	//  false
}

func ExampleMachine_Extend() {
	m, err := phase.Backup[MyPhase]().Extend(
		[]phase.Spec[MyPhase]{{Phase: phase.Queued, Class: phase.ClassReady}},
		[]phase.Transition[MyPhase]{
			{From: phase.New, Event: "Queue", To: phase.Queued},
			{From: phase.New, Event: phase.EventStart}, // removed: work is queued first
			{From: phase.Queued, Event: phase.EventStart, To: phase.InProgress},
		})
	fmt.Println(m == nil)
	fmt.Println(err)
	// Output:
	// true
	// bad phase table: phase "Queued", event "Cancel": the event must be legal in this ready phase
}

func ExampleNewMachine() {
	m, err := phase.NewMachine(
		[]phase.Spec[MyPhase]{
			{Phase: "Idle", Class: phase.ClassReady},
			{Phase: "Copying", Class: phase.ClassWorking},
			{Phase: "Tidying", Class: phase.ClassFinalizing},
			{Phase: "TidyingUp", Class: phase.ClassFinalizing, Failing: true},
			{Phase: "Done", Class: phase.ClassTerminal},
			{Phase: "Broken", Class: phase.ClassTerminal, Failing: true},
		},
		[]phase.Transition[MyPhase]{
			{From: "Idle", Event: phase.EventStart, To: "Copying"},
			{From: "Copying", Event: phase.EventFinalize, To: "Tidying"},
			{From: "Tidying", Event: phase.EventCompleted, To: "Done"},
			{From: "Tidying", Event: phase.EventPartiallyFailed, To: "Broken"},
			{From: "Tidying", Event: phase.EventFailed, To: "Broken"},
			{From: "Copying", Event: phase.EventFinalizePartiallyFailed, To: "TidyingUp"},
			{From: "TidyingUp", Event: phase.EventPartiallyFailed, To: "Broken"},
			{From: "TidyingUp", Event: phase.EventFailed, To: "Broken"},
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(m.Mermaid())
	// Output:
	// stateDiagram-v2
	//     [*] --> Idle
	//     Idle --> Copying: Start
	//     Copying --> Tidying: Finalize
	//     Copying --> TidyingUp: FinalizePartiallyFailed
	//     Tidying --> Broken: Failed, PartiallyFailed
	//     Tidying --> Done: Completed
	//     TidyingUp --> Broken: Failed, PartiallyFailed
	//     Broken --> [*]
	//     Done --> [*]
}

func ExampleApplier() {
	ctx := context.Background()
	object := phase.NewMemory(phase.State[MyPhase]{})
	backup, err := phase.NewApplier(phase.Backup[MyPhase](), object, phase.ApplierOptions[MyPhase]{
		Owner: "replica-1",
		Hooks: phase.Hooks[MyPhase]{Transition: func(_ context.Context, c phase.Change[MyPhase]) {
			fmt.Printf("%s -> %s %q\n", c.From, c.To, phase.JoinReason(c.Reason, c.Message))
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, _ := backup.Load(ctx)
	state, _ = backup.Apply(ctx, state, phase.EventStart, "")
	state, _ = backup.Advance(ctx, state, phase.Tally{Completed: 2, Failed: 1})
	_, _ = backup.Advance(ctx, state, phase.Tally{Completed: 2, Failed: 1})
	_, err = backup.Apply(ctx, state, phase.EventCancel, "too late")
	fmt.Println(errors.Is(err, phase.ErrConflict))
	// Output:
	// New -> InProgress ""
	// InProgress -> FinalizingPartiallyFailed "OperationsFailed: of 3 operations 1 failed"
	// FinalizingPartiallyFailed -> PartiallyFailed "OperationsFailed: of 3 operations 1 failed"
	// true
}

// Velero's queue as an extension: work is queued, told that its turn has come, and started then. A cancel is legal in the
// new phases too, or the table would be refused.
func ExampleMachine_Extend_queue() {
	m, err := phase.Backup[MyPhase]().Extend(
		[]phase.Spec[MyPhase]{
			{Phase: phase.Queued, Class: phase.ClassReady},
			{Phase: phase.ReadyToStart, Class: phase.ClassReady},
		},
		[]phase.Transition[MyPhase]{
			{From: phase.New, Event: phase.EventStart}, // removed: work is queued first
			{From: phase.New, Event: "Queue", To: phase.Queued},
			{From: phase.Queued, Event: "Ready", To: phase.ReadyToStart},
			{From: phase.ReadyToStart, Event: phase.EventStart, To: phase.InProgress},
			{From: phase.Queued, Event: phase.EventCancel, To: phase.Failed},
			{From: phase.ReadyToStart, Event: phase.EventCancel, To: phase.Failed},
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Legal(phase.New))
	fmt.Println(m.Next(phase.New, "Queue"))
	waiting := []MyPhase{phase.InProgress, phase.Queued, phase.Queued}
	fmt.Println("may be started:", m.Admit(slices.Values(waiting), 2))
	// Output:
	// [Cancel Fatal Invalid Queue]
	// Queued <nil>
	// may be started: 1
}

func ExampleCancellableBackup() {
	for _, m := range []*phase.Machine[MyPhase]{phase.Backup[MyPhase](), phase.CancellableBackup[MyPhase]()} {
		at := MyPhase(phase.InProgress)
		at, _ = m.Next(at, phase.EventCancel)
		fmt.Print(at)
		for !m.IsTerminal(at) { // nothing runs any more, and the last steps are done
			ev, _, _ := m.Outcome(at, phase.Tally{Cancel: true})
			at, _ = m.Next(at, ev)
			fmt.Print(" -> ", at)
		}
		fmt.Println()
	}
	// Output:
	// WaitingForPluginOperationsPartiallyFailed -> FinalizingPartiallyFailed -> Failed
	// WaitingForPluginOperationsPartiallyFailed -> FinalizingPartiallyFailed -> Canceled
}

// What a controller does with every object that it finds when it starts.
func ExampleApplier_Recover() {
	ctx := context.Background()
	objects := map[string]phase.Object[MyPhase]{ // phasekube.New for each that was listed
		"a": phase.NewMemory(phase.State[MyPhase]{}),
		"b": phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress, Owner: "replica-1"}),
		"c": phase.NewMemory(phase.State[MyPhase]{Phase: phase.WaitingForPluginOperations, Owner: "replica-2"}),
		"d": phase.NewMemory(phase.State[MyPhase]{Phase: phase.Completed, Owner: "replica-2"}),
	}
	leases := phase.LivenessFunc(func(_ context.Context, owner string) (phase.Heartbeat, error) { // phasekube has one
		return phase.Heartbeat{Renewed: time.Now(), ValidFor: time.Minute, Deposed: owner == "replica-2"}, nil
	})
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		work, err := phase.NewApplier(phase.Backup[MyPhase](), objects[name], phase.ApplierOptions[MyPhase]{Owner: "replica-3"})
		if err != nil {
			fmt.Println(err)
			return
		}
		r, err := work.Recover(ctx, leases)
		switch {
		case err != nil:
			fmt.Println(name, "try again:", err) // queue.AddRateLimited(name)
		case r.Mine:
			fmt.Println(name, r.State.Phase, r.Action) // queue.Add(name)
		case r.Action == phase.ActionLeave:
			fmt.Println(name, "is left to", r.Owner, r.Life) // queue.AddAfter(name, time.Until(r.Until))
		default:
			fmt.Println(name, "has ended")
		}
	}
	// Output:
	// a New start
	// b is left to replica-1 live
	// c WaitingForPluginOperations resume
	// d has ended
}

func ExampleMachine_Stuck() {
	began := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	state := phase.State[MyPhase]{Phase: phase.InProgress, Owner: "replica-1", Entered: began, Changed: began}
	limits := phase.Deadlines[MyPhase]{Phase: map[MyPhase]time.Duration{phase.InProgress: time.Hour}}
	m := phase.Backup[MyPhase]()
	fmt.Println(m.Stuck(state, limits, began.Add(59*time.Minute)))
	fmt.Println(m.Stuck(state, limits, began.Add(2*time.Hour)))
	fmt.Println("look at", m.Due(state, limits))
	// Output:
	// <nil>
	// stuck: phase "InProgress" for 2h0m0s, the limit is 1h0m0s; last change 2031-05-01T12:00:00Z; owner "replica-1", unknown
	// look at 2031-05-01 13:00:00 +0000 UTC
}

func ExampleMachine_Decide() {
	now := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	d, err := phase.Backup[MyPhase]().Decide(phase.Evidence[MyPhase]{
		State: phase.State[MyPhase]{Phase: phase.InProgress, Owner: "replica-1"},
		Kept:  true, // a record is kept, and it is ahead: the owner died between two writes
		Record: phase.Change[MyPhase]{
			From: phase.InProgress, To: phase.WaitingForPluginOperations, Owner: "replica-1", At: now.Add(-time.Hour),
		},
		Me: "replica-2", Heartbeat: phase.Heartbeat{Renewed: now.Add(-time.Hour), ValidFor: 15 * time.Second}, Now: now,
	})
	fmt.Println(d.Owner, "is", d.Life, "and the", d.Differs, "follows:", d.Action, "in", d.Phase, "after a take-over:", d.TakeOver, err)
	// Output:
	// replica-1 is dead and the object follows: resume in WaitingForPluginOperations after a take-over: true <nil>
}

func ExampleChange_Conditions() {
	c := phase.Change[MyPhase]{
		To: phase.PartiallyFailed, Reason: phase.ReasonItemErrors, Message: "2 errors of items and hooks", Class: phase.ClassTerminal, Failing: true,
	}
	for _, condition := range c.Conditions(7, nil) {
		fmt.Println(condition.Type, condition.Status, condition.Reason)
	}
	// Output:
	// Ready False ItemErrors
	// Reconciling False ItemErrors
	// Stalled True ItemErrors
	// Finished True ItemErrors
}
