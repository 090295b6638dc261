package csisnapshot

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// fill writes down what the run came to. Nothing changes any more.
func (r *run) fill(report *Report, plan *Plan) {
	for _, b := range r.batches {
		report.Batches = append(report.Batches, b.report())
		for _, v := range b.volumes {
			report.Volumes = append(report.Volumes, r.volumeReport(v))
		}
	}
	for _, f := range plan.Faults {
		rep := VolumeReport{Namespace: f.Namespace, Claim: f.Claim, ClaimUID: f.ClaimUID, PV: f.PV, Driver: f.Driver, Err: f}
		rep.OperationID = r.operationID(rep)
		report.Volumes = append(report.Volumes, rep)
	}
	for _, s := range plan.Skipped {
		report.Volumes = append(report.Volumes, VolumeReport{Namespace: s.Namespace, Claim: s.Claim, PV: s.PV, Skipped: s.Reason})
	}
	slices.SortFunc(report.Volumes, func(a, b VolumeReport) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Claim, b.Claim))
	})
}

func (b *batchRun) report() BatchReport {
	rep := BatchReport{Hooked: b.hooked, Resumed: b.resumed}
	if !b.start.IsZero() {
		rep.Duration = b.end.Sub(b.start)
	}
	for _, p := range b.pods {
		rep.Pods = append(rep.Pods, p.report)
	}
	for _, v := range b.volumes {
		rep.Volumes = append(rep.Volumes, v.key().String())
		if v.notInTime {
			rep.NotCutInWindow = append(rep.NotCutInWindow, v.key().String())
		}
	}
	return rep
}

func (r *run) volumeReport(v *volumeRun) VolumeReport {
	rep := VolumeReport{
		Namespace: v.Namespace, Claim: v.Claim, ClaimUID: v.ClaimUID, PV: v.PV, Driver: v.Driver, Class: v.Class,
		PVReclaimPolicy: v.PVReclaimPolicy, PVLabels: v.PVLabels, Adopted: v.adopted, NotCutInWindow: v.notInTime, Err: v.err,
	}
	if v.snapshot != nil {
		rep.Snapshot, rep.SnapshotUID = v.snapshot.Name, v.snapshot.UID
		rep.Started = startOf(v.snapshot.Created, v.result.CreationTime, r.started)
	}
	rep.Content, rep.ContentVersion = v.result.Content, v.result.ContentVersion
	if v.result.Handle != "" {
		rep.Handle = new(v.result.Handle)
	}
	rep.RestoreSize, rep.CreationTime, rep.ReadyToUse = v.result.RestoreSize, v.result.CreationTime, v.result.ReadyToUse
	if !v.ended {
		rep.Err = v.named(errUnfinished)
	}
	rep.OperationID = r.operationID(rep)
	return rep
}

// startOf is when the snapshot was created: by the API server, which tells a later Cut the same; else by the storage; else
// about when this Cut began.
func startOf(created time.Time, cut *time.Time, run time.Time) time.Time {
	switch {
	case !created.IsZero():
		return created
	case cut != nil && !cut.IsZero():
		return *cut
	default:
		return run
	}
}
