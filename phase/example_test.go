package phase_test

import (
	"context"
	"errors"
	"fmt"

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
