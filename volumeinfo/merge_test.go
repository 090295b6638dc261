package volumeinfo_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// cut returns the record of a snapshot that is cut and not yet ready.
func cut(claim, operation string) volumeinfo.BackupRecord {
	return volumeinfo.BackupRecord{
		PVCNamespace: "app", PVCName: claim, PVCUID: "uid-" + claim, BackupMethod: volumeinfo.CSISnapshot, PreserveLocalSnapshot: true,
		CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "h-" + claim, OperationID: operation, ReadyToUse: new(false)},
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 5, 2, 11, 0, 0, 0, time.UTC)
	of := func(claim, uid string) volumeinfo.VolumeID {
		return volumeinfo.VolumeID{Namespace: "app", Claim: claim, ClaimUID: uid}
	}
	failed := cut("data", "op-1")
	failed.Result, failed.Error, failed.PreserveLocalSnapshot = volumeinfo.Failed, "earlier", false
	for name, tc := range map[string]struct {
		reason  string
		record  volumeinfo.BackupRecord
		outcome []volumeinfo.Outcome
		want    func(*volumeinfo.BackupRecord)
		gaps    []volumeinfo.Gap
	}{
		"succeeded": {
			reason:  "vol-5: the result reflects how the operation ended",
			record:  cut("data", "op-1"),
			outcome: []volumeinfo.Outcome{{OperationID: "op-1", Result: volumeinfo.Succeeded, Ended: ended, Ready: new(true), Size: new(int64(9))}},
			want: func(r *volumeinfo.BackupRecord) {
				r.Result, r.CompletionTimestamp = volumeinfo.Succeeded, new(metav1.NewTime(ended))
				r.CSISnapshotInfo.ReadyToUse, r.CSISnapshotInfo.Size = new(true), new(int64(9))
			},
		},
		"failed": {
			reason:  "what failed is not preserved, but its handle stays for who looks for leaks",
			record:  cut("data", "op-1"),
			outcome: []volumeinfo.Outcome{{OperationID: "op-1", Result: volumeinfo.Failed, Error: "storage full"}},
			want: func(r *volumeinfo.BackupRecord) {
				r.Result, r.Error, r.PreserveLocalSnapshot = volumeinfo.Failed, "storage full", false
			},
		},
		"still running": {
			reason:  "vol-5: a record that is not final says so",
			record:  cut("data", "op-1"),
			outcome: []volumeinfo.Outcome{{OperationID: "op-1"}},
			want:    func(*volumeinfo.BackupRecord) {},
			gaps:    []volumeinfo.Gap{{Volume: of("data", "uid-data"), Object: "operation op-1", Reason: volumeinfo.StillRunning}},
		},
		"a failure stays": {
			reason:  "an earlier error is never overwritten",
			record:  failed,
			outcome: []volumeinfo.Outcome{{OperationID: "op-1", Result: volumeinfo.Succeeded}},
			want:    func(*volumeinfo.BackupRecord) {},
			gaps:    []volumeinfo.Gap{{Volume: of("data", "uid-data"), Object: "operation op-1", Reason: volumeinfo.Contradicts}},
		},
		"its error stays": {
			reason:  "an earlier error is never overwritten",
			record:  failed,
			outcome: []volumeinfo.Outcome{{OperationID: "op-1", Result: volumeinfo.Failed, Error: "later"}},
			want:    func(*volumeinfo.BackupRecord) {},
		},
		"by claim uid": {
			reason:  "V2: without an operation in the record the claim's UID finds it, whatever its name",
			record:  cut("data", ""),
			outcome: []volumeinfo.Outcome{{OperationID: "op-9", Volume: of("renamed", "uid-data"), Result: volumeinfo.Succeeded}},
			want: func(r *volumeinfo.BackupRecord) {
				r.Result, r.CSISnapshotInfo.OperationID = volumeinfo.Succeeded, "op-9"
			},
		},
		"by claim name": {
			reason:  "without a UID the name finds it",
			record:  cut("data", ""),
			outcome: []volumeinfo.Outcome{{OperationID: "op-9", Volume: of("data", ""), Result: volumeinfo.Succeeded}},
			want: func(r *volumeinfo.BackupRecord) {
				r.Result, r.CSISnapshotInfo.OperationID = volumeinfo.Succeeded, "op-9"
			},
		},
		"another claim of that name": {
			reason:  "V2: a UID that differs speaks against the name",
			record:  cut("data", ""),
			outcome: []volumeinfo.Outcome{{OperationID: "op-9", Volume: of("data", "other"), Result: volumeinfo.Succeeded}},
			want:    func(*volumeinfo.BackupRecord) {},
			gaps: []volumeinfo.Gap{
				{Volume: of("data", "other"), Object: "operation op-9", Reason: volumeinfo.NoRecord},
				{Volume: of("data", "uid-data"), Object: "record", Reason: volumeinfo.NoResult},
			},
		},
		"another operation of that claim": {
			reason:  "a record with an operation of its own listens to no other",
			record:  cut("data", "op-1"),
			outcome: []volumeinfo.Outcome{{OperationID: "op-1", Result: volumeinfo.Succeeded}, {OperationID: "op-0", Volume: of("data", "uid-data"), Result: volumeinfo.Failed}},
			want:    func(r *volumeinfo.BackupRecord) { r.Result = volumeinfo.Succeeded },
			gaps:    []volumeinfo.Gap{{Volume: of("data", "uid-data"), Object: "operation op-0", Reason: volumeinfo.OtherOperation}},
		},
		"skipped": {
			reason:  "vol-11: a skipped record never gets a handle or a result",
			record:  volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "data", Skipped: true, SkippedReason: "r"},
			outcome: []volumeinfo.Outcome{{OperationID: "op-1", Volume: of("data", ""), Result: volumeinfo.Succeeded, Handle: "h"}},
			want:    func(*volumeinfo.BackupRecord) {},
			gaps:    []volumeinfo.Gap{{Volume: of("data", ""), Object: "operation op-1", Reason: volumeinfo.Contradicts}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, err := volumeinfo.Encode([]volumeinfo.BackupRecord{tc.record})
			if err != nil {
				t.Fatal(err)
			}
			got, gaps := volumeinfo.Merge([]volumeinfo.BackupRecord{tc.record}, tc.outcome)
			after, err := volumeinfo.Encode([]volumeinfo.BackupRecord{tc.record})
			if err != nil || string(before) != string(after) {
				t.Errorf("Merge changed its argument (%v)", err)
			}
			want := tc.record
			if want.CSISnapshotInfo != nil {
				want.CSISnapshotInfo = new(*want.CSISnapshotInfo)
			}
			tc.want(&want)
			if diff := cmp.Diff([]volumeinfo.BackupRecord{want}, got); diff != "" {
				t.Errorf("%s: records (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.gaps, gaps); diff != "" {
				t.Errorf("%s: gaps (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// F4, vol-6: merging twice, or the outcomes in another order, gives the same; succeeded, failed and skipped are all there is
// once every operation has ended.
func TestMergeAgain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		records := []volumeinfo.BackupRecord{{PVCNamespace: "app", PVCName: "x", Skipped: true, SkippedReason: "r"}}
		var outcomes []volumeinfo.Outcome
		for i := range 8 {
			name := string(rune('a' + i))
			records = append(records, cut(name, "op-"+name))
			outcomes = append(outcomes, volumeinfo.Outcome{
				OperationID: "op-" + name, Result: []volumeinfo.Result{volumeinfo.Succeeded, volumeinfo.Failed}[r.IntN(2)], Error: "e" + name,
			})
		}
		once, gaps := volumeinfo.Merge(records, outcomes)
		r.Shuffle(len(outcomes), func(i, j int) { outcomes[i], outcomes[j] = outcomes[j], outcomes[i] })
		twice, gapsAgain := volumeinfo.Merge(once, outcomes)
		if diff := cmp.Diff(once, twice) + cmp.Diff(gaps, gapsAgain); diff != "" {
			t.Fatalf("seed %d: a second merge changed something:\n%s", seed, diff)
		}
		if i := slices.IndexFunc(twice, func(r volumeinfo.BackupRecord) bool { return !r.Final() }); i >= 0 || len(gaps) > 0 {
			t.Fatalf("seed %d: not final after every operation ended: %d, gaps %v", seed, i, gaps)
		}
	}
}

// vol-8, vol-11: only a volume with a final success and a handle may be restored.
func TestRestorable(t *testing.T) {
	t.Parallel()
	good := cut("data", "op")
	good.Result = volumeinfo.Succeeded
	if err := good.Restorable(); err != nil {
		t.Errorf("Restorable() of a success = %v", err)
	}
	for name, change := range map[string]func(*volumeinfo.BackupRecord){
		"skipped":   func(r *volumeinfo.BackupRecord) { r.Skipped = true },
		"failed":    func(r *volumeinfo.BackupRecord) { r.Result = volumeinfo.Failed },
		"not final": func(r *volumeinfo.BackupRecord) { r.Result = volumeinfo.NotFinal },
		"unknown":   func(r *volumeinfo.BackupRecord) { r.Result = "canceled" },
		"no handle": func(r *volumeinfo.BackupRecord) {
			r.CSISnapshotInfo = &volumeinfo.CSISnapshotInfo{SnapshotHandle: volumeinfo.Unknown}
		},
		"moved, without a copy": func(r *volumeinfo.BackupRecord) {
			r.SnapshotDataMovementInfo = &volumeinfo.SnapshotDataMovementInfo{}
		},
	} {
		r := good
		change(&r)
		if err := r.Restorable(); !errors.Is(err, volumeinfo.ErrNotRestorable) {
			t.Errorf("%s: Restorable() = %v, want ErrNotRestorable", name, err)
		}
	}
}
