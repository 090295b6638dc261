package finalize_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// V1, vol-10, vol-11, vol-14: every volume of a report has its record, with what is known and nothing that is not.
func TestVolumeRecords(t *testing.T) {
	t.Parallel()
	created := began.Add(1500 * time.Millisecond)
	report := &csisnapshot.Report{Owner: owner, Volumes: []csisnapshot.VolumeReport{
		{Namespace: "app", Claim: "skipped", PV: "pv-3", Skipped: "not CSI (nfs)"},
		{
			Namespace: "app", Claim: "cut", ClaimUID: "u1", PV: "pv-1", Driver: "d", PVReclaimPolicy: "Retain", PVLabels: map[string]string{"a": "b"},
			Snapshot: "s1", Content: "c1", ContentVersion: "7", Handle: new("h1"), RestoreSize: new(int64(0)), CreationTime: &created, ReadyToUse: new(false), OperationID: "app/s1/t",
		},
		{Namespace: "app", Claim: "failed", ClaimUID: "u2", PV: "pv-2", Driver: "d", Started: began, OperationID: "app/s2/t", Err: errors.New("no class\nfor d")},
		{Namespace: "app", Claim: "late", ClaimUID: "u4", Snapshot: "s4", Handle: new("h4"), Err: errors.New("replaced")},
		{Namespace: "app", Claim: "odd", ClaimUID: "u5"},
	}}
	at := func(t time.Time) *metav1.Time { return new(metav1.NewTime(t)) }
	want := []volumeinfo.BackupRecord{
		{
			PVCNamespace: "app", PVCName: "cut", PVCUID: "u1", PVName: "pv-1", BackupMethod: volumeinfo.CSISnapshot, PreserveLocalSnapshot: true,
			StartTimestamp: at(began.Add(time.Second)), PVInfo: &volumeinfo.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"a": "b"}},
			CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "h1", Size: new(int64(0)), Driver: "d", VSCName: "c1", ContentVersion: "7", OperationID: "app/s1/t", ReadyToUse: new(false)},
		},
		{
			PVCNamespace: "app", PVCName: "failed", PVCUID: "u2", PVName: "pv-2", BackupMethod: volumeinfo.CSISnapshot, StartTimestamp: at(began),
			Result: volumeinfo.Failed, Error: "no class; for d", CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{Driver: "d", OperationID: "app/s2/t"},
		},
		{
			PVCNamespace: "app", PVCName: "late", PVCUID: "u4", BackupMethod: volumeinfo.CSISnapshot, Result: volumeinfo.Failed, Error: "replaced",
			CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "h4"},
		},
		{
			PVCNamespace: "app", PVCName: "odd", PVCUID: "u5", BackupMethod: volumeinfo.CSISnapshot, Result: volumeinfo.Failed, Error: "the snapshot was not cut",
			CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{},
		},
		{PVCNamespace: "app", PVCName: "skipped", PVName: "pv-3", Skipped: true, SkippedReason: "not CSI (nfs)"},
	}
	if diff := cmp.Diff(want, finalize.VolumeRecords(report)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if finalize.VolumeRecords(nil) != nil {
		t.Error("no report has records")
	}
}

// F5, vol-5, vol-6, vol-8: after finalize every record has a result of the closed set or was skipped.
func TestWriteVolumeInfo(t *testing.T) {
	t.Parallel()
	failed := cutRecord("early")
	failed.Result, failed.Error, failed.PreserveLocalSnapshot = volumeinfo.Failed, "no class", false
	skipped := volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "nfs", Skipped: true, SkippedReason: "not CSI"}
	unrelated := operation("x", operations.PhaseFailed, "y")
	unrelated.Action, unrelated.ID, unrelated.Resource = "example.com/other", "opaque", operations.ResourceID{Resource: "deployments", Name: "web"}
	ops := opsMap(t,
		operation("good", operations.PhaseCompleted, ""), operation("bad", operations.PhaseFailed, "storage full"),
		operation("stopped", operations.PhaseCanceled, "by user"), operation("lost", operations.PhaseAbandoned, ""),
		operation("early", operations.PhaseFailed, "no class"), unrelated,
	)
	doc := recordsDoc(t, cutRecord("good"), cutRecord("bad"), cutRecord("stopped"), cutRecord("lost"), failed, skipped)
	report := runOnce(t, finalize.WriteVolumeInfo(doc, ops, key))
	if report.Errors() != 0 || report.Warnings() != 0 || doc.writes != 1 {
		t.Fatalf("report = %+v, %d writes", report, doc.writes)
	}
	got := map[string]string{}
	for _, r := range recordsOf(t, doc) {
		got[r.PVCName] = fmt.Sprintf("%s %q %q %v", r.Result, r.Error, r.Handle(), r.PreserveLocalSnapshot)
		if !r.Final() {
			t.Errorf("%s is not final", r.PVCName)
		}
	}
	want := map[string]string{
		"claim-good":    `succeeded "" "h-good" true`,
		"claim-bad":     `failed "storage full" "h-bad" false`,
		"claim-stopped": `failed "canceled: by user" "h-stopped" false`,
		"claim-lost":    `failed "abandoned: reason unknown" "h-lost" false`,
		"claim-early":   `failed "no class" "h-early" false`,
		"nfs":           ` "" "" false`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if r := recordsOf(t, doc)[2]; r.CSISnapshotInfo.ReadyToUse == nil || !*r.CSISnapshotInfo.ReadyToUse || r.CompletionTimestamp == nil {
		t.Errorf("good = %+v, want ready and a time of completion", r)
	}
	// F2: nothing changes and nothing is written.
	before := bytes.Clone(doc.data)
	if again := runOnce(t, finalize.WriteVolumeInfo(doc, ops, key)); again.Errors() != 0 || doc.writes != 1 || !bytes.Equal(before, doc.data) {
		t.Errorf("second run = %+v, %d writes", again, doc.writes)
	}
}

// vol-6, vol-10: what does not fit is named, and everything else is written.
func TestWriteVolumeInfoFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claim := operation("gone", operations.PhaseFailed, "x")
		claim.Resource = operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "app", Name: "no-record"}
		first := operation("retried", operations.PhaseFailed, "first try")
		first.ID = csisnapshot.OperationID(ref("retried"), time.Time{})
		ops := opsMap(t,
			operation("slow", operations.PhaseInProgress, ""), operation("unrecorded", operations.PhaseCompleted, ""), claim,
			first, operation("retried", operations.PhaseCompleted, ""), operation("good", operations.PhaseCompleted, ""),
		)
		silent := volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "silent"}
		volume := volumeinfo.BackupRecord{PVName: "pv-only"}
		doc := recordsDoc(t, cutRecord("slow"), cutRecord("retried"), cutRecord("good"), silent, volume)
		report := runOnce(t, finalize.WriteVolumeInfo(doc, ops, key))
		const who, start = "hook write-volumeinfo: ", "/2026-05-02T10:00:00Z: "
		want := finalize.Results{
			Warnings: finalize.ResultSet{Namespaces: map[string][]string{"app": {
				who + "app/retried: operation app/retried/not-created: the volume's record follows another operation",
			}}},
			Errors: finalize.ResultSet{
				Velero:  []string{who + "operation app/unrecorded" + start + "no record of its volume"},
				Cluster: []string{who + "pv-only: record: no final result and no operation that will bring one"},
				Namespaces: map[string][]string{"app": {
					who + "app/claim-slow: operation app/slow" + start + "operation has not ended",
					who + "app/no-record: operation app/gone" + start + "no record of its volume",
					who + "app/silent: record: no final result and no operation that will bring one",
				}},
			},
		}
		if diff := cmp.Diff(want, report.Results()); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		for _, r := range recordsOf(t, doc) {
			if want := r.PVCName == "claim-good" || r.PVCName == "claim-retried"; r.Final() != want {
				t.Errorf("%s: final %v, want %v", r.Volume(), r.Final(), want)
			}
		}
	})
}

// O13: records that cannot be read are never overwritten, and the hook says why it failed.
func TestUnreadableDocumentsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("store is down")
		ops := opsMap(t, operation("good", operations.PhaseCompleted, ""))
		for text, doc := range map[string]*memory{
			"malformed": {data: []byte("not gzip")},
			"down":      {down: down},
		} {
			report := runOnce(t, finalize.WriteVolumeInfo(doc, ops, key),
				finalize.MergeResults(doc, []finalize.ResultSource{finalize.SkippedVolumes(doc)}))
			for _, h := range report.Hooks {
				if h.State != finalize.Failed || !strings.Contains(h.Error, text) || h.Attempts != 4 {
					t.Errorf("%s: %+v, want failed after 4 attempts", text, h)
				}
			}
			if doc.writes != 0 {
				t.Errorf("%s: %d writes", text, doc.writes)
			}
		}
		foreign := key
		foreign.UID = "another"
		h := runOnce(t, finalize.WriteVolumeInfo(recordsDoc(t), ops, foreign)).Hooks[0]
		if h.State != finalize.Failed || !strings.Contains(h.Error, operations.ErrForeignRecord.Error()) {
			t.Errorf("operations of another owner: %+v", h)
		}
	})
}

// F4: the file of results has the operations' errors, the hooks' and what was there; again, it is the same.
func TestWriteResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		earlier := finalize.Results{}
		earlier.Errors.Add("app", "item deployments/web: refused")
		data, err := finalize.EncodeResults(earlier)
		if err != nil {
			t.Fatal(err)
		}
		doc := &memory{data: data}
		volumes := recordsDoc(t, volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "nfs", Skipped: true, SkippedReason: "not CSI"}, volumeinfo.BackupRecord{PVName: "pv-9", Skipped: true})
		ops := opsMap(t, operation("good", operations.PhaseCompleted, ""), operation("bad", operations.PhaseFailed, "storage full"))
		snaps := newFakeSnapshots("good", "bad")
		snaps.faults[ref("good")] = errors.New("stuck")
		hooks := []finalize.Hook{
			finalize.ReleaseSnapshots(snaps, owner, ops, key),
			finalize.MergeResults(doc, []finalize.ResultSource{finalize.OperationResults(ops, key), finalize.SkippedVolumes(volumes)}, "release-snapshots"),
		}
		report := runOnce(t, hooks...)
		if report.Hooks[1].State != finalize.Succeeded {
			t.Fatalf("report = %+v", report)
		}
		want := finalize.Results{
			Warnings: finalize.ResultSet{
				Cluster:    []string{"volume: pv-9: skipped: reason unknown"},
				Namespaces: map[string][]string{"app": {"volume: app/nfs: skipped: not CSI"}},
			},
			Errors: finalize.ResultSet{Namespaces: map[string][]string{"app": {
				"item deployments/web: refused",
				"operation app/bad/2026-05-02T10:00:00Z: app/bad: storage full",
				"hook release-snapshots: app/good: stuck",
			}}},
		}
		got, err := finalize.DecodeResults(doc.data, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		if runOnce(t, hooks...); doc.writes != 1 {
			t.Errorf("%d writes after a second run, want one", doc.writes)
		}
	})
}
