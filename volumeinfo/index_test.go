package volumeinfo_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// V3: the claim of a persistent volume and the persistent volume of a claim, for every record.
func TestIndexBothWays(t *testing.T) {
	t.Parallel()
	var records []volumeinfo.BackupRecord
	for i := range 1_000 {
		records = append(records, volumeinfo.BackupRecord{PVCNamespace: fmt.Sprintf("ns-%d", i%7), PVCName: fmt.Sprintf("c-%d", i), PVName: fmt.Sprintf("pv-%d", i)})
	}
	index, gaps := volumeinfo.NewIndex(records)
	if len(gaps) != 0 {
		t.Fatalf("NewIndex gave gaps: %v", gaps)
	}
	for _, r := range records {
		pv, ok := index.PVOf(r.PVCNamespace, r.PVCName)
		ns, claim, back := index.ClaimOf(r.PVName)
		if !ok || !back || pv != r.PVName || ns != r.PVCNamespace || claim != r.PVCName {
			t.Fatalf("%s: volume %q, and back %s/%s", r.Volume(), pv, ns, claim)
		}
	}
	if _, ok := index.ByClaim("ns-0", "c-1"); ok {
		t.Error("a claim of another namespace was found")
	}
	var zero volumeinfo.Index[volumeinfo.RestoreRecord]
	if _, ok := zero.ByPV("pv-1"); ok {
		t.Error("the zero index found something")
	}
}

func TestIndexHalves(t *testing.T) {
	t.Parallel()
	records := []volumeinfo.RestoreRecord{
		{PVCNamespace: "app", PVCName: "unbound"},
		{PVName: "pv-only"},
		{PVCNamespace: "app", PVCName: "data", PVName: "pv-1"},
		{PVCNamespace: "app", PVCName: "data", PVName: "pv-2"},
		{},
	}
	index, gaps := volumeinfo.NewIndex(records)
	want := []volumeinfo.Gap{{Volume: volumeinfo.VolumeID{Namespace: "app", Claim: "data", PV: "pv-2"}, Object: "record", Reason: volumeinfo.Duplicate}}
	if diff := cmp.Diff(want, gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	if pv, ok := index.PVOf("app", "unbound"); ok {
		t.Errorf("PVOf(an unbound claim) = %q", pv)
	}
	if _, _, ok := index.ClaimOf("pv-only"); ok {
		t.Error("ClaimOf(a volume without a claim) found one")
	}
	if pv, _ := index.PVOf("app", "data"); pv != "pv-1" {
		t.Errorf("PVOf(a claim recorded twice) = %q, want the first", pv)
	}
	if r, ok := index.ByPV("pv-2"); !ok || r.PVCName != "data" {
		t.Errorf("ByPV(pv-2) = %v, %v", r, ok)
	}
}
