package finalize_test

import (
	"context"
	"fmt"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// printer stands for a csisnapshot.Snapshotter.
type printer struct{}

func (printer) Release(_ context.Context, _ csisnapshot.Owner, refs ...csisnapshot.Ref) (*csisnapshot.ReleaseReport, error) {
	fmt.Println("release", refs)
	return &csisnapshot.ReleaseReport{}, nil
}

func (printer) Destroy(_ context.Context, _ csisnapshot.Owner, refs ...csisnapshot.Ref) (*csisnapshot.ReleaseReport, error) {
	fmt.Println("destroy", refs)
	return &csisnapshot.ReleaseReport{}, nil
}

// The last steps of a backup: let go of the snapshots, then write down what became of the volumes, then what went wrong.
func Example() {
	ctx := context.Background()
	store := operations.NewMemoryStore()
	backup := operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	owner := csisnapshot.Owner{Namespace: backup.Namespace, Name: backup.Name, UID: backup.UID}
	ops, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	volumes := operations.NewSlot(store, "backups/nightly/nightly-volumeinfo.json.gz")
	results := operations.NewSlot(store, "backups/nightly/nightly-results.gz")

	// What the steps before have left: an operation that has ended, and the record of its volume.
	snapshot := operations.Operation{
		ID: "shop/snap-1/2026-05-02T10:00:00Z", Action: csisnapshot.ActionName,
		Resource: operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
		Status:   operations.Status{Phase: operations.PhaseCompleted},
	}
	if _, err := ops.Update(ctx, backup, func(l *operations.List) error { return l.Merge(snapshot) }); err != nil {
		panic(err)
	}
	data, err := volumeinfo.Encode([]volumeinfo.BackupRecord{{
		PVCNamespace: "shop", PVCName: "data", BackupMethod: volumeinfo.CSISnapshot,
		CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "snap-0a1b", OperationID: snapshot.ID},
	}})
	if err != nil {
		panic(err)
	}
	if err := volumes.Save(ctx, data); err != nil {
		panic(err)
	}

	release := finalize.ReleaseSnapshots(printer{}, owner, ops, backup)
	info := finalize.WriteVolumeInfo(volumes, ops, backup, release.Name)
	errs := finalize.WriteResults(results, ops, backup, info.Name)
	runner, err := finalize.New([]finalize.Hook{release, info, errs}, finalize.Options{
		Checkpoint: operations.NewSlot(store, "backups/nightly/finalize.json"), UID: string(backup.UID),
	})
	if err != nil {
		panic(err)
	}
	report, err := runner.Run(ctx) // a reconciler calls Step
	if err != nil {
		panic(err)
	}
	for _, h := range report.Hooks {
		fmt.Println(h.Name, h.State)
	}
	if data, err = volumes.Load(ctx); err != nil {
		panic(err)
	}
	records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
	fmt.Println(records[0].PVCName, records[0].Result, records[0].Handle(), err)
	// Output:
	// release [shop/snap-1]
	// release-snapshots succeeded
	// write-volumeinfo succeeded
	// write-results succeeded
	// data succeeded snap-0a1b <nil>
}
