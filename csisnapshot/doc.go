// Package csisnapshot takes CSI snapshots of the volumes of a namespace, knows when they are cut and when they are ready, and
// keeps or deletes them.
//
// # The way through
//
// [New] makes a [Snapshotter] on a cluster's core client and a snapshot [Client], from [NewDynamic] or snapv6.New.
// [Snapshotter.Plan] groups the volumes into batches by the pods that use them. [Snapshotter.Cut] freezes the pods of a
// batch through a [Quiescer], sends its snapshots, waits until each is cut and thaws the pods. [Report.Operations] are then
// followed by package operations through [Snapshotter.Action], until the snapshots are ready, and at the end
// [Snapshotter.Release] keeps the physical snapshots and removes the objects, or [Snapshotter.Destroy] removes both.
// [Snapshotter.Restore] and [Snapshotter.Clone] put a physical snapshot back, also into another namespace,
// [Snapshotter.Sweep] removes whatever an owner has left, and [Snapshotter.Expire] ends the life of what was released.
// [Snapshotter.Explain] says why a snapshot does not get done and what to look at next.
// A [Waiter] waits for snapshots without any of the rest, and [Group], [SelectClass], [Judge] and [Schedule] are the pure
// parts.
//
// Pods are put together by volumes that they share and by a [BatchKey], as [ByLabel] for an application, [ByVM] and [Undivided].
// [DriverLimits] hold back what a driver is asked, and so does a time to retry after that a [Classifier] tells. An [Observer]
// is told of every step and of the [Progress].
//
// # What holds for a freeze
//
// One pod is frozen at a time ([Options.MaxFrozenPods]), except that pods that share a volume are frozen together. Pods of
// one controller never are, unless they share a volume or a [BatchKey] puts them together. Hooked batches come first; while
// a pod is frozen nothing unhooked is sent, and a freeze starts only when the snapshot-controller has done its work on what was
// sent before, for it takes about one snapshot in two seconds by default ([Options.MaxPickup]). So a pod is frozen about as
// long as it would be alone, and the whole takes no longer, for the controller's rate is the limit.
//
// Before a pod's first pre hook its intent is saved in [Options.Intents]. In a process that lives its post hooks run exactly
// once, also after an error, a timeout, a panic and the end of ctx. After a crash the next Cut, of any owner, thaws every pod
// whose intent has no thaw record, before anything else. Over a crash hooks run at least once, so they must be idempotent.
// A pod that was recreated under its name is reported and not touched. [Options.MaxFreeze] thaws a pod in time whatever its
// snapshots do, and the report names what was not cut by then.
//
// A post hook whose command nobody has got ([ErrNotRun]) is tried again while the Cut goes on, for at most Wait.Timeout, so that
// an API that is away for a while leaves no pod frozen.
//
// A hook is not fenced: a process that lost its leadership must end the ctx of Cut before its lease ends.
//
// # What holds for objects
//
// A snapshot's name is made of the UIDs of owner and claim ([Names.Snapshot]), so that a Cut that is repeated adopts what it
// finds and takes no second snapshot of a volume. Only objects that carry the owner's UID are ever changed; another's under
// the same name is [ErrConflict]. Created objects carry the library's labels only and never an owner reference.
//
// # Errors
//
// Cut returns an error when it could not do its job as a whole; each volume's own is in its [VolumeReport], among them
// [*WaitError], [*HookError], [*ConflictError], [*ClaimChangedError], [*ClassError], [ErrVolumeFull] and [ErrWindowClosed]. Plan tells
// [ErrNoSnapshotAPI] and [ErrNamespaceNotFound]. [ErrIntents] means that nothing may be frozen. [ErrAbandoned] is a callback
// that ignored the end of its context: the call went on without it.
// What removes snapshots returns a [*RemovalError] for each that is left, naming the object that holds it.
//
// # Time
//
// [WaitOptions.Timeout] is time without progress. A snapshot's clock starts when the snapshot-controller picks it up; those
// that wait in its queue share their driver's clock, which every snapshot of the driver that is picked up or cut sets back.
// So a slow queue fails nobody, and any number of snapshots that are never made cost one Timeout. So do creates of a driver
// that meet nothing but trouble of the API, and earlier snapshots of the owner's that are being deleted and do not go; the
// latter are waited for before a freeze, never in one.
//
// # Concurrency
//
// A Snapshotter may be used from several goroutines, but two Cuts must not share a document of intents. No goroutine
// outlives the call that started it, but for an abandoned callback's.
package csisnapshot
