// Package finalize runs the last steps of a backup or restore, once each, over restarts: hooks with an order, time limits,
// retries and policies, a checkpoint, a report, and Velero's file of results. It brings the hooks that backups and restores
// need.
//
// For a backup: [ThawPods], [ReleaseSnapshots], [UpdateItems], [RefuseOperations], [WriteVolumeInfo], [WriteResults]. For a
// restore: [RestorePVs], [WaitExecHooks], [ValidateVolumes], [RemoveTemporary], [MergeResults].
//
// A [Runner] is a step: [Runner.Step] runs what can run and returns; what has to wait says [Later] and is called again by
// a later step. [Runner.Run] loops over the step for programs without a work queue.
//
// # Guarantees
//
//   - Every hook ends, with success or with a named fault, in a time bounded by Options.MaxTotal and the timeouts of the
//     hooks, also when the store is down, a hook hangs or the clock is wrong.
//   - Hooks run after those they name in After, whatever became of those; independent ones run at the same time. A hook
//     that named one in Needs is skipped when that one has not succeeded.
//   - What has ended is in the checkpoint before anything that comes after it starts. A restart calls only hooks that have
//     not ended. A hook whose end was not recorded, for example because the process died, is called again: hooks must be
//     idempotent.
//   - The checkpoint is written when a hook starts the work, ends or fails, never for a hook that still waits.
//   - The hooks for restores wait as steps, each with a deadline of its own, write only with the UID or resourceVersion that
//     was read, and name each volume, pod and object that did not become what it should.
//   - A fault in one hook stops none that does not need it, and the report lists every hook.
//
// # Errors
//
// [New] returns [HookError] and [ErrInvalid]. [Runner.Step] returns the cause of its context's end, [ErrCheckpoint]
// while the checkpoint cannot be read or written, or [ErrInvalid] for a Runner that New did not make. Faults of hooks are never returned; they are in the [Report].
// [DecodeResults] returns [ErrMalformedResults] or [ErrTooLarge].
//
// # Concurrency
//
// A Runner is safe for concurrent use; its steps take turns. Two processes that run the same hooks at the same time are
// kept apart by the owner's lease and by the checkpoint's conditional writes, not by this package. A hook or document that
// ignores the end of its context is abandoned after the grace: it keeps its goroutine, holds no lock, and at most one
// such call exists for each hook and document.
package finalize
