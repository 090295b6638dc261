package operations_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/internal/golden"
	"github.com/sheetanchor/sheetanchor/operations"
)

// goldenList has every field, every phase and an operation with nothing but an ID.
func goldenList(t *testing.T, form operations.Form) operations.List {
	t.Helper()
	at := func(s string) *time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return &v
	}
	full := operations.Operation{
		ID:       "app/snap-1/2026-03-04T05:06:07Z",
		Action:   "example.com/csi",
		Resource: operations.ResourceID{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots", Namespace: "app", Name: "snap-1"},
		Status: operations.Status{
			Phase: operations.PhaseInProgress, Completed: 3, Total: 10, Units: "Bytes", Description: "cut & <waiting>",
			Created: at("2026-03-04T05:06:07Z"), Started: at("2026-03-04T06:06:08+01:00"), Updated: at("2026-03-04T05:06:09Z"),
			CancelRequested: at("2026-03-04T05:07:00Z"), CancelReason: "user asked",
		},
	}
	if form == operations.BackupForm {
		full.PostItems = []operations.ResourceID{{Resource: "persistentvolumes", Name: "pv-1"}, full.Resource}
	}
	ops := []operations.Operation{full, {ID: "bare", Action: "a"}}
	for _, phase := range []operations.Phase{
		operations.PhaseNew, operations.PhaseCompleted, operations.PhaseFailed, operations.PhaseCanceled, operations.PhaseAbandoned, "FromTheFuture",
	} {
		o := operations.Operation{ID: "is-" + string(phase), Action: "a", Status: operations.Status{Phase: phase}}
		if phase == operations.PhaseFailed || phase == operations.PhaseCanceled || phase == operations.PhaseAbandoned {
			o.Status.Error = "why"
		}
		ops = append(ops, o)
	}
	list, err := operations.NewList(ops...)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Set(operations.Operation{ID: "bare"}); err != nil { // as another program may leave it
		t.Fatal(err)
	}
	return list
}

// O14: the files are Velero's, both ways.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, form := range []operations.Form{operations.BackupForm, operations.RestoreForm} {
		t.Run(form.String(), func(t *testing.T) {
			t.Parallel()
			list := goldenList(t, form)
			data, err := form.Encode(testKey, list)
			if err != nil {
				t.Fatal(err)
			}
			got := gunzip(t, data)
			file := form.String() + "-itemoperations.json"
			golden.Check(t, file, got)
			want, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			back, err := form.Decode(testKey, zipped(t, "", string(want)))
			if err != nil {
				t.Fatal(err)
			}
			checkSameOps(t, list, back)
		})
	}
}

func checkSameOps(t *testing.T, want, got operations.List) {
	t.Helper()
	var a, b []operations.Operation
	for o := range want.All() {
		a = append(a, o)
	}
	for o := range got.All() {
		b = append(b, o)
	}
	if diff := cmp.Diff(a, b); diff != "" || !want.Equal(got) {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

// O14: a file as Velero writes it, typed out by hand: its names, its nulls, the keys it leaves out.
func TestDecodeVelero(t *testing.T) {
	t.Parallel()
	const doc = `[{"spec":{"backupName":"nightly","backupUID":"uid-1","backupItemAction":"velero.io/csi-volumesnapshot-backupper",` +
		`"resourceIdentifier":{"Group":"snapshot.storage.k8s.io","Resource":"volumesnapshots","Namespace":"app","Name":"s1"},` +
		`"operationID":"app/s1/2026-03-04T05:06:07Z","postOperationItems":null},` +
		`"status":{"phase":"Failed","error":"boom","nCompleted":1,"nTotal":2,"operationUnits":"Bytes","created":"2026-03-04T05:06:07Z"}}]` + "\n"
	list, err := operations.BackupForm.Decode(testKey, zipped(t, "", doc))
	if err != nil {
		t.Fatal(err)
	}
	want, err := operations.NewList(operations.Operation{
		ID: "app/s1/2026-03-04T05:06:07Z", Action: "velero.io/csi-volumesnapshot-backupper",
		Resource: operations.ResourceID{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots", Namespace: "app", Name: "s1"},
		Status: operations.Status{
			Phase: operations.PhaseFailed, Error: "boom", Completed: 1, Total: 2, Units: "Bytes",
			Created: new(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	checkSameOps(t, want, list)
	data, err := operations.BackupForm.Encode(testKey, list)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(gunzip(t, data)); got != doc {
		t.Errorf("written again it is\n%s\nwant\n%s", got, doc)
	}
}

// O14: an outcome counts only beside Velero's Failed.
func TestDecodeOutcome(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ phase, outcome, want operations.Phase }{
		{operations.PhaseFailed, operations.PhaseCanceled, operations.PhaseCanceled},
		{operations.PhaseFailed, operations.PhaseAbandoned, operations.PhaseAbandoned},
		{operations.PhaseFailed, operations.PhaseCompleted, operations.PhaseFailed},
		{operations.PhaseInProgress, operations.PhaseCanceled, operations.PhaseInProgress},
		{operations.PhaseCompleted, operations.PhaseAbandoned, operations.PhaseCompleted},
	} {
		doc := fmt.Sprintf(`[{"spec":{"backupUID":"uid-1","operationID":"a"},"status":{"phase":%q,"sheetanchor":{"outcome":%q}}}]`, tc.phase, tc.outcome)
		list, err := operations.BackupForm.Decode(testKey, zipped(t, "", doc))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := list.Get("a"); got.Status.Phase != tc.want {
			t.Errorf("phase %s with outcome %s is %s, want %s", tc.phase, tc.outcome, got.Status.Phase, tc.want)
		}
	}
}

// O14, O4: the names of the files.
func TestFileNames(t *testing.T) {
	t.Parallel()
	if got, want := operations.BackupForm.FileName("b"), "backups/b/b-itemoperations.json.gz"; got != want {
		t.Errorf("FileName = %q, want %q", got, want)
	}
	if got, want := operations.RestoreForm.FileName("r"), "restores/r/restore-r-itemoperations.json.gz"; got != want {
		t.Errorf("FileName = %q, want %q", got, want)
	}
}

// O13: unknown keys survive at every level, also when the operation is changed.
func TestUnknownKeysSurvive(t *testing.T) {
	t.Parallel()
	tests := map[operations.Form]string{
		operations.BackupForm: `[{"spec":{"backupName":"nightly","backupUID":"uid-1","backupItemAction":"a",` +
			`"resourceIdentifier":{"Group":"g","Resource":"r","Namespace":"","Name":"n","Version":"v1"},"operationID":"1",` +
			`"postOperationItems":[{"Group":"","Resource":"pods","Namespace":"","Name":"p","Kind":"Pod"},{"Group":"","Resource":"pods","Namespace":"","Name":"q"}],` +
			`"newSpec":{"x":"<y>"}},"status":{"phase":"PHASE","sheetanchor":{"later":true,"outcome":"Paused"},"nRetries":3},"extra":[1,2]},` + "\n" +
			`{"spec":{"backupUID":"uid-1","operationID":"2"},"status":{}}]`,
		operations.RestoreForm: `[{"spec":{"restoreName":"nightly","restoreUID":"uid-1","restoreItemAction":"a",` +
			`"resourceIdentifier":{"Group":"g","Resource":"r","Namespace":"","Name":"n","Version":"v1"},"operationID":"1","newSpec":1.5,"postOperationItems":[]},` +
			`"status":{"phase":"PHASE","sheetanchor":{"later":true},"nRetries":3},"extra":null}]`,
	}
	for form, doc := range tests {
		t.Run(form.String(), func(t *testing.T) {
			t.Parallel()
			in := strings.ReplaceAll(doc, "PHASE", "InProgress")
			list, err := form.Decode(testKey, zipped(t, "", in))
			if err != nil {
				t.Fatal(err)
			}
			o, _ := list.Get("1")
			o.Status.Phase = operations.PhaseCompleted
			if err := list.Set(o); err != nil {
				t.Fatal(err)
			}
			data, err := form.Encode(testKey, list)
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := strings.Cut(string(gunzip(t, data)), `},{"spec":{"backupName":"nightly","backupUID":"uid-1","backupItemAction":"",`)
			want, _, _ := strings.Cut(strings.ReplaceAll(doc, "PHASE", "Completed"), "},\n")
			got, want = strings.TrimRight(got, "]\n"), strings.TrimRight(want, "]")
			if diff := cmp.Diff(strings.ReplaceAll(want, "<y>", `\u003cy\u003e`), got); diff != "" {
				t.Errorf("written again (-want +got):\n%s", diff)
			}
			back, err := form.Decode(testKey, data)
			if err != nil || !back.Equal(list) {
				t.Errorf("read again: %v, equal %v", err, back.Equal(list))
			}
		})
	}
}

// O13: hostile input is an error that names the entry.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	entry := func(id string) string {
		return fmt.Sprintf(`{"spec":{"backupUID":"uid-1","operationID":%q},"status":{}}`, id)
	}
	tests := map[string]struct {
		doc  string
		data []byte // instead of doc
		want error
		text string
	}{
		"not gzip":            {data: []byte("[]"), want: operations.ErrMalformed, text: "gzip"},
		"nothing":             {data: []byte{}, want: operations.ErrMalformed},
		"cut off":             {data: zipped(t, "", "["+entry("a")+"]")[:40], want: operations.ErrMalformed},
		"not JSON":            {doc: "hello", want: operations.ErrMalformed},
		"an object":           {doc: "{}", want: operations.ErrMalformed, text: "array"},
		"text after":          {doc: "[] []", want: operations.ErrMalformed, text: "after the array"},
		"no end":              {doc: "[" + entry("a"), want: operations.ErrMalformed, text: "entry 0"},
		"broken entry":        {doc: "[" + entry("a") + `,{"spec":}]`, want: operations.ErrMalformed, text: "entry 1"},
		"null entry":          {doc: "[null]", want: operations.ErrMalformed, text: "entry 0"},
		"a number":            {doc: "[" + entry("a") + ",7]", want: operations.ErrMalformed, text: "entry 1"},
		"no ID":               {doc: `[{"spec":{"backupUID":"uid-1"},"status":{}}]`, want: operations.ErrMalformed, text: "entry 0"},
		"wrong type":          {doc: `[{"spec":{"backupUID":"uid-1","operationID":"a"},"status":{"nTotal":"x"}}]`, want: operations.ErrMalformed, text: `entry 0, operation "a"`},
		"wrong time":          {doc: `[{"spec":{"backupUID":"uid-1","operationID":"a"},"status":{"created":"yesterday"}}]`, want: operations.ErrMalformed, text: "entry 0"},
		"time out of range":   {doc: `[{"spec":{"backupUID":"uid-1","operationID":"a"},"status":{"created":"9999-12-31T23:59:59-23:00"}}]`, want: operations.ErrMalformed, text: "entry 0"},
		"number out of range": {doc: `[{"spec":{"backupUID":"uid-1","operationID":"a"},"status":{"nTotal":1e30}}]`, want: operations.ErrMalformed, text: "entry 0"},
		"duplicate ID":        {doc: "[" + entry("a") + "," + entry("b") + "," + entry("a") + "]", want: operations.ErrDuplicate, text: `entries 0 and 2, operation "a"`},
		"another owner":       {doc: strings.ReplaceAll("["+entry("a")+"]", "uid-1", "uid-2"), want: operations.ErrForeignRecord, text: "entry 0"},
		"deep nesting":        {doc: strings.Repeat("[", 100_000), want: operations.ErrMalformed},
		"deep unknown value":  {doc: `[{"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `,"spec":{"backupUID":"uid-1","operationID":"a"}}]`, want: operations.ErrMalformed},
		"bomb":                {data: bomb(t), want: operations.ErrTooLarge},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := tc.data
			if data == nil {
				data = zipped(t, "", tc.doc)
			}
			_, err := operations.BackupForm.Decode(testKey, data)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Decode() = %v, want %v with %q", err, tc.want, tc.text)
			}
		})
	}
}

// O4: the owner beside the list counts for an empty one; a file of Velero's has none.
func TestDecodeOwner(t *testing.T) {
	t.Parallel()
	for comment, want := range map[string]error{
		"": nil, "made by hand": nil, "owner-uid=uid-1": nil, "owner-uid=uid-2": operations.ErrForeignRecord,
	} {
		for _, doc := range []string{"[]\n", "null\n", " [ ] "} {
			if _, err := operations.BackupForm.Decode(testKey, zipped(t, comment, doc)); !errors.Is(err, want) {
				t.Errorf("Decode(%q) with comment %q = %v, want %v", doc, comment, err, want)
			}
		}
	}
}

// O13: what could not be read back is not written.
func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	post, err := operations.NewList(operations.Operation{ID: "a", Action: "a", PostItems: []operations.ResourceID{{Name: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operations.RestoreForm.Encode(testKey, post); !errors.Is(err, operations.ErrMalformed) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a restore with post items: %v, want ErrMalformed that names it", err)
	}
	if _, err := operations.Form(0).Encode(testKey, operations.List{}); err == nil {
		t.Error("the zero Form encodes")
	}
	if _, err := operations.BackupForm.Encode(operations.Key{}, operations.List{}); err == nil {
		t.Error("the zero Key encodes")
	}
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Update(t.Context(), testKey, func(l *operations.List) error {
		for i := range 10 {
			if err := l.Add(op(fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, operations.ErrTooLarge) {
		t.Errorf("Update over the limit = %v, want ErrTooLarge", err)
	}
}

// O13: whatever bytes there are, decoding ends without a panic, and what it accepts survives being written again.
func FuzzDecode(f *testing.F) {
	for _, doc := range []string{
		"[]\n", "null", `[{"spec":{"backupUID":"uid-1","operationID":"a"},"status":{}}]`,
		`[{"SPEC":{"backupuid":"uid-1","operationID":"a","Operationid":"b"},"status":{"PHASE":"Failed","sheetanchor":{"outcome":"Canceled"}}}]`,
		`[{"spec":{"restoreUID":"uid-1","operationID":"a","z":{"a":"\ud800"}},"status":{"created":"2026-01-02T03:04:05.6+07:00","x":1e400}}]`,
		`[{"spec":{"backupUID":"uid-1","operationID":"a","postOperationItems":[null,{"Name":"x","y":1}]},"status":null,"k":"` + "\xff" + `"}]`,
	} {
		f.Add([]byte(doc), true)
		f.Add(zipped(f, "owner-uid=uid-1", doc), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, zip bool) {
		if zip {
			data = zipped(t, "", string(data))
		}
		for _, form := range []operations.Form{operations.BackupForm, operations.RestoreForm} {
			list, err := form.Decode(testKey, data)
			if err != nil {
				continue
			}
			again, err := form.Encode(testKey, list)
			if err != nil {
				t.Fatalf("%v: what was read cannot be written: %v", form, err)
			}
			back, err := form.Decode(testKey, again)
			if err != nil {
				t.Fatalf("%v: what was written cannot be read: %v\n%s", form, err, gunzip(t, again))
			}
			if !back.Equal(list) {
				t.Fatalf("%v: changed by being written:\n%s\n%s", form, data, gunzip(t, again))
			}
		}
	})
}

func zipped(tb testing.TB, comment, doc string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Comment = comment
	if _, err := io.WriteString(w, doc); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func gunzip(tb testing.TB, data []byte) []byte {
	tb.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// bomb is a small file of more bytes than a document may have.
func bomb(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		tb.Fatal(err)
	}
	for range operations.DefaultMaxBytes>>20 + 1 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// O13: unknown keys stay with the resource in which they stood, also among equal ones.
func TestUnknownKeysOfEqualResources(t *testing.T) {
	t.Parallel()
	const id = `"Group":"","Resource":"p","Namespace":"n","Name":"x"`
	const doc = `[{"spec":{"backupName":"nightly","backupUID":"uid-1","backupItemAction":"a","resourceIdentifier":{` + id + `,"K":"own"},` +
		`"operationID":"1","postOperationItems":[{` + id + `,"K":"first"},{` + id + `},{` + id + `,"K":"third"}]},"status":{}}]`
	list, err := operations.BackupForm.Decode(testKey, zipped(t, "", doc))
	if err != nil {
		t.Fatal(err)
	}
	o, _ := list.Get("1")
	o.PostItems = append(o.PostItems, operations.ResourceID{Name: "new"})
	o.Status.Phase = operations.PhaseCompleted
	if err := list.Set(o); err != nil {
		t.Fatal(err)
	}
	data, err := operations.BackupForm.Encode(testKey, list)
	if err != nil {
		t.Fatal(err)
	}
	got := string(gunzip(t, data))
	for _, want := range []string{
		`"resourceIdentifier":{` + id + `,"K":"own"}`,
		`"postOperationItems":[{` + id + `,"K":"first"},{` + id + `},{` + id + `,"K":"third"},{"Group":"","Resource":"","Namespace":"","Name":"new"}]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the document is\n%s\nwant in it\n%s", got, want)
		}
	}
}
