package conformance

import (
	"slices"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// Scenarios returns all scenarios.
func Scenarios() []Scenario {
	return slices.Concat(creations(), failures(), deletions(), others())
}

func creations() []Scenario {
	return []Scenario{
		{
			Name:   "success",
			Reason: "an instant driver",
			Steps:  []Step{claim("data"), snapshot("snap", "data", "delete"), ready("snap")},
		},
		{
			Name:    "slow-cut",
			Reason:  "nothing is in any status while the storage cuts",
			Scripts: map[string]backuptest.Script{"data": {CutAfter: 4 * time.Second}},
			Steps:   []Step{claim("data"), snapshot("snap", "data", "delete"), ready("snap")},
		},
		{
			Name:    "slow-ready",
			Reason:  "handle and times come with the cut, readyToUse with a poll",
			Scripts: map[string]backuptest.Script{"data": {ReadyAfter: 5 * time.Second}},
			Steps:   []Step{claim("data"), snapshot("snap", "data", "delete"), ready("snap")},
		},
		{
			Name:   "claim-bound-later",
			Reason: "a claim that gets bound is noticed at the controller's retry, and the error goes",
			Steps: []Step{
				waitingClaim("data"), snapshot("snap", "data", "delete"), until("snapshot snap", "status", "error"),
				bind("data"), bound("data"), ready("snap"),
			},
		},
	}
}

func failures() []Scenario {
	return []Scenario{
		{
			Name:    "error-then-success",
			Reason:  "the error stays beside handle and times until the snapshot is ready",
			Scripts: map[string]backuptest.Script{"data": {Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no space", Times: 3}}, ReadyAfter: 6 * time.Second}},
			Steps:   []Step{claim("data"), snapshot("snap", "data", "delete"), ready("snap")},
		},
		{
			Name:    "permanent-error",
			Reason:  "no error is final, the text of the second call differs from the first's; deleted, it is gone in a second",
			Scripts: map[string]backuptest.Script{"data": {Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "never"}}}},
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "delete"), until("content of snap", "status", "check and update"),
				until("snapshot snap", "status", "check and update"), pause(5 * time.Second), deleteSnapshot("snap"), gone("snapshot snap"), gone("content of snap"),
			},
		},
		{
			Name:   "no-claim",
			Reason: "the claim may come yet",
			Steps:  []Step{snapshot("snap", "data", "delete"), until("snapshot snap", "status", "error"), pause(5 * time.Second)},
		},
		{
			Name:   "claim-not-bound",
			Reason: "a snapshot that has no content goes at once",
			Steps: []Step{
				waitingClaim("data"), snapshot("snap", "data", "delete"), until("snapshot snap", "status", "error"), pause(5 * time.Second),
				deleteSnapshot("snap"), gone("snapshot snap"),
			},
		},
		{
			Name:   "class-not-found",
			Reason: "no finalizer, and readyToUse is not set",
			Steps:  []Step{claim("data"), snapshot("snap", "data", "missing"), until("snapshot snap", "status", "error"), pause(5 * time.Second)},
		},
		{
			Name:   "no-class",
			Reason: "no class is named, and none is the default of the volume's driver",
			Steps:  []Step{foreignClaim("data"), snapshot("snap", "data", ""), until("snapshot snap", "status", "error"), pause(5 * time.Second)},
		},
		{
			Name:   "other-driver",
			Reason: "no error at all, and deletion hangs",
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "other"), until("snapshot snap", "finalizers", "volumesnapshot-bound"), pause(5 * time.Second),
				deleteSnapshot("snap"), until("content of snap", "life", "deleting"), pause(5 * time.Second),
			},
		},
	}
}

func deletions() []Scenario {
	return []Scenario{
		{
			Name:   "delete",
			Reason: "the content is marked, deleted, emptied and gone, and then the snapshot",
			Steps:  []Step{claim("data"), snapshot("snap", "data", "delete"), ready("snap"), deleteSnapshot("snap"), gone("snapshot snap"), gone("content of snap")},
		},
		{
			Name:   "retain",
			Reason: "the content stays ready, and goes alone later",
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "retain"), ready("snap"), deleteSnapshot("snap"), gone("snapshot snap"), pause(2 * time.Second),
				deleteContent("snap"), gone("content of snap"),
			},
		},
		{
			Name:    "delete-refused",
			Reason:  "an event is all that tells of a storage that refuses",
			Scripts: map[string]backuptest.Script{"data": {DeleteErrors: []backuptest.DriverError{{Code: "FailedPrecondition", Text: "in use", Times: 2}}}},
			Steps:   []Step{claim("data"), snapshot("snap", "data", "delete"), ready("snap"), deleteSnapshot("snap"), gone("snapshot snap"), gone("content of snap")},
		},
		{
			Name:    "delete-not-ready",
			Reason:  "a cut that is not ready is deleted at once",
			Scripts: map[string]backuptest.Script{"data": {ReadyAfter: time.Hour}},
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "delete"), until("snapshot snap", "status", "creationTime"), until("snapshot snap", "finalizers", "volumesnapshot-bound"),
				pause(5 * time.Second), deleteSnapshot("snap"), gone("snapshot snap"), gone("content of snap"),
			},
		},
		{
			Name:    "delete-unbound",
			Reason:  "a snapshot without bound finalizer goes at once and leaves its content to finish alone",
			Scripts: map[string]backuptest.Script{"data": {CutAfter: 5 * time.Second}},
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "retain"), until("content of snap", "being-created", "yes"), until("snapshot snap", "status", "boundVolumeSnapshotContentName"),
				pause(time.Second), deleteSnapshot("snap"), gone("snapshot snap"), until("content of snap", "status", "readyToUse=true"),
				until("content of snap", "being-created", none), pause(2 * time.Second),
			},
		},
		{
			Name:    "delete-during-create",
			Reason:  "a content deleted during the call stays Terminating, more often than not, until anyone changes it",
			Scripts: map[string]backuptest.Script{"data": {CutAfter: 5 * time.Second}},
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "delete"), until("content of snap", "being-created", "yes"), until("snapshot snap", "finalizers", "volumesnapshot-bound"),
				pause(time.Second), deleteSnapshot("snap"), until("content of snap", "life", "deleting"), pause(8 * time.Second),
				touch("snap"), gone("content of snap"), gone("snapshot snap"),
			},
		},
		{
			Name:    "delete-open-outcome",
			Reason:  "after Unavailable the content is kept until a call is answered, so that nothing leaks",
			Scripts: map[string]backuptest.Script{"data": {Errors: []backuptest.DriverError{{Code: "Unavailable", Text: "down", Times: 5}}}},
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "delete"), until("snapshot snap", "status", "check and update"), until("snapshot snap", "finalizers", "volumesnapshot-bound"),
				deleteSnapshot("snap"), until("content of snap", "life", "deleting"), until("content of snap", "being-created", none), pause(3 * time.Second),
				touch("snap"), gone("content of snap"), gone("snapshot snap"),
			},
		},
		{
			Name:     "delete-namespace",
			Reason:   "contents with policy Delete go with their snapshots, those with Retain stay behind",
			noEvents: true,
			Steps: []Step{
				claim("data"), claim("other"), snapshot("one", "data", "delete"), snapshot("two", "other", "retain"), ready("one"), ready("two"),
				pause(time.Second), until("claim data", "finalizers", "none"), until("claim other", "finalizers", "none"), deleteNamespace(),
				gone("snapshot one"), gone("snapshot two"), gone("content of one"), gone("claim data"), gone("claim other"),
			},
		},
	}
}

func others() []Scenario {
	return []Scenario{
		{
			Name:   "group",
			Reason: "members are made by the group, and go with it",
			groups: true, mayMiss: []string{"SnapshotDeletePending"}, // of a member that is looked at while the group is still there
			Steps: []Step{
				claim("one"), claim("two"), group("pair", "one", "two"), until("group pair", "status", "readyToUse=true"), membersReady(2), pause(3 * time.Second),
				deleteGroup("pair"), gone("group pair"), membersGone(), gone("group content of pair"),
			},
		},
		{
			Name:   "static",
			Reason: "a content made by hand is bound, asked for with ListSnapshots, and deleted with its snapshot",
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "retain"), ready("snap"), keepHandle("snap"), deleteSnapshot("snap"), gone("snapshot snap"),
				deleteContent("snap"), gone("content of snap"), static("made", "delete"), ready("made"),
				deleteSnapshot("made"), gone("snapshot made"), gone("content of made"),
			},
		},
		{
			Name:   "restore",
			Reason: "the provisioner holds the snapshot while it makes a claim of it",
			Steps:  []Step{claim("data"), snapshot("snap", "data", "delete"), ready("snap"), restore("copy", "snap", ""), bound("copy")},
		},
		{
			Name:   "restore-pending",
			Reason: "a snapshot that a claim waits for is not deleted",
			Steps: []Step{
				claim("data"), snapshot("snap", "data", "delete"), ready("snap"), restore("copy", "snap", "waits"), pause(time.Second),
				deleteSnapshot("snap"), pause(5 * time.Second), deleteClaim("copy"), gone("claim copy"), gone("content of snap"), gone("snapshot snap"),
			},
		},
	}
}
