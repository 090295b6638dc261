package volumeinfo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// whole returns the inputs of one volume of which everything is known.
func whole() volumeinfo.Inputs {
	created := time.Date(2026, 5, 2, 10, 0, 0, 5, time.UTC)
	return volumeinfo.Inputs{
		Owner:  "backup-uid",
		Claims: []volumeinfo.Claim{{Namespace: "app", Name: "data", UID: "claim-uid", PV: "pv-1"}},
		PVs: []volumeinfo.PV{{
			Name: "pv-1", ClaimNamespace: "app", ClaimName: "data", ClaimUID: "claim-uid", Driver: "d", ReclaimPolicy: "Retain",
			Labels: map[string]string{"zone": "a"},
		}},
		Snapshots: []volumeinfo.Snapshot{{
			Namespace: "app", Name: "s1", UID: "snapshot-uid", OwnerUID: "backup-uid", Claim: new("data"), ClaimUID: "claim-uid",
			Content: new("content-1"), ReadyToUse: new(true), RestoreSize: new(int64(5)), CreationTime: &created,
		}},
		Contents: []volumeinfo.Content{{
			Name: "content-1", SnapshotUID: "snapshot-uid", Driver: "d", Handle: new("h1"), ReadyToUse: new(true), RestoreSize: new(int64(5)),
		}},
		Operations: []volumeinfo.Operation{{ID: "op-1", Namespace: "app", Name: "s1", Result: volumeinfo.Succeeded, Ended: created.Add(time.Minute)}},
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	created := metav1.NewTime(time.Date(2026, 5, 2, 10, 0, 0, 0, time.UTC))
	ended := metav1.NewTime(created.Add(time.Minute))
	full := func(change func(*volumeinfo.BackupRecord)) volumeinfo.BackupRecord {
		r := volumeinfo.BackupRecord{
			PVCNamespace: "app", PVCName: "data", PVCUID: "claim-uid", PVName: "pv-1", BackupMethod: volumeinfo.CSISnapshot, PreserveLocalSnapshot: true,
			StartTimestamp: &created, CompletionTimestamp: &ended, Result: volumeinfo.Succeeded,
			CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "h1", Size: new(int64(5)), Driver: "d", VSCName: "content-1", OperationID: "op-1", ReadyToUse: new(true)},
			PVInfo:          &volumeinfo.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"zone": "a"}},
		}
		change(&r)
		return r
	}
	nothing := func(*volumeinfo.BackupRecord) {}
	volume := volumeinfo.VolumeID{Namespace: "app", Claim: "data", ClaimUID: "claim-uid", PV: "pv-1"}
	noPV := volume
	noPV.PV = ""
	for name, tc := range map[string]struct {
		reason string
		change func(*volumeinfo.Inputs)
		want   []volumeinfo.BackupRecord
		gaps   []volumeinfo.Gap
	}{
		"everything known": {
			reason: "V1: the record says how the volume was handled",
			change: func(*volumeinfo.Inputs) {},
			want:   []volumeinfo.BackupRecord{full(nothing)},
		},
		"operation runs": {
			reason: "vol-5: a record that is not final says so",
			change: func(in *volumeinfo.Inputs) {
				in.Operations[0].Result, in.Operations[0].Ended = volumeinfo.NotFinal, time.Time{}
			},
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) { r.Result, r.CompletionTimestamp = volumeinfo.NotFinal, nil })},
			gaps: []volumeinfo.Gap{{Volume: volume, Object: "operation op-1", Reason: volumeinfo.StillRunning}},
		},
		"operation failed": {
			reason: "vol-6: an operation's failure is the record's, whatever the snapshot says",
			change: func(in *volumeinfo.Inputs) {
				in.Operations[0].Result, in.Operations[0].Error = volumeinfo.Failed, "deadline"
			},
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				r.Result, r.Error, r.PreserveLocalSnapshot = volumeinfo.Failed, "deadline", false
			})},
		},
		"no operation, ready": {
			reason: "a snapshot that is ready and has a handle succeeded",
			change: func(in *volumeinfo.Inputs) { in.Operations = nil },
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				r.CompletionTimestamp, r.CSISnapshotInfo.OperationID = nil, ""
			})},
		},
		"content without status": {
			reason: "vol-1, vol-2: absent status is unknown values, not zeros",
			change: func(in *volumeinfo.Inputs) {
				in.Contents[0] = volumeinfo.Content{Name: "content-1", SnapshotUID: "snapshot-uid"}
				in.Snapshots[0].RestoreSize, in.Snapshots[0].ReadyToUse, in.Operations = nil, nil, nil
			},
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				r.Result, r.CompletionTimestamp = volumeinfo.NotFinal, nil
				r.CSISnapshotInfo = &volumeinfo.CSISnapshotInfo{Driver: "d", VSCName: "content-1"}
			})},
			gaps: []volumeinfo.Gap{{Volume: volume, Object: "snapshot app/s1", Reason: volumeinfo.NoHandle}},
		},
		"snapshot of another owner": {
			reason: "vol-9: a same-named backup's snapshot is not ours",
			change: func(in *volumeinfo.Inputs) { in.Snapshots[0].OwnerUID, in.Operations = "older-backup", nil },
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				*r = volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "data", PVCUID: "claim-uid", PVName: "pv-1", PVInfo: r.PVInfo, Result: volumeinfo.Failed, Error: "no snapshot found"}
			})},
			gaps: []volumeinfo.Gap{
				{Volume: noPV, Object: "snapshot app/s1", Reason: volumeinfo.ForeignOwner},
				{Volume: volume, Reason: volumeinfo.NoSnapshot},
			},
		},
		"content of another snapshot of that name": {
			reason: "V2: a content is matched by the snapshot's UID where there is one",
			change: func(in *volumeinfo.Inputs) { in.Contents[0].SnapshotUID, in.Operations = "older-snapshot", nil },
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				r.Result, r.CompletionTimestamp, r.CSISnapshotInfo.SnapshotHandle, r.CSISnapshotInfo.OperationID = volumeinfo.NotFinal, nil, "", ""
			})},
			gaps: []volumeinfo.Gap{
				{Volume: volume, Object: "snapshot app/s1", Reason: volumeinfo.NoHandle},
				{Volume: volume, Object: "snapshot app/s1", Reason: volumeinfo.NoContent},
			},
		},
		"volume gone": {
			reason: "vol-10: a record is not dropped because the persistent volume is unknown",
			change: func(in *volumeinfo.Inputs) { in.PVs = nil },
			want:   []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) { r.PVInfo = nil })},
			gaps:   []volumeinfo.Gap{{Volume: volume, Object: "pv pv-1", Reason: volumeinfo.NoPV}},
		},
		"volume of another claim": {
			reason: "policy and labels of a volume that was bound again are not the claim's",
			change: func(in *volumeinfo.Inputs) { in.PVs[0].ClaimUID = "newer-claim" },
			want:   []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) { r.PVInfo = nil })},
			gaps:   []volumeinfo.Gap{{Volume: volume, Object: "pv pv-1", Reason: volumeinfo.ForeignPV}},
		},
		"volume of an older claim of that name": {
			reason: "V2: a persistent volume that names another UID is not found by the claim's name",
			change: func(in *volumeinfo.Inputs) { in.PVs[0].Name, in.PVs[0].ClaimUID = "pv-0", "older-claim" },
			want:   []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) { r.PVInfo = nil })},
			gaps:   []volumeinfo.Gap{{Volume: volume, Object: "pv pv-1", Reason: volumeinfo.NoPV}},
		},
		"volume that names its claim by name alone": {
			reason: "V2: without a UID the name decides",
			change: func(in *volumeinfo.Inputs) { in.PVs[0].Name, in.PVs[0].ClaimUID = "pv-0", "" },
			want:   []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) { r.PVName = "pv-0" })},
		},
		"claim gone": {
			reason: "vol-10: a snapshot whose claim is gone keeps its record",
			change: func(in *volumeinfo.Inputs) { in.Claims, in.PVs = nil, nil },
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				r.PVName, r.PVInfo = "", nil
			})},
			gaps: []volumeinfo.Gap{{Volume: noPV, Object: "snapshot app/s1", Reason: volumeinfo.NoClaim}},
		},
		"claim created again": {
			reason: "V2: the snapshot of a deleted claim is not the new claim's",
			change: func(in *volumeinfo.Inputs) {
				in.Claims[0].UID, in.PVs[0].ClaimUID, in.Operations = "new-claim", "new-claim", nil
			},
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				*r = volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "data", PVCUID: "new-claim", PVName: "pv-1", PVInfo: r.PVInfo, Result: volumeinfo.Failed, Error: "no snapshot found"}
			})},
			gaps: []volumeinfo.Gap{
				{Volume: noPV, Object: "snapshot app/s1", Reason: volumeinfo.Recreated},
				{Volume: volumeinfo.VolumeID{Namespace: "app", Claim: "data", ClaimUID: "new-claim", PV: "pv-1"}, Reason: volumeinfo.NoSnapshot},
			},
		},
		"skipped, with a snapshot": {
			reason: "vol-11: a skipped record carries no handle",
			change: func(in *volumeinfo.Inputs) {
				in.Operations = nil
				in.Skips = []volumeinfo.Skip{{Namespace: "app", Claim: "data", Reason: "excluded by label"}}
			},
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				*r = volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "data", PVCUID: "claim-uid", PVName: "pv-1", PVInfo: r.PVInfo, Skipped: true, SkippedReason: "excluded by label"}
			})},
			gaps: []volumeinfo.Gap{{Volume: volume, Object: "snapshot app/s1", Reason: volumeinfo.Contradicts}},
		},
		"skipped by its volume": {
			reason: "Velero's skips name the persistent volume",
			change: func(in *volumeinfo.Inputs) {
				in.Snapshots, in.Operations = nil, nil
				in.Skips = []volumeinfo.Skip{{PV: "pv-1"}, {PV: "pv-9", Reason: "hostPath"}}
			},
			want: []volumeinfo.BackupRecord{
				{PVName: "pv-9", Skipped: true, SkippedReason: "hostPath"},
				full(func(r *volumeinfo.BackupRecord) {
					*r = volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "data", PVCUID: "claim-uid", PVName: "pv-1", PVInfo: r.PVInfo, Skipped: true, SkippedReason: "reason unknown"}
				}),
			},
		},
		"two snapshots of a claim": {
			reason: "one record a volume: of several snapshots the one with a handle",
			change: func(in *volumeinfo.Inputs) {
				in.Snapshots = append(in.Snapshots, volumeinfo.Snapshot{Namespace: "app", Name: "s0", OwnerUID: "backup-uid", Claim: new("data")})
			},
			want: []volumeinfo.BackupRecord{full(nothing)},
			gaps: []volumeinfo.Gap{{Volume: noPV, Object: "snapshot app/s0", Reason: volumeinfo.Duplicate}},
		},
		"the caller's own record": {
			reason: "a volume handled in another way gets no second record",
			change: func(in *volumeinfo.Inputs) {
				in.Snapshots, in.Operations = nil, nil
				in.Records = []volumeinfo.BackupRecord{{PVCNamespace: "app", PVCName: "data", BackupMethod: volumeinfo.PodVolumeBackup}}
			},
			want: []volumeinfo.BackupRecord{{PVCNamespace: "app", PVCName: "data", BackupMethod: volumeinfo.PodVolumeBackup}},
		},
		"claim listed twice": {
			reason: "one record a volume, the one with the UID",
			change: func(in *volumeinfo.Inputs) {
				in.Claims = append(in.Claims, volumeinfo.Claim{Namespace: "app", Name: "data"})
			},
			want: []volumeinfo.BackupRecord{full(nothing)},
			gaps: []volumeinfo.Gap{{Volume: volumeinfo.VolumeID{Namespace: "app", Claim: "data"}, Object: "claim", Reason: volumeinfo.Duplicate}},
		},
		"no snapshot CRDs": {
			reason: "no snapshots at all is no panic and no CSI record",
			change: func(in *volumeinfo.Inputs) { in.Snapshots, in.Contents, in.Operations = nil, nil, nil },
			want: []volumeinfo.BackupRecord{full(func(r *volumeinfo.BackupRecord) {
				*r = volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "data", PVCUID: "claim-uid", PVName: "pv-1", PVInfo: r.PVInfo, Result: volumeinfo.Failed, Error: "no snapshot found"}
			})},
			gaps: []volumeinfo.Gap{{Volume: volume, Reason: volumeinfo.NoSnapshot}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := whole()
			tc.change(&in)
			records, gaps := volumeinfo.Build(in)
			if diff := cmp.Diff(tc.want, records); diff != "" {
				t.Errorf("%s: records (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.gaps, gaps); diff != "" {
				t.Errorf("%s: gaps (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// vol-4: for any legal object name each volume has its record.
func TestBuildLongNames(t *testing.T) {
	t.Parallel()
	var in volumeinfo.Inputs
	for i := range 20 {
		claim := strings.Repeat("n", 240) + fmt.Sprint(i)
		in.Claims = append(in.Claims, volumeinfo.Claim{Namespace: "app", Name: claim})
		in.Snapshots = append(in.Snapshots, volumeinfo.Snapshot{Namespace: "app", Name: "s-" + claim, Claim: &claim})
	}
	records, _ := volumeinfo.Build(in)
	for _, r := range records {
		if r.BackupMethod != volumeinfo.CSISnapshot {
			t.Errorf("volume %s has no CSI record", r.Volume())
		}
	}
	if len(records) != 20 {
		t.Errorf("Build(20 volumes) gave %d records", len(records))
	}
}

// V2, vol-3, vol-10: any field of any input may be absent; each volume has exactly one record, each snapshot and operation
// is in a record or a gap, each record has a result of the closed set or is a skip or has a gap that says it is not final.
func TestBuildGeneratedSubsets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4_000) {
		in, names := subset(rand.New(rand.NewPCG(seed, 1)))
		records, gaps := volumeinfo.Build(in)
		reverse(&in)
		againRecords, againGaps := volumeinfo.Build(in)
		if !bytes.Equal(text(t, records), text(t, againRecords)) || !slices.Equal(gaps, againGaps) {
			t.Fatalf("seed %d: the order of the inputs matters:\n%s", seed, cmp.Diff(records, againRecords)+cmp.Diff(gaps, againGaps))
		}
		if fault := unaccounted(in, names, records, gaps); fault != "" {
			t.Fatalf("seed %d: %s\nrecords: %+v\ngaps: %v\ninputs: %+v", seed, fault, records, gaps, in)
		}
	}
}

func text(t *testing.T, records []volumeinfo.BackupRecord) []byte {
	t.Helper()
	data, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unaccounted(in volumeinfo.Inputs, names []string, records []volumeinfo.BackupRecord, gaps []volumeinfo.Gap) string {
	count := map[string]int{}
	var text strings.Builder
	for _, g := range gaps {
		text.WriteString(g.String() + "\n")
	}
	operations, snapshots := map[string]bool{}, map[string]bool{}
	for _, r := range records {
		count[r.PVCName]++
		operations[r.OperationID()] = true
		snapshots[r.PVCName] = snapshots[r.PVCName] || r.CSISnapshotInfo != nil
		if r.Skipped && (r.Handle() != "" || r.SkippedReason == "") {
			return "a skipped record with a handle or without a reason: " + r.Volume().String()
		}
		if !r.Final() && r.CSISnapshotInfo == nil {
			return "neither a result nor a snapshot: " + r.Volume().String()
		}
	}
	for _, name := range names {
		if count[name] != 1 {
			return fmt.Sprintf("%d records of claim %s", count[name], name)
		}
	}
	for _, op := range in.Operations {
		if !operations[op.ID] && !strings.Contains(text.String(), "operation "+op.ID) {
			return "neither record nor gap of operation " + op.ID
		}
	}
	for _, s := range in.Snapshots {
		if !snapshots["c"+s.Name[1:]] && !strings.Contains(text.String(), "snapshot app/"+s.Name) {
			return "neither record nor gap of snapshot " + s.Name
		}
	}
	return ""
}

// subset returns three volumes with a random part of what is known of each.
func subset(r *rand.Rand) (in volumeinfo.Inputs, names []string) {
	maybe := func(s string) string { return [2]string{"", s}[r.IntN(2)] }
	for i := range 3 {
		n := fmt.Sprint(i)
		claimUID, snapshotUID := maybe("cu"+n), maybe("su"+n)
		c := volumeinfo.Claim{Namespace: "app", Name: "c" + n, UID: claimUID, PV: maybe("pv" + n)}
		names = append(names, c.Name)
		in.Claims = append(in.Claims, c)
		if r.IntN(4) > 0 {
			pv := volumeinfo.PV{Name: maybe("other-") + "pv" + n, ClaimNamespace: maybe("app"), ClaimName: maybe(c.Name), ClaimUID: maybe(claimUID), Driver: maybe("d")}
			if r.IntN(2) == 0 {
				pv.Labels = map[string]string{"a": "b"}
			}
			in.PVs = append(in.PVs, pv)
		}
		if r.IntN(4) > 0 {
			in.Snapshots = append(in.Snapshots, volumeinfo.Snapshot{
				Namespace: "app", Name: "s" + n, UID: maybe(snapshotUID), Claim: optional(r, c.Name), ClaimUID: maybe(claimUID), Content: optional(r, "vsc"+n),
				ReadyToUse: optional(r, r.IntN(2) == 0), RestoreSize: optional(r, int64(7)), CreationTime: optional(r, time.Unix(1e9, 0)), Error: maybe("bad"),
			})
		}
		if r.IntN(4) > 0 {
			in.Contents = append(in.Contents, volumeinfo.Content{
				Name: maybe("other-") + "vsc" + n, SnapshotUID: maybe(snapshotUID), Handle: optional(r, maybe("h"+n)), GroupHandle: optional(r, "g"),
				ReadyToUse: optional(r, true), RestoreSize: optional(r, int64(0)), CreationTime: optional(r, time.Unix(2e9, 0)), Driver: maybe("d"),
			})
		}
		if r.IntN(3) > 0 {
			result := []volumeinfo.Result{volumeinfo.NotFinal, volumeinfo.Succeeded, volumeinfo.Failed}[r.IntN(3)]
			in.Operations = append(in.Operations, volumeinfo.Operation{ID: "op" + n, Namespace: maybe("app"), Name: maybe("s" + n), Result: result})
		}
		if r.IntN(5) == 0 {
			in.Skips = append(in.Skips, volumeinfo.Skip{Namespace: "app", Claim: c.Name, ClaimUID: maybe(claimUID), PV: maybe("pv" + n), Reason: maybe("why")})
		}
		if r.IntN(8) == 0 {
			in.Records = append(in.Records, volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: c.Name, PVCUID: maybe(claimUID), Result: volumeinfo.Failed})
		}
	}
	return in, names
}

func optional[T any](r *rand.Rand, v T) *T {
	if r.IntN(2) == 0 {
		return nil
	}
	return &v
}
