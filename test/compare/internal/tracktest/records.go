package tracktest

import (
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	velerobackup "github.com/vmware-tanzu/velero/pkg/backup"
	"github.com/vmware-tanzu/velero/pkg/label"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// veleroRecords counts the records that Velero builds of one snapshot of a backup of that name.
func veleroRecords(name string, status *snapshotv1.VolumeSnapshotContentStatus) int {
	request := &velerobackup.Request{}
	info := &request.VolumesInformation
	info.Init()
	info.BackupName = name
	info.InsertPVMap(corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, "data", "app")
	claim, content := "data", "content"
	snapshot := snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "snap", Labels: map[string]string{velerov1.BackupNameLabel: label.GetValidName(name)}},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
		Status:     &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &content},
	}
	contents := []snapshotv1.VolumeSnapshotContent{{ObjectMeta: metav1.ObjectMeta{Name: content}, Status: status}}
	return len(info.Result([]snapshotv1.VolumeSnapshot{snapshot}, contents, nil, nil, velerotest.Logger()))
}

var longName = strings.Repeat("long-name-", 7)[:69] + "x"

func veleroK(t *testing.T) ending {
	t.Helper()
	handle := "handle"
	status := &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: &handle}
	long, short := veleroRecords(longName, status), veleroRecords("short", status)
	if short != 1 {
		t.Fatalf("%d records of a backup with a short name, want 1", short)
	}
	return ended(long == 1, "%d records (with a short name %d)", long, short)
}

func veleroL(*testing.T) ending {
	text := caught(func() { veleroRecords("short", nil) })
	return ended(text == "", "panic: %s", text)
}

// oneVolume are the inputs of one claim with a snapshot that belongs to the owner by its label.
func oneVolume(owner csisnapshot.Owner, content volumeinfo.Content) volumeinfo.Inputs {
	var names csisnapshot.Names
	vs := names.NewSnapshot(owner, csisnapshot.ClaimRef{Namespace: "app", Name: "data", UID: "claim-1"}, "class")
	claim := "data"
	return volumeinfo.Inputs{
		Owner:  string(owner.UID),
		Claims: []volumeinfo.Claim{{Namespace: "app", Name: "data", UID: "claim-1", PV: "pv"}},
		PVs:    []volumeinfo.PV{{Name: "pv", ClaimNamespace: "app", ClaimName: "data", ClaimUID: "claim-1"}},
		Snapshots: []volumeinfo.Snapshot{{
			Namespace: "app", Name: vs.Name, UID: "snapshot-1", OwnerUID: string(names.OwnerOf(vs.Meta)), Claim: &claim, ClaimUID: string(names.ClaimUID(vs.Meta)), Content: &content.Name,
		}},
		Contents: []volumeinfo.Content{content},
	}
}

func oursK(*testing.T) ending {
	handle := "handle"
	owner := csisnapshot.Owner{UID: key.UID, Namespace: "velero", Name: longName}
	records, gaps := volumeinfo.Build(oneVolume(owner, volumeinfo.Content{Name: "content", SnapshotUID: "snapshot-1", Handle: &handle}))
	good := len(records) == 1 && records[0].Handle() == handle
	return ended(good, "%d record with its handle, %d gaps", len(records), len(gaps))
}

func oursL(*testing.T) ending {
	owner := csisnapshot.Owner{UID: key.UID, Namespace: "velero", Name: "short"}
	records, gaps := volumeinfo.Build(oneVolume(owner, volumeinfo.Content{Name: "content", SnapshotUID: "snapshot-1"}))
	named := false
	for _, g := range gaps {
		named = named || g.Reason == volumeinfo.NoHandle
	}
	return ended(len(records) == 1 && named && records[0].Handle() == "", "%d record without a handle, and a gap that says so: %v", len(records), named)
}
