package loadtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	velerobackup "github.com/vmware-tanzu/velero/pkg/backup"
	"github.com/vmware-tanzu/velero/pkg/label"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// volumeRecords is the record of each volume of a backup, from the objects that the backup left.
func volumeRecords(t *testing.T, b *bench) {
	t.Helper()
	size := b.size(10_000, 1000)
	const rounds, places = 15, 5
	var half, whole []time.Duration
	for range places { // the same volumes at other places in memory, some of which suit the processor's cache less
		one, two := inTurn(rounds, buildTime(t, size), buildTime(t, 2*size))
		half, whole = append(half, one...), append(whole, two...)
	}
	slices.Sort(half)
	theirs := veleroRecords(t, size)
	what := table.Number(size).String() + " records: CPU"
	b.row(what, table.Time(theirs), table.Time(half[len(half)/2]), table.Target{Kind: table.TimesBetter, Limit: 20})
	// The shortest, not the median: other programs only add, and more to what fills more of the processor's cache.
	b.noisy("CPU of "+table.Number(2*size).String()+" over "+table.Number(size).String(), nil, table.Number(slices.Min(whole).Seconds()/half[0].Seconds()), table.Target{Kind: table.AtMost, Limit: 2.5})
	b.note("Velero's builder through backup.Request.VolumesInformation, run once; ours the median of %d rounds, each of 20 000 volumes in backups of that many; the growth is that of the shortest rounds. The same claims, volumes, snapshots, contents and operations.", len(half))
}

func volumeName(i int) string { return fmt.Sprintf("data-%05d", i) }

// veleroRecords is the time of Velero's builder.
func veleroRecords(t *testing.T, n int) time.Duration {
	t.Helper()
	request, snapshots, contents := veleroVolumes(n, "nightly")
	var got int
	took := cpu(func() {
		got = len(request.VolumesInformation.Result(snapshots, contents, nil, nil, velerotest.Logger()))
	})
	if got != n {
		t.Fatalf("Velero built %d records, want %d", got, n)
	}
	return took
}

// veleroVolumes are the volumes of a backup of that name as Velero's server has them when it writes their records.
func veleroVolumes(n int, name string) (*velerobackup.Request, []snapshotv1.VolumeSnapshot, []snapshotv1.VolumeSnapshotContent) {
	request := &velerobackup.Request{}
	request.VolumesInformation.Init()
	request.VolumesInformation.BackupName = name
	var snapshots []snapshotv1.VolumeSnapshot
	var contents []snapshotv1.VolumeSnapshotContent
	for i := range n {
		claim := volumeName(i)
		pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + claim}}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		request.VolumesInformation.InsertPVMap(pv, claim, app)
		content, handle, ready, size := "snapcontent-"+claim, "snap-"+claim, true, resource.MustParse("1Gi")
		snapshots = append(snapshots, snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: fmt.Sprintf("velero-data-%05d-abcde", i), Labels: map[string]string{velerov1.BackupNameLabel: label.GetValidName(name)}},
			Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
			Status:     &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &content, ReadyToUse: &ready, RestoreSize: &size, CreationTime: &metav1.Time{Time: begun}},
		})
		contents = append(contents, snapshotv1.VolumeSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: content},
			Spec:       snapshotv1.VolumeSnapshotContentSpec{Driver: "csi.example.dev"},
			Status:     &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: &handle, ReadyToUse: &ready},
		})
	}
	request.VolumesInformation.BackupOperations = veleroOperations(keyOf(0), n).Operations
	return request, snapshots, contents
}

// builtVolumes is how many volumes each measurement of buildTime builds records of, so that all touch as much memory.
const builtVolumes = 20_000

// buildTime measures our builder with n volumes a backup.
func buildTime(t *testing.T, n int) func() time.Duration {
	t.Helper()
	var backups []volumeinfo.Inputs
	for first := 0; first < builtVolumes; first += n {
		backups = append(backups, ourVolumes(first, n))
	}
	return func() time.Duration {
		return cpu(func() {
			for _, in := range backups {
				if records, gaps := volumeinfo.Build(in); len(records) != n || len(gaps) > 0 {
					t.Errorf("Build made %d records and %d gaps of %d volumes", len(records), len(gaps), n)
				}
			}
		}) / time.Duration(len(backups))
	}
}

// ourVolumes are n of the same volumes as inputs of ours.
func ourVolumes(first, n int) volumeinfo.Inputs {
	in := volumeinfo.Inputs{Owner: string(anchorOwner.UID)}
	ready, size, created := true, int64(1<<30), begun
	for i := first; i < first+n; i++ {
		claim := volumeName(i)
		content, handle := "snapcontent-"+claim, "snap-"+claim
		uid, snapshot := "claim-"+claim, fmt.Sprintf("velero-data-%05d-abcde", i)
		in.Claims = append(in.Claims, volumeinfo.Claim{Namespace: app, Name: claim, UID: uid, PV: "pvc-" + claim})
		in.PVs = append(in.PVs, volumeinfo.PV{Name: "pvc-" + claim, ClaimNamespace: app, ClaimName: claim, ClaimUID: uid, Driver: "csi.example.dev", ReclaimPolicy: "Delete"})
		in.Snapshots = append(in.Snapshots, volumeinfo.Snapshot{
			Namespace: app, Name: snapshot, UID: "snapshot-" + claim, OwnerUID: in.Owner, Claim: &claim, ClaimUID: uid,
			Content: &content, ReadyToUse: &ready, RestoreSize: &size, CreationTime: &created,
		})
		in.Contents = append(in.Contents, volumeinfo.Content{Name: content, SnapshotUID: "snapshot-" + claim, Driver: "csi.example.dev", Handle: &handle, ReadyToUse: &ready, RestoreSize: &size})
		in.Operations = append(in.Operations, volumeinfo.Operation{ID: operationID(i), Namespace: app, Name: snapshot, Result: volumeinfo.Succeeded})
	}
	return in
}
