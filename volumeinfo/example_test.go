package volumeinfo_test

import (
	"fmt"

	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

func ExampleBuild() {
	records, gaps := volumeinfo.Build(volumeinfo.Inputs{
		Claims: []volumeinfo.Claim{{Namespace: "app", Name: "data", UID: "u1"}, {Namespace: "app", Name: "scratch", UID: "u2"}},
		Snapshots: []volumeinfo.Snapshot{
			{Namespace: "app", Name: "s1", UID: "u3", Claim: new("data"), ClaimUID: "u1", ReadyToUse: new(true)},
		},
		Contents: []volumeinfo.Content{{Name: "c1", SnapshotUID: "u3", Driver: "disk.csi.example.com", Handle: new("snap-0a")}},
	})
	for _, r := range records {
		fmt.Printf("%s: %s %q\n", r.Volume(), r.Result, r.Handle())
	}
	for _, g := range gaps {
		fmt.Println(g)
	}
	// Output:
	// app/data: succeeded "snap-0a"
	// app/scratch: failed ""
	// volume app/scratch: no snapshot found
}

func ExampleMerge() {
	records := []volumeinfo.BackupRecord{{
		PVCNamespace: "app", PVCName: "data", BackupMethod: volumeinfo.CSISnapshot,
		CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "snap-0a", OperationID: "op-1"},
	}}
	records, gaps := volumeinfo.Merge(records, []volumeinfo.Outcome{{OperationID: "op-1", Result: volumeinfo.Succeeded}})
	fmt.Println(records[0].Result, len(gaps))
	// Output: succeeded 0
}

func ExampleEncode() {
	data, err := volumeinfo.Encode([]volumeinfo.BackupRecord{{PVCNamespace: "app", PVCName: "data", Result: volumeinfo.Failed}})
	if err != nil {
		fmt.Println(err)
		return
	}
	records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
	fmt.Println(records[0].Volume(), records[0].Restorable(), err)
	// Output: app/data volume app/data: not restorable: failed: reason unknown <nil>
}

// The records of a backup by claim and by volume. Two records of one volume are a gap.
func ExampleNewIndex() {
	index, gaps := volumeinfo.NewIndex([]volumeinfo.BackupRecord{{
		PVCNamespace: "app", PVCName: "data", PVName: "pv-1", PVInfo: &volumeinfo.PVInfo{ReclaimPolicy: "Retain"},
	}})
	fmt.Println(len(gaps))
	namespace, claim, _ := index.ClaimOf("pv-1")
	fmt.Println(namespace, claim)
	pv, ok := index.PVOf("app", "data")
	fmt.Println(pv, ok)
	if r, ok := index.ByClaim("app", "data"); ok {
		fmt.Println(r.PVInfo.ReclaimPolicy)
	}
	_, ok = index.ByPV("pv-9")
	fmt.Println(ok)
	// Output:
	// 0
	// app data
	// pv-1 true
	// Retain
	// false
}

func ExampleTable() {
	fmt.Print(volumeinfo.Table([]volumeinfo.BackupRecord{
		{PVCNamespace: "app", PVCName: "data", PVName: "pv-1", BackupMethod: volumeinfo.CSISnapshot, Result: volumeinfo.Succeeded, CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "snap-0a", Size: new(int64(0))}},
		{PVCNamespace: "app", PVCName: "logs", PVName: "pv-2", BackupMethod: volumeinfo.CSISnapshot},
		{PVCNamespace: "app", PVCName: "nfs", Skipped: true, SkippedReason: "not a\nCSI volume\x1b[2J"},
	}))
	// Output:
	// NAMESPACE  CLAIM  VOLUME  METHOD       RESULT     SIZE  HANDLE   REASON
	// app        data   pv-1    CSISnapshot  succeeded  0     snap-0a  -
	// app        logs   pv-2    CSISnapshot  not final  -     -        -
	// app        nfs    -       -            skipped    -     -        not a CSI volume?[2J
}
