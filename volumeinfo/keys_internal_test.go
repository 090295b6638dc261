package volumeinfo

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestKeysAreTheStructTags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value any
		keys  []string
	}{
		{BackupRecord{}, backupKeys},
		{RestoreRecord{}, restoreKeys},
		{CSISnapshotInfo{}, csiKeys},
		{SnapshotDataMovementInfo{}, movementKeys},
		{NativeSnapshotInfo{}, nativeKeys},
		{PodVolumeInfo{}, podVolumeKeys},
		{PVInfo{}, pvKeys},
	} {
		typ := reflect.TypeOf(tc.value)
		var tags []string
		for field := range typ.Fields() {
			if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag != "-" {
				tags = append(tags, tag)
			}
		}
		if !slices.Equal(tags, tc.keys) {
			t.Errorf("%v: keys = %q, want the tags %q", typ, tc.keys, tags)
		}
	}
}

// V2, vol-13: the inputs looked at grow as the volumes do, whatever the clock of the machine says.
func TestBuildIsLinear(t *testing.T) {
	t.Parallel()
	_, _, half := build(manyInputs(5_000))
	records, gaps, whole := build(manyInputs(10_000))
	if len(records) != 10_000 || len(gaps) != 0 {
		t.Fatalf("build(10000 volumes) gave %d records and %d gaps", len(records), len(gaps))
	}
	if whole > 2*half || whole > 30*10_000 {
		t.Errorf("inputs looked at: %d for 5000 volumes, %d for 10000, want at most twice as many", half, whole)
	}
}

func BenchmarkBuild10000(b *testing.B) {
	in := manyInputs(10_000)
	b.ReportAllocs()
	for b.Loop() {
		build(in)
	}
}
