package csisnapshot

import "time"

// Observer is told of the progress of a Cut. Every function may be nil. They are called one at a time, in the order of what
// happened, by one goroutine of the Cut that delays nothing else; Cut returns after the last call, but waits for no more than
// 5 s at its end: what an observer that slow has not been told by then it is not told. A panic in one is dropped. They decide
// nothing.
type Observer struct {
	// BatchStarted is called before anything of a batch is done.
	BatchStarted func(BatchEvent)
	// BatchEnded is called when all pods of the batch are thawed and all its volumes are cut or have failed.
	BatchEnded func(BatchEvent)
	// Frozen is called when the last pre hook of a pod has returned.
	Frozen func(PodEvent)
	// Thawed is called when the last post hook of a pod has returned, also for pods left frozen by an earlier process.
	Thawed func(PodEvent)
	// Created is called when a snapshot exists: made now, or found.
	Created func(VolumeEvent)
	// PickedUp is called when the snapshot-controller, or the driver, is seen to work on a snapshot that is not cut.
	PickedUp func(VolumeEvent)
	// Cut is called when a snapshot has a handle.
	Cut func(VolumeEvent)
	// Failed is called when a volume has ended without a cut.
	Failed func(VolumeEvent)
	// Progress is called when a Cut begins, with nothing done, and whenever one of its counts has changed, behind the call for what changed it. It is enough for a
	// progress bar.
	Progress func(Progress)
}

// BatchEvent is a batch that starts or ends.
type BatchEvent struct {
	// Batch is the index in the plan, Batches how many there are.
	Batch, Batches int
	// Pods and Volumes are how many the batch has.
	Pods, Volumes int
	Hooked        bool
	// Elapsed is how long the batch took; zero when it starts.
	Elapsed time.Duration
	// Resumed reports that all its snapshots were cut already, so that nothing was frozen.
	Resumed bool
}

// PodEvent is a pod that was frozen or thawed.
type PodEvent struct {
	Pod PodRef
	// Frozen is how long it was frozen, as [PodReport.Frozen]; zero when it is only just frozen.
	Frozen time.Duration
	// Leftover reports that an earlier process left it frozen.
	Leftover bool
	// Err is what went wrong with its hooks, nil when nothing did.
	Err error
}

// VolumeEvent is a volume that came a step further.
type VolumeEvent struct {
	Namespace, Claim string
	// Snapshot is the name of its snapshot; empty when there is none.
	Snapshot string
	// Handle is the handle of its cut; empty while there is none.
	Handle string
	// Adopted reports that the snapshot was there before.
	Adopted bool
	// Err is why it failed.
	Err error
}
