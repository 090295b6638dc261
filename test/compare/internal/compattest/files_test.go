package compattest_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	velerobackup "github.com/vmware-tanzu/velero/pkg/backup"
	"github.com/vmware-tanzu/velero/pkg/itemoperation"
	"github.com/vmware-tanzu/velero/pkg/persistence"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	"github.com/vmware-tanzu/velero/pkg/util/encode"
	"github.com/vmware-tanzu/velero/pkg/util/results"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

const name = "nightly"

var (
	key  = operations.Key{Namespace: velerotest.Namespace, Name: name, UID: "b0b0b0b0-0000-4000-8000-000000000001"}
	when = time.Date(2026, 12, 1, 1, 2, 3, 0, time.UTC)
)

func newStore(t *testing.T) persistence.BackupStore {
	t.Helper()
	store, err := (&velerotest.Objects{}).Store()
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// encoded is v as Velero writes it.
func encoded(t *testing.T, v any) []byte {
	t.Helper()
	buf, errs := encode.ToJSONGzip(v, "it")
	if errs != nil {
		t.Fatal(errors.Join(errs...))
	}
	return buf.Bytes()
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// ours are operations in every phase, and theirs the same as Velero has them.
func ours(t *testing.T, post bool) operations.List {
	t.Helper()
	var all []operations.Operation
	for i, p := range []operations.Phase{operations.PhaseNew, operations.PhaseInProgress, operations.PhaseCompleted, operations.PhaseFailed, operations.PhaseCanceled, operations.PhaseAbandoned} {
		op := operations.Operation{
			ID: string(p), Action: "example.io/action", Resource: operations.ResourceID{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots", Namespace: "app", Name: "data"},
			Status: operations.Status{Phase: p, Completed: int64(i), Total: 9, Units: "Bytes", Description: "under way", Created: &when, Started: &when, Updated: &when},
		}
		if p.IsTerminal() && p != operations.PhaseCompleted {
			op.Status.Error = "no luck"
		}
		if post {
			op.PostItems = []operations.ResourceID{{Resource: "persistentvolumeclaims", Namespace: "app", Name: "data"}}
		}
		all = append(all, op)
	}
	list, err := operations.NewList(all...)
	must(t, err)
	return list
}

// status is a status of ours as Velero reads it: it knows no cancel.
func status(s operations.Status) itemoperation.OperationStatus {
	phase := itemoperation.OperationPhase(s.Phase)
	if s.Phase == operations.PhaseCanceled || s.Phase == operations.PhaseAbandoned {
		phase = itemoperation.OperationPhaseFailed
	}
	at := metav1.NewTime(when)
	return itemoperation.OperationStatus{
		Phase: phase, Error: s.Error, NCompleted: s.Completed, NTotal: s.Total, OperationUnits: s.Units, Description: s.Description, Created: &at, Started: &at, Updated: &at,
	}
}

func identifier(r operations.ResourceID) velero.ResourceIdentifier {
	return velero.ResourceIdentifier{GroupResource: schema.GroupResource{Group: r.Group, Resource: r.Resource}, Namespace: r.Namespace, Name: r.Name}
}

func theirs(list operations.List) (all []*itemoperation.BackupOperation) {
	for op := range list.All() {
		spec := itemoperation.BackupOperationSpec{BackupName: key.Name, BackupUID: string(key.UID), BackupItemAction: op.Action, OperationID: op.ID, ResourceIdentifier: identifier(op.Resource)}
		for _, item := range op.PostItems {
			spec.PostOperationItems = append(spec.PostOperationItems, identifier(item))
		}
		all = append(all, &itemoperation.BackupOperation{Spec: spec, Status: status(op.Status)})
	}
	return all
}

// O14: Velero reads our operations of a backup and of a restore, and we read Velero's.
func TestOperations(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	list := ours(t, true)
	data, err := operations.BackupForm.Encode(key, list)
	must(t, err, store.PutBackupItemOperations(name, bytes.NewReader(data)))
	got, err := store.GetBackupItemOperations(name)
	must(t, err)
	if diff := cmp.Diff(theirs(list), got); diff != "" {
		t.Errorf("Velero reads our file (-want +got):\n%s", diff)
	}
	back, err := operations.BackupForm.Decode(key, encoded(t, theirs(list)))
	must(t, err)
	if diff := cmp.Diff(theirs(list), theirs(back)); diff != "" {
		t.Errorf("we read Velero's file (-want +got):\n%s", diff)
	}

	list = ours(t, false)
	data, err = operations.RestoreForm.Encode(key, list)
	must(t, err, store.PutRestoreItemOperations(name, bytes.NewReader(data)))
	restored, err := store.GetRestoreItemOperations(name)
	must(t, err)
	var want []*itemoperation.RestoreOperation
	for _, op := range theirs(list) {
		want = append(want, &itemoperation.RestoreOperation{
			Spec:   itemoperation.RestoreOperationSpec{RestoreName: key.Name, RestoreUID: string(key.UID), RestoreItemAction: op.Spec.BackupItemAction, OperationID: op.Spec.OperationID, ResourceIdentifier: op.Spec.ResourceIdentifier},
			Status: op.Status,
		})
	}
	if diff := cmp.Diff(want, restored); diff != "" {
		t.Errorf("Velero reads our restore's file (-want +got):\n%s", diff)
	}
	back, err = operations.RestoreForm.Decode(key, encoded(t, want))
	must(t, err)
	if diff := cmp.Diff(theirs(list), theirs(back)); diff != "" {
		t.Errorf("we read Velero's restore's file (-want +got):\n%s", diff)
	}
}

// V3: what Velero's builder records of a CSI snapshot we read, and Velero reads what we make of it.
func TestVolumeInfo(t *testing.T) {
	t.Parallel()
	request := &velerobackup.Request{}
	info := &request.VolumesInformation
	info.Init()
	info.BackupName = name
	info.SkippedPVs = map[string]string{"pv-skipped": "by policy"}
	for claim, pv := range map[string]string{"data": "pv-data", "skipped": "pv-skipped"} {
		volume := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pv, Labels: map[string]string{"team": "blue"}}}
		volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		info.InsertPVMap(volume, claim, "app")
	}
	claim, content, handle, ready, size := "data", "content", "handle", true, resource.MustParse("1Gi")
	built := info.Result([]snapshotv1.VolumeSnapshot{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "snap", Labels: map[string]string{velerov1.BackupNameLabel: name}},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
		Status:     &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &content, ReadyToUse: &ready, RestoreSize: &size, CreationTime: &metav1.Time{Time: when}},
	}}, []snapshotv1.VolumeSnapshotContent{{
		ObjectMeta: metav1.ObjectMeta{Name: content}, Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: "csi.example.dev"},
		Status: &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: &handle},
	}}, nil, nil, velerotest.Logger())
	records, err := volumeinfo.DecodeBackup(encoded(t, built), volumeinfo.Limits{})
	must(t, err)
	byClaim, gaps := volumeinfo.NewIndex(records)
	data, _ := byClaim.ByClaim("app", "data")
	skipped, _ := byClaim.ByClaim("app", "skipped")
	if len(records) != 2 || len(gaps) > 0 || data.Handle() != handle || *data.CSISnapshotInfo.Size != 1<<30 || !*data.CSISnapshotInfo.ReadyToUse ||
		data.PVInfo.ReclaimPolicy != "Retain" || data.PVInfo.Labels["team"] != "blue" || !skipped.Skipped || skipped.SkippedReason != "by policy" {
		t.Errorf("we read Velero's records as %+v, gaps %v", records, gaps)
	}

	file, err := volumeinfo.Encode(records)
	store := newStore(t)
	must(t, err, store.PutBackupVolumeInfos(name, bytes.NewReader(file)))
	got, err := store.GetBackupVolumeInfos(name)
	must(t, err)
	if len(got) != len(built) {
		t.Fatalf("Velero reads %d of our records, want %d", len(got), len(built))
	}
	for _, want := range built {
		found := false
		for _, g := range got {
			if g.PVCName == want.PVCName {
				found = true
				if diff := cmp.Diff(want, g); diff != "" {
					t.Errorf("Velero reads its record of %s from our file (-want +got):\n%s", g.PVCName, diff)
				}
			}
		}
		if !found {
			t.Errorf("Velero does not find its record of %s in our file", want.PVCName)
		}
	}
}

// F2: results files go both ways.
func TestResults(t *testing.T) {
	t.Parallel()
	var mine finalize.Results
	mine.Errors.AddVelero("the store is full")
	mine.Errors.Add("app", "no snapshot")
	mine.Warnings.Add("", "a volume is gone")
	data, err := finalize.EncodeResults(mine)
	store := newStore(t)
	must(t, err, store.PutRestoreResults(name, name, bytes.NewReader(data)))
	got, err := store.GetRestoreResults(name)
	must(t, err)
	want := map[string]results.Result{
		"errors":   {Velero: []string{"the store is full"}, Namespaces: map[string][]string{"app": {"no snapshot"}}},
		"warnings": {Cluster: []string{"a volume is gone"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Velero reads our results (-want +got):\n%s", diff)
	}
	back, err := finalize.DecodeResults(encoded(t, want), 0)
	must(t, err)
	if diff := cmp.Diff(mine, back); diff != "" {
		t.Errorf("we read Velero's results (-want +got):\n%s", diff)
	}
}
