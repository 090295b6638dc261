// Package volumekube collects from a cluster what package volumeinfo makes records of: claims, persistent volumes,
// snapshots and their contents. It is the I/O of volumeinfo, and reads only.
//
// # Guarantees
//
//   - One paged list for each kind and namespace; contents are read by name, those of the snapshots that were found. A list
//     that expires between two pages is begun again, a few times.
//   - A cluster without the snapshot API has no snapshots, which is one warning.
//   - What a plan has skipped is recorded as skipped, with the plan's reason, if it is handed over in [Options].
//   - What is absent in an object is absent in the inputs: nothing is guessed and no combination of fields is a fault.
//   - The handle, the readiness and the version of a content are of one read.
//
// # Errors
//
// [Collect] returns what the API server said, wrapped with the kind and the namespace or name, or the cause of the end of
// its context.
//
// # Concurrency
//
// [Collect] may be called at the same time. No goroutine outlives a call.
package volumekube
