package finalize_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// What a backup writes down as soon as everything is cut: the records of the volumes, and what went wrong beside them.
func ExampleVolumeRecords() {
	ctx := context.Background()
	store := operations.NewMemoryStore()
	report := &csisnapshot.Report{ // what Cut returned
		Volumes: []csisnapshot.VolumeReport{
			{Namespace: "shop", Claim: "data", Handle: new("snap-0a1b"), OperationID: "shop/snap-1/2026-05-02T10:00:00Z"},
			{Namespace: "shop", Claim: "media", PV: "pv-3", Skipped: "not CSI (nfs)"},
		},
		Batches: []csisnapshot.BatchReport{{Pods: []csisnapshot.PodReport{
			{Namespace: "shop", Name: "db-0", Hooked: true, Err: errors.New("freeze: exit code 1")},
		}}},
	}
	records := finalize.VolumeRecords(report)
	data, err := volumeinfo.Encode(records)
	if err != nil {
		panic(err)
	}
	if err := operations.NewSlot(store, "backups/nightly/nightly-volumeinfo.json.gz").Save(ctx, data); err != nil {
		panic(err)
	}
	for _, r := range records {
		fmt.Printf("%v %q %q\n", r.Volume(), r.Handle(), r.SkippedReason)
	}
	file := operations.NewSlot(store, "backups/nightly/nightly-results.gz")
	for range 2 { // again, after a crash: nothing is said twice
		if _, err := finalize.AddResults(ctx, file, finalize.CutResults(report)); err != nil {
			panic(err)
		}
	}
	if data, err = file.Load(ctx); err != nil {
		panic(err)
	}
	results, err := finalize.DecodeResults(data, 0)
	fmt.Println(results.Errors.Len(), "error", err)
	// Output:
	// shop/data "snap-0a1b" ""
	// shop/media "" "not CSI (nfs)"
	// 1 error <nil>
}

// The file of results says what failed among the operations, which volumes were skipped, and what the user's own check found.
func ExampleMergeResults() {
	ctx := context.Background()
	store := operations.NewMemoryStore()
	backup := operations.Key{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	ops, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		panic(err)
	}
	_, err = ops.Update(ctx, backup, func(l *operations.List) error {
		return l.Merge(operations.Operation{
			ID: "copy-1", Action: "example.dev/copy",
			Resource: operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
			Status:   operations.Status{Phase: operations.PhaseFailed, Error: "no space left"},
		})
	})
	if err != nil {
		panic(err)
	}
	volumes := operations.NewSlot(store, "backups/nightly/nightly-volumeinfo.json.gz")
	file := operations.NewSlot(store, "backups/nightly/nightly-results.gz")
	data, err := volumeinfo.Encode([]volumeinfo.BackupRecord{{PVCNamespace: "shop", PVCName: "media", Skipped: true, SkippedReason: "not CSI (nfs)"}})
	if err != nil {
		panic(err)
	}
	if err := volumes.Save(ctx, data); err != nil {
		panic(err)
	}
	own := func(context.Context) (results finalize.Results, err error) {
		results.Warnings.AddVelero("the bucket is nearly full")
		return results, nil
	}
	write := finalize.MergeResults(file, []finalize.ResultSource{
		finalize.OperationResults(ops, backup), finalize.SkippedVolumes(volumes), own,
	})
	runner, err := finalize.New([]finalize.Hook{write}, finalize.Options{})
	if err != nil {
		panic(err)
	}
	if _, err := runner.Run(ctx); err != nil {
		panic(err)
	}
	if data, err = file.Load(ctx); err != nil {
		panic(err)
	}
	results, err := finalize.DecodeResults(data, 0)
	fmt.Println(results.Errors.Namespaces["shop"], results.Warnings.Namespaces["shop"], results.Warnings.Velero, err)
	// Output:
	// [operation copy-1: shop/data: no space left] [volume: shop/media: skipped: not CSI (nfs)] [the bucket is nearly full] <nil>
}

// A hook says whether trying again helps, and what is no failure at all; a last hook tells what became of the others.
func ExamplePermanent() {
	tries := 0
	runner, err := finalize.New([]finalize.Hook{
		{Name: "unmount", Retries: 5, Run: func(context.Context) error {
			tries++
			return finalize.Permanent(errors.New("no such mount"))
		}},
		{Name: "index", Run: func(context.Context) error {
			return finalize.Warning(finalize.Item("shop", "media", errors.New("not indexed: not CSI (nfs)")))
		}},
		{Name: "notify", After: []string{"unmount", "index"}, Timeout: time.Minute, Run: func(ctx context.Context) error {
			report, _ := finalize.SoFar(ctx)
			for _, h := range report.Hooks {
				if h.State.Ended() {
					fmt.Println(h.Name, h.State)
				}
			}
			return nil
		}},
	}, finalize.Options{Parallelism: 1})
	if err != nil {
		panic(err)
	}
	report, err := runner.Run(context.Background())
	fmt.Println(report.Errors(), report.Warnings(), tries, err)
	// Output:
	// unmount failed
	// index succeeded
	// 1 1 1 <nil>
}

// unfreezer stands for a csisnapshot.Snapshotter whose process before was killed between freeze and thaw.
type unfreezer struct{}

func (unfreezer) Thaw(context.Context, csisnapshot.Owner) ([]csisnapshot.ThawReport, error) {
	return []csisnapshot.ThawReport{{Pod: csisnapshot.PodRef{Namespace: "shop", Name: "db-0"}, Outcome: csisnapshot.ThawDone}}, nil
}

// The first of the last steps, in every backup: whatever happened before, no pod stays frozen.
func ExampleThawPods() {
	owner := csisnapshot.Owner{Namespace: "velero", Name: "nightly", UID: "5e1f"}
	runner, err := finalize.New([]finalize.Hook{finalize.ThawPods(unfreezer{}, owner)}, finalize.Options{})
	if err != nil {
		panic(err)
	}
	report, err := runner.Run(context.Background())
	fmt.Println(report.Hooks[0].Name, report.Hooks[0].State, report.Errors(), err)
	// Output:
	// thaw-pods succeeded 0 <nil>
}
