// Package operations keeps what is still running for a backup or restore, and its record in a store, and asks for
// progress until all of it has ended. It is plain data and small interfaces: no Kubernetes client is linked.
//
//   - An [Operation] is one piece of asynchronous work; a [List] holds those of one backup or restore.
//   - A [Map] holds the lists of many, each under the [Key] of its owner, and keeps them in a [Store] as Velero's files.
//   - A [Poller] asks an [Action] how far each operation is, until none runs any more. It is a step that a reconciler
//     calls, or a loop over it.
//   - A [Slot] is one more document in the same store, for checkpoints and results.
//
// # Guarantees of a Map
//
// For one key every call is one step with respect to every other. Get returns the last committed state and waits for
// nothing, unless the key has to be loaded first. Every other call takes the key's turn; waiting for it honours the
// context. No lock is held while the store is called. Keys never wait for each other: a store that hangs on one delays
// no other.
//
// Records are values. A change of one copy is seen by nobody else. A record carries the version it was read at: putting
// one that was overtaken is a conflict, never a lost update. [Map.Update] is the atomic way to read, change and store.
//
// When a write fails, the map stays as it was and the error is returned. When it gets no answer, the error is
// [ErrUnknownOutcome] and the next change of the key reads the store first: our document there was the answer, the old
// one means that nothing was written, and any other is a conflict. Every later change returns it too,
// until the key is loaded, with [Map.Load], or confirmed, which [Map.Complete] and the [Poller] do by themselves. A write
// of ours that arrives after it was found missing is overwritten, as one that never happened.
//
// Writes are conditional on what was read. A process that has lost its ownership gets a conflict and overwrites
// nothing. It must not trust what it read before when it gains ownership again: [Map.EvictAll]. On a store that cannot
// write conditionally this does not hold: [Map.Unfenced].
//
// A hook of the map is told of each change, so that progress can be shown without reading the store: [MapHooks].
//
// [Map.Complete] and the [Poller] do not stop at what the map remembers: they read the store before they say that
// nothing runs, and take over what another process wrote there, so that no conflict and no old answer holds them up.
// What was put and is not stored stays on top of it where the other process changed nothing; of two changes the stored
// one counts, unless only the other is an end. An operation that has ended in the store stays as it ended. A document
// that was there and is gone is a conflict, not an empty list.
//
// A record whose owner has ended long ago can be removed: [Map.Remove].
//
// A document of an owner of another UID is [ErrForeignRecord], and one that cannot be read is [ErrMalformed]; neither
// is ever overwritten; [Map.LoadLenient] returns what can be read of a damaged one. Because Velero's file names hold only
// the owner's name, one store belongs to one namespace.
//
// # Stores
//
// A [Store] keeps whole documents and says which conditions it checks. Here are one in memory, one in a directory
// ([FileStore]), and one made of two for places where nothing may be written twice ([WriteOnceStore]); package
// configmapstore keeps documents in ConfigMaps. Any bucket with conditional puts fits: If-None-Match to create, If-Match to
// replace, the ETag as version. Package operationstest checks a store, wherever it is.
//
// # How operations end
//
// An operation ends as Completed, Failed, Canceled or Abandoned, and then never changes its phase. A phase that is not
// known counts as running. Abandoned is not Failed: the operation was asked to stop and did not confirm it in time, so
// that nobody knows whether it still runs. Velero knows neither: both stand in the file as its phase Failed, with the real
// one in the key "sheetanchor" beside it, which Velero ignores. A Velero that rewrites the file leaves plain Failed.
//
// The poller ends an operation when its action says that it has ended, or says [Permanent], or when there is no such
// action. It asks an operation to stop when its deadline is over, when it gave nothing but errors for the error budget,
// when its parent ended without a result, or when [Poller.Cancel] was called; then the action's word still decides, for the grace time: an operation that
// completes all the same is completed. The request to stop is in the record and survives a restart, and the grace time
// counts from it.
//
// # Errors
//
// The categories are sentinels for errors.Is; [ConflictError], [CompletedError], [RunningError] and [PanicError] carry
// data. An error of a store stays wrapped. A panic of a store, of an action or of a function given to Update is
// returned as an error.
//
// # Concurrency
//
// Map, Poller, Slot and the stores are safe for concurrent use. A List, and a Record which holds one, is a value: copies
// are independent, one of them must not be changed by two goroutines at once. No goroutine outlives the call that
// started it, but for an action that ignores the end of its context: it is left behind, named in [Result.Notes], and at
// most one exists for an operation.
//
// # Over a crash
//
// A stored record is whole, old or new, after a crash at any moment. Actions are asked at least once, and can be asked
// again what they have answered before: they must be idempotent.
package operations
