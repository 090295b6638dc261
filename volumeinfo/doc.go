// Package volumeinfo records what happened to each volume of a backup or restore: how it was handled, with what result,
// under which handle, or why it was skipped. It reads and writes Velero's files backups/NAME/NAME-volumeinfo.json.gz and
// restores/NAME/NAME-volumeinfo.json.gz. Everything in it is a pure function of its arguments; it does no I/O:
// package volumekube collects the arguments from a cluster.
//
// # Guarantees
//
//   - Absent is not zero: an unknown size or readiness is a nil pointer and stays one over a round trip.
//   - Keys a newer writer added survive a round trip at every level, in the field Extra. ReadyToUse and Phase are read in
//     either spelling of Velero and written in that of version 1.18, which its readers of any version take.
//   - The keys pvcUID, error and contentResourceVersion are ours. Velero ignores them.
//   - [Encode] gives the same bytes for the same records in any order.
//   - [Build] drops nothing silently: each volume gives a record, and whatever could not be joined is a [Gap].
//   - A record's result is one of a closed set or says that it is not final, see [BackupRecord.Final]. [Merge] never turns
//     a failure into something better and never replaces an error.
//
// # Errors
//
// [DecodeBackup] and [DecodeRestore] return [ErrMalformed] (with an [EntryError] when one record is at fault) or
// [ErrTooLarge]. [BackupRecord.Restorable] returns [ErrNotRestorable]. Nothing else fails, but for [Encode] when an Extra
// is not JSON.
//
// # Concurrency
//
// All functions may be called at the same time, and an [Index] used, as long as nobody changes the records meanwhile:
// copies of a record share its nested structs.
package volumeinfo
