package volumekube_test

import (
	"testing"
	"testing/synctest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
	"github.com/sheetanchor/sheetanchor/volumeinfo/volumekube"
)

// V1, V2: what a plan skipped is recorded with its reason and is no failure; what nobody skipped, and has no snapshot, is one.
func TestCollectSkipped(t *testing.T) {
	t.Parallel()
	nfs := csisnapshot.Skip{Namespace: "app", Claim: "media", Code: csisnapshot.SkipNotCSI, Reason: "not CSI (nfs)", PV: "pv-media"}
	gone := csisnapshot.Skip{Namespace: "app", Claim: "gone", Code: csisnapshot.SkipNotBound, Reason: "not bound (Pending)"}
	known := map[string]string{"data": "succeeded", "media": "not CSI (nfs)"}
	unknown := map[string]string{"data": "succeeded", "media": "failed"}
	all := map[string]string{"data": "succeeded", "media": "not CSI (nfs)", "gone": "not bound (Pending)"}
	for name, tc := range map[string]struct {
		reason  string
		skipped []csisnapshot.Skip
		want    map[string]string // claim: reason of the skip, or result
		gaps    int
	}{
		"skipped":     {"the plan knows why", []csisnapshot.Skip{nfs}, known, 0},
		"not skipped": {"it was to be backed up", nil, unknown, 1},
		"deleted":     {"the claim was there when it was skipped", []csisnapshot.Skip{nfs, gone}, all, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				objects := append(backedUp("data", "owner"), backuptest.Claim{Namespace: "app", Name: "media", NFS: true}.Objects()...)
				cluster := backuptest.New(t, backuptest.Options{Objects: objects})
				got, err := collect(t.Context(), t, cluster.Config(), volumekube.Options{Owner: "owner", Skipped: tc.skipped})
				if err != nil {
					t.Fatal(err)
				}
				records, gaps := volumeinfo.Build(got.Inputs)
				if len(records) != len(tc.want) || len(gaps) != tc.gaps {
					t.Errorf("%s: %d records and gaps %v, want %d and %d", tc.reason, len(records), gaps, len(tc.want), tc.gaps)
				}
				for _, r := range records {
					is := string(r.Result)
					if r.Skipped {
						is = r.SkippedReason
					}
					if is != tc.want[r.PVCName] {
						t.Errorf("%s: %s is %q, want %q", tc.reason, r.PVCName, is, tc.want[r.PVCName])
					}
				}
			})
		})
	}
}
