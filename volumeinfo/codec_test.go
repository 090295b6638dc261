package volumeinfo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/internal/golden"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// V1, vol-7: a file Velero wrote is read and written without a change of meaning.
func TestVeleroFileSurvives(t *testing.T) {
	t.Parallel()
	t.Run("backup", func(t *testing.T) {
		t.Parallel()
		source := readFile(t, "backup-velero-1.18.json")
		records, err := volumeinfo.DecodeBackup(zipped(t, source), volumeinfo.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, source, records)
		moved, plain := records[0], records[1]
		if plain.CSISnapshotInfo.ReadyToUse == nil || !*plain.CSISnapshotInfo.ReadyToUse || moved.CSISnapshotInfo.ReadyToUse != nil {
			t.Errorf("ReadyToUse = %v and %v, want true and absent", plain.CSISnapshotInfo.ReadyToUse, moved.CSISnapshotInfo.ReadyToUse)
		}
		if moved.Handle() != "" || moved.OperationID() != "du-1.2" || moved.Final() {
			t.Errorf("moved: handle %q, operation %q, final %v, want none, du-1.2, false: \"unknown\" is no value", moved.Handle(), moved.OperationID(), moved.Final())
		}
	})
	t.Run("restore", func(t *testing.T) {
		t.Parallel()
		source := readFile(t, "restore-velero-1.18.json")
		records, err := volumeinfo.DecodeRestore(zipped(t, source), volumeinfo.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		// Encode sorts: the record without a namespace comes first.
		slices.SortFunc(records, func(a, b volumeinfo.RestoreRecord) int { return a.Volume().Compare(b.Volume()) })
		list := anyJSON(t, source).([]any)
		sorted, err := json.Marshal([]any{list[2], list[0], list[1]})
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, sorted, records)
	})
}

func checkSame[R volumeinfo.Record](t *testing.T, source []byte, records []R) {
	t.Helper()
	data, err := volumeinfo.Encode(records)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(anyJSON(t, source), anyJSON(t, unzipped(t, data))); diff != "" {
		t.Errorf("file after a round trip (-source +written):\n%s", diff)
	}
}

// V1, vol-7: lower-case spellings are read, and keys of a newer writer survive at every level.
func TestLaterFileSurvives(t *testing.T) {
	t.Parallel()
	records, err := volumeinfo.DecodeBackup(zipped(t, readFile(t, "backup-later.json")), volumeinfo.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r := records[0]
	if r.CSISnapshotInfo.ReadyToUse == nil || r.SnapshotDataMovementInfo.Phase != "Canceled" || r.NativeSnapshotInfo.Phase != "Completed" || r.PVBInfo.Phase != "Completed" {
		t.Errorf("lower-case spellings were not read: %+v", r)
	}
	if r.Result != "canceled" || r.Final() {
		t.Errorf("result %q, final %v, want a newer writer's result kept and not taken for final", r.Result, r.Final())
	}
	data, err := volumeinfo.Encode(records)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "backup-later.golden.json", indented(t, unzipped(t, data)))
}

// V1: what we write, held by a golden file.
func TestOurFile(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Date(2026, 5, 2, 10, 0, 0, 900e6, time.FixedZone("", 7200)))
	records := []volumeinfo.BackupRecord{
		{PVCNamespace: "app", PVCName: "pending", Skipped: true, SkippedReason: "claim is not bound"},
		{
			PVCNamespace: "app", PVCName: "broken", PVCUID: "u2", PVName: "pv-2", BackupMethod: volumeinfo.CSISnapshot, Result: volumeinfo.Failed,
			Error: "storage refused", CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{Driver: "d"},
		},
		{
			PVCNamespace: "app", PVCName: "data", PVCUID: "u1", PVName: "pv-1", BackupMethod: volumeinfo.CSISnapshot, PreserveLocalSnapshot: true,
			StartTimestamp: &at, Result: volumeinfo.Succeeded,
			CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "h", Size: new(int64(0)), Driver: "d", VSCName: "c", OperationID: "o", ReadyToUse: new(true)},
			PVInfo:          &volumeinfo.PVInfo{ReclaimPolicy: "Delete", Labels: map[string]string{"b": "2", "a": "1"}},
		},
	}
	data, err := volumeinfo.Encode(records)
	if err != nil {
		t.Fatal(err)
	}
	text := unzipped(t, data)
	if !bytes.HasSuffix(text, []byte("]\n")) {
		t.Errorf("the document does not end in one newline: %q", text)
	}
	golden.Check(t, "backup-ours.golden.json", indented(t, text))
	slices.Reverse(records)
	again, err := volumeinfo.Encode(records)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("Encode of the same records in another order gave other bytes (%v)", err)
	}
	back, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	// vol-2: size zero is not size absent.
	if size := back[1].CSISnapshotInfo.Size; size == nil || *size != 0 || back[0].CSISnapshotInfo.Size != nil {
		t.Errorf("sizes = %v and %v, want zero and absent", size, back[0].CSISnapshotInfo.Size)
	}
}

// vol-7: an absent file is no records, and so is an empty list in either of its spellings.
func TestDecodeNothing(t *testing.T) {
	t.Parallel()
	empty, err := volumeinfo.Encode[volumeinfo.BackupRecord](nil)
	if err != nil || string(unzipped(t, empty)) != "[]\n" {
		t.Fatalf("Encode(nil) = %q, %v, want an empty list", unzipped(t, empty), err)
	}
	for name, data := range map[string][]byte{"absent": nil, "empty": empty, "null": zipped(t, []byte("null\n"))} {
		if records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{}); err != nil || len(records) != 0 {
			t.Errorf("%s: DecodeBackup = %v, %v, want nothing", name, records, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		data   []byte
		limits volumeinfo.Limits
		want   error
		index  int // of the record at fault, -1: none
	}{
		"plain json":       {"Velero's files are compressed", []byte("[]"), volumeinfo.Limits{}, volumeinfo.ErrMalformed, -1},
		"no json":          {"damage is not an empty list", zipped(t, []byte("[")), volumeinfo.Limits{}, volumeinfo.ErrMalformed, -1},
		"an object":        {"a file of another kind", zipped(t, []byte(`{"errors":{}}`)), volumeinfo.Limits{}, volumeinfo.ErrMalformed, -1},
		"two documents":    {"a second document would be lost", zipped(t, []byte("[]\n[]\n")), volumeinfo.Limits{}, volumeinfo.ErrMalformed, -1},
		"record of null":   {"null is no volume", zipped(t, []byte(`[{},null]`)), volumeinfo.Limits{}, volumeinfo.ErrMalformed, 1},
		"wrong type":       {"the record at fault is named", zipped(t, []byte(`[{},{},{"skipped":"no"}]`)), volumeinfo.Limits{}, volumeinfo.ErrMalformed, 2},
		"wrong type below": {"also for a nested record", zipped(t, []byte(`[{"csiSnapshotInfo":{"size":"1Gi"}}]`)), volumeinfo.Limits{}, volumeinfo.ErrMalformed, 0},
		"too many bytes":   {"a bomb stops at the limit", zipped(t, bytes.Repeat([]byte(" "), 1<<20)), volumeinfo.Limits{MaxBytes: 1 << 16}, volumeinfo.ErrTooLarge, -1},
		"too many records": {"short records are many", zipped(t, []byte("[{},{},{}]")), volumeinfo.Limits{MaxRecords: 2}, volumeinfo.ErrTooLarge, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records, err := volumeinfo.DecodeBackup(tc.data, tc.limits)
			if !errors.Is(err, tc.want) || records != nil {
				t.Fatalf("%s: DecodeBackup = %v, %v, want %v", tc.reason, records, err, tc.want)
			}
			entry, ok := errors.AsType[*volumeinfo.EntryError](err)
			if ok != (tc.index >= 0) || ok && entry.Index != tc.index {
				t.Errorf("%s: entry error = %v, want index %d", tc.reason, entry, tc.index)
			}
		})
	}
}

func TestEncodeNamesTheVolume(t *testing.T) {
	t.Parallel()
	r := volumeinfo.BackupRecord{PVCNamespace: "app", PVCName: "data", Extra: map[string]json.RawMessage{"k": json.RawMessage("{")}}
	_, err := volumeinfo.Encode([]volumeinfo.BackupRecord{r})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("app/data")) {
		t.Errorf("Encode(an Extra that is no JSON) = %v, want an error naming app/data", err)
	}
}

// V1: what decodes once, decodes to the same after a round trip; no input panics.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"backup-velero-1.18.json", "backup-later.json", "restore-velero-1.18.json"} {
		f.Add(readFile(f, name), false)
		f.Add(zipped(f, readFile(f, name)), true)
	}
	f.Add([]byte(`[{"Phase":1,"phase":null,"csiSnapshotInfo":{"readytouse":false,"READYTOUSE":true}}]`), false)
	f.Fuzz(func(t *testing.T, data []byte, raw bool) {
		if !raw {
			data = zipped(t, data)
		}
		limits := volumeinfo.Limits{MaxBytes: 1 << 20}
		if records, err := volumeinfo.DecodeBackup(data, limits); err == nil {
			roundTrip(t, records, volumeinfo.DecodeBackup)
		}
		if records, err := volumeinfo.DecodeRestore(data, limits); err == nil {
			roundTrip(t, records, volumeinfo.DecodeRestore)
		}
	})
}

func roundTrip[R volumeinfo.Record](t *testing.T, records []R, decode func([]byte, volumeinfo.Limits) ([]R, error)) {
	t.Helper()
	once, err := volumeinfo.Encode(records)
	if err != nil {
		t.Fatalf("what was decoded cannot be encoded: %v", err)
	}
	back, err := decode(once, volumeinfo.Limits{})
	if err != nil || len(back) != len(records) {
		t.Fatalf("decode of what was encoded = %d records, %v, want %d", len(back), err, len(records))
	}
	twice, err := volumeinfo.Encode(back)
	if err != nil || !bytes.Equal(unzipped(t, once), unzipped(t, twice)) {
		t.Errorf("a second round trip changed the file (%v):\n%s\n%s", err, unzipped(t, once), unzipped(t, twice))
	}
}
