package phase_test

import (
	"fmt"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// What a controller asks the table about the phase of an object, instead of comparing it with a list of its own.
func ExampleRestore() {
	m := phase.Restore[MyPhase]()
	fmt.Println("begins in", m.Initial())
	for _, p := range m.Phases() {
		fmt.Print(p, ": ", m.Class(p))
		for _, is := range []struct {
			what string
			yes  bool
		}{
			{"waits", m.IsWaiting(p)},
			{"last steps", m.IsFinalizing(p)},
			{"failing", m.IsFailing(p)},
			{"may be canceled", m.IsCancellable(p)},
			{"may be deleted", m.IsDeletable(p)},
		} {
			if is.yes {
				fmt.Print(", ", is.what)
			}
		}
		fmt.Println()
	}
	// Output:
	// begins in New
	// New: ready, may be canceled
	// InProgress: working, may be canceled
	// WaitingForPluginOperations: waiting, waits, may be canceled
	// WaitingForPluginOperationsPartiallyFailed: waiting, waits, failing, may be canceled
	// Finalizing: finalizing, last steps, may be canceled
	// FinalizingPartiallyFailed: finalizing, last steps, failing, may be canceled
	// Completed: terminal, may be deleted
	// Failed: terminal, failing, may be deleted
	// FailedValidation: terminal, failing, may be deleted
	// PartiallyFailed: terminal, failing, may be deleted
}

// Which ways there are to the end of a restore that a user can cancel.
func ExampleMachine_Transitions() {
	m := phase.CancellableRestore[MyPhase]()
	for _, t := range m.Transitions() {
		if m.IsFinalizing(t.From) && m.IsTerminal(t.To) {
			fmt.Println(t.From, t.Event, t.To)
		}
	}
	// Output:
	// Finalizing Canceled Canceled
	// Finalizing Completed Completed
	// Finalizing Failed Failed
	// Finalizing PartiallyFailed PartiallyFailed
	// FinalizingPartiallyFailed Canceled Canceled
	// FinalizingPartiallyFailed Failed Failed
	// FinalizingPartiallyFailed PartiallyFailed PartiallyFailed
}

// Velero's objects have one field for the reason of a failure.
func ExampleSplitReason() {
	reason, message := phase.Tally{Completed: 2, Failed: 1}.Cause()
	text := phase.JoinReason(reason, message) // status.failureReason
	fmt.Println(text)
	reason, message = phase.SplitReason(text)
	fmt.Printf("%q %q\n", reason, message)
	reason, message = phase.SplitReason("found a backup with status InProgress during the server starting")
	fmt.Printf("%q %q\n", reason, message)
	// Output:
	// OperationsFailed: of 3 operations 1 failed
	// "OperationsFailed" "of 3 operations 1 failed"
	// "" "found a backup with status InProgress during the server starting"
}

// How long an owner that is not heard of is left alone.
func ExampleHeartbeat() {
	renewed := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	beat := phase.Heartbeat{Renewed: renewed, ValidFor: 15 * time.Second}
	skew := 5 * time.Second // between the clocks of two nodes
	until := beat.Until(skew)
	fmt.Println(until.Sub(renewed), beat.Life(until.Add(-time.Second), skew), beat.Life(until.Add(time.Second), skew))
	// Output:
	// 20s live dead
}
