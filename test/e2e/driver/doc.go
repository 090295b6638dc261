// Package driver is a CSI driver for tests against the real snapshot stack. It answers the Identity, Controller and
// GroupController services on a unix socket, holds volumes and snapshots as records only, and does to the snapshots of
// each claim what a [Script] says: late cuts, late readiness, errors, hangs, refused deletions. A [Client] changes the
// scripts and reads what happened over a second unix socket, while the driver runs.
//
// Its storage of snapshots is that of package backuptest, so that one script means the same on the fake stack and on
// the real one. Claims are known from the metadata that csi-provisioner and csi-snapshotter add with
// --extra-create-metadata.
//
// # Files
//
// With [Options].State S, file S holds volumes, groups, scripts and limits, S.snapshots the snapshots, S.calls one line for
// each call as it begins and one as it ends, and S.lock keeps a second driver away. A call is answered after what it
// changed is in the files, so SIGKILL loses nothing that was answered. A create that was under way goes on when it is
// asked for again. What was written of a line when the process was killed is dropped at the next start.
//
// # Errors
//
// Calls are answered with gRPC statuses as the CSI specification wants them, InvalidArgument naming the field. Errors of
// [Run] name the option, file or socket, those of a [Client] the operation.
//
// # Concurrency
//
// Calls run side by side, also for one name. A second call for one group of snapshots while the first runs is answered
// Aborted.
package driver
