package volumeinfo_test

import (
	"fmt"

	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// What a restore wrote down, as Velero's file NAME-restore-volumeinfo.json.gz.
func ExampleDecodeRestore() {
	data, err := volumeinfo.Encode([]volumeinfo.RestoreRecord{
		{PVCNamespace: "app", PVCName: "data", PVName: "pv-7", RestoreMethod: volumeinfo.CSISnapshot},
		{PVCNamespace: "app", PVCName: "scratch"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	records, err := volumeinfo.DecodeRestore(data, volumeinfo.Limits{})
	for _, r := range records {
		fmt.Printf("%v: %q in %q\n", r.Volume(), r.RestoreMethod, r.PVName)
	}
	fmt.Println(err)
	// Output:
	// app/data: "CSISnapshot" in "pv-7"
	// app/scratch: "" in ""
	// <nil>
}

// Which operations a backup still waits for: the records that are not final say.
func ExampleBackupRecord() {
	for _, r := range []volumeinfo.BackupRecord{
		{PVCNamespace: "app", PVCName: "nfs", Skipped: true, SkippedReason: "not CSI (nfs)"},
		{
			PVCNamespace: "app", PVCName: "data", BackupMethod: volumeinfo.CSISnapshot,
			CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "snap-0a", OperationID: "op-1"},
		},
	} {
		if !r.Final() {
			fmt.Println(r.Volume(), "waits for", r.OperationID())
		}
	}
	// Output:
	// app/data waits for op-1
}
