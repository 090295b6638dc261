package finalize

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// VolumeRecords returns a record for each volume of a report, sorted by volume: as it stands when everything is cut.
// A volume that is cut has no final result, its operation brings that; one that failed is failed, with its error, and has
// a handle only if there is a physical snapshot; one that was skipped has the reason and no handle. Nothing is shared with
// the report. A nil report has no records.
func VolumeRecords(report *csisnapshot.Report) []volumeinfo.BackupRecord {
	if report == nil {
		return nil
	}
	records := make([]volumeinfo.BackupRecord, 0, len(report.Volumes))
	for _, v := range report.Volumes {
		records = append(records, volumeRecord(v))
	}
	slices.SortStableFunc(records, func(a, b volumeinfo.BackupRecord) int { return a.Volume().Compare(b.Volume()) })
	return records
}

func volumeRecord(v csisnapshot.VolumeReport) volumeinfo.BackupRecord {
	r := volumeinfo.BackupRecord{PVCNamespace: v.Namespace, PVCName: v.Claim, PVCUID: string(v.ClaimUID), PVName: v.PV}
	if v.PVReclaimPolicy != "" || len(v.PVLabels) > 0 {
		r.PVInfo = &volumeinfo.PVInfo{ReclaimPolicy: v.PVReclaimPolicy, Labels: maps.Clone(v.PVLabels)}
	}
	if v.Skipped != "" {
		r.Skipped, r.SkippedReason = true, v.Skipped
		return r
	}
	r.BackupMethod = volumeinfo.CSISnapshot
	r.CSISnapshotInfo = &volumeinfo.CSISnapshotInfo{
		SnapshotHandle: deref(v.Handle), Size: copied(v.RestoreSize), Driver: v.Driver, VSCName: v.Content,
		OperationID: v.OperationID, ReadyToUse: copied(v.ReadyToUse), ContentVersion: v.ContentVersion,
	}
	if start := cmp.Or(deref(v.CreationTime), v.Started); !start.IsZero() {
		r.StartTimestamp = new(metav1.NewTime(start.UTC().Truncate(time.Second)))
	}
	switch {
	case v.Err != nil:
		r.Result, r.Error = volumeinfo.Failed, oneLine(v.Err.Error())
	case !v.IsCut():
		r.Result, r.Error = volumeinfo.Failed, "the snapshot was not cut"
	default:
		r.PreserveLocalSnapshot = true
	}
	return r
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
