package csisnapshot

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Report is what a Cut did. It is plain data. Every claim of the plan is in Volumes once: cut, failed or skipped.
type Report struct {
	Owner Owner
	// Started is when the Cut began, by [Options.Clock]; Duration how long it took.
	Started  time.Time
	Duration time.Duration
	// Leftovers are pods that an earlier process had left frozen, in the order of their freezes.
	Leftovers []ThawReport
	// Batches in the order of the plan.
	Batches []BatchReport
	// Volumes sorted by namespace and claim.
	Volumes []VolumeReport
}

// BatchReport is what was done with one batch.
type BatchReport struct {
	Hooked bool
	Pods   []PodReport
	// Volumes are the names of the claims, as namespace/name.
	Volumes []string
	// Duration is from the first pre hook or create to the last cut or thaw.
	Duration time.Duration
	// Resumed reports that all snapshots had been cut by an earlier Cut, so that nothing was frozen.
	Resumed bool
	// NotCutInWindow are the claims, as namespace/name, that were not cut while all their hooked pods were frozen.
	// Their snapshots, if they have any, are not what the hooks were meant for.
	NotCutInWindow []string
}

// PodReport is what was done with one pod of a batch.
type PodReport struct {
	Namespace, Name string
	UID             types.UID
	// Hooked reports whether hooks were run.
	Hooked bool
	// Note says why a pod with hooks had none run. Empty otherwise.
	Note string
	// Frozen is from the return of the last pre hook to the start of the first post hook.
	Frozen time.Duration
	// Total is from the start of the first pre hook to the return of the last post hook.
	Total time.Duration
	// WindowClosed reports that MaxFreeze ended before everything was cut.
	WindowClosed bool
	// HookErrors are all failures of hooks, those that may fail included, in order.
	HookErrors []*HookError
	// Err is why the pod could not be frozen, or a post hook that failed: the pod may still be frozen then, its intent stays
	// open, and the next Cut thaws it again. Nil when neither happened.
	Err error
}

// ThawOutcome is what became of a pod that was left frozen.
type ThawOutcome string

const (
	// ThawDone says that the post hooks were run, or that the pod has none.
	ThawDone ThawOutcome = "thawed"
	// ThawPodGone says that the pod does not exist any more or has ended.
	ThawPodGone ThawOutcome = "pod gone"
	// ThawPodRecreated says that another pod has the name now. It was not touched.
	ThawPodRecreated ThawOutcome = "pod recreated"
	// ThawFailed says that a post hook failed, or that the context ended before one was begun. The intent stays open, and
	// the next Cut tries again.
	ThawFailed ThawOutcome = "failed"
)

// ThawReport is what was done about a pod that an earlier process left frozen.
type ThawReport struct {
	Pod PodRef
	// Owner froze the pod, FrozenAt is when it was about to.
	Owner    Owner
	FrozenAt time.Time
	Outcome  ThawOutcome
	// Err is why the thaw failed, or what hooks failed that may fail.
	Err error
}

// VolumeReport is what became of one claim.
type VolumeReport struct {
	Namespace, Claim string
	ClaimUID         types.UID
	// PV, Driver and Class are as planned; empty for skipped claims that have none.
	PV, Driver, Class string
	PVReclaimPolicy   string
	PVLabels          map[string]string
	// Snapshot and SnapshotUID are of the VolumeSnapshot, Content of its content; empty when there is none.
	Snapshot    string
	SnapshotUID types.UID
	Content     string
	// Handle is the physical snapshot. Nil: not cut.
	Handle *string
	// ContentVersion is the resourceVersion that the content had when the handle was last read from it, at the latest when
	// it became ready. Empty: not cut, or not known.
	ContentVersion string
	// RestoreSize is in bytes; nil while the driver has not told it. So are CreationTime and ReadyToUse, which are what
	// was last seen of the content.
	RestoreSize  *int64
	CreationTime *time.Time
	ReadyToUse   *bool
	// Adopted reports that the snapshot was there before this Cut.
	Adopted bool
	// NotCutInWindow reports that the snapshot was not cut while all hooked pods of the volume were frozen.
	NotCutInWindow bool
	// Started is when the snapshot was created, by the API server if it says so; zero when it was not.
	Started time.Time
	// OperationID is what [Report.Operations] names the operation; empty when there is none.
	OperationID string
	// Err is why the volume is not cut, or why its snapshot is of no use.
	Err error
	// Skipped says why the claim was not tried, as [Skip.Reason]. Empty otherwise.
	Skipped string
}

// IsCut reports whether the volume has a physical snapshot and nothing went wrong.
func (v VolumeReport) IsCut() bool { return v.Err == nil && v.Handle != nil && *v.Handle != "" }

// Failed returns the number of volumes that failed.
func (r *Report) Failed() int {
	n := 0
	for _, v := range r.Volumes {
		if v.Err != nil {
			n++
		}
	}
	return n
}

// Err joins the errors of all volumes and pods, or is nil. Skipped volumes and hooks that may fail are none.
func (r *Report) Err() error {
	var errs []error
	for _, v := range r.Volumes {
		errs = append(errs, v.Err)
	}
	for _, b := range r.Batches {
		for _, p := range b.Pods {
			errs = append(errs, p.Err)
		}
	}
	return errors.Join(errs...)
}
