// Package phase decides which phase of a backup, a restore or any other long piece of work comes next, and brings it to
// the place where everybody sees it.
//
// A [Machine] is an immutable table of phases, events and transitions. [Backup] and [Restore] are ready-made with Velero's
// names; [Machine.Extend] adds phases, and [NewMachine] makes one of your own. All are generic over your own string type.
// [Machine.Next] and [Machine.Outcome] are pure: the first says where an event leads, the second which event follows
// from the counts of what was recorded. Nothing else decides.
//
// [CancellableBackup] and [CancellableRestore] end a cancel in a phase of its own.
//
// An [Applier] applies events to an [Object]: to a custom resource or a ConfigMap with package phasekube, to memory with
// [NewMemory], to anything with compare-and-swap. A [Record] beside it keeps the last change durably.
//
// At start-up [Applier.Recover] decides, by [Machine.Decide], what becomes of each object that is found: its owner lives and it
// is left alone, or it is started, carried on, taken over or failed. [Deadlines] bound how long phases last, and every
// Load moves on what has passed one. [Change.Conditions] says the same to kubectl and kstatus, [Machine.Mermaid] to people.
//
// # Guarantees
//
// Of every machine, because NewMachine refuses all others:
//
//   - A failure is kept: from a failing phase no way leads to a success.
//   - Work that processed an item ends through a finalizing phase, also after a fatal error and a cancel.
//   - Terminal phases are never left, no phase is entered twice, and from each a terminal phase can be reached.
//   - A cancel is legal in every phase that is not terminal, or in none, and telling it twice is telling it once.
//   - The package's events lead where their names say: EventFinalize to a finalizing phase, and so on.
//
// Of every applied change:
//
//   - The object changes only from the expected phase; of any number of competing writers one wins, and the others get a
//     [*ConflictError] that names the winner.
//   - The record is written first. Whatever write fails, or gets no answer, the object is never ahead of the record, and
//     [Applier.Load] brings the two together. With competing owners this needs a Document whose Save is conditional; without,
//     the two may part for a moment, and Load still brings them together with no failure lost. The one exception is an object
//     that was ended with [ReasonStoreUnavailable], after ApplierOptions.MaxFinalize: the record follows it.
//   - A write without an answer is never repeated before the object is read; our own change found there is success.
//   - A terminal change has a completion time, and is observed once by the process that wrote it, if it lives: at the latest
//     by the first Load of the same Applier that reads the object.
//   - The reason of a cancel and of a fatal error is recorded with the phase and decides the outcome, so that no later
//     process needs to remember it. A failure has a reason always.
//
// Of ownership and time:
//
//   - Work of an owner that is not proved to be dead is not touched by Recover. Of any number of processes that find an orphan
//     one takes it over, and what its former owner decides after that is refused, in the object and in the record. Only
//     writes are fenced: end the context of a deposed owner before its lease ends.
//   - No decision rests on process memory: owner, times and reason are in the object or the record. An object that keeps none
//     of them (Velero's has no field for the owner and for when a phase began) needs a Record.
//   - A cancel ends the work within twice Deadlines.Grace, and a passed deadline within that time more, whatever the workers
//     do, if somebody calls Load: in the process that works, or in any other with the same Deadlines.
//
// # What is stored
//
// A record is JSON with a version; [NewDocumentRecord] says what is refused. Fields are only added, and their absence has a
// meaning: a record of an earlier release is resumed, and one of a newer form is [ErrInvalid] and left as it is.
//
// # Errors
//
// Categories are the Err… variables, to be asked for with errors.Is; [TableError], [IllegalTransitionError],
// [ConflictError] and [StuckError] carry the data. After any error of an Applier, call Load before anything else.
// [IsTransient] says that trying again later may help.
//
// # Concurrency
//
// Machines are immutable. An Applier starts no goroutine and may be used from many. Its calls
// wait with timers of package time and end with ctx, or after ApplierOptions.RetryFor.
package phase
