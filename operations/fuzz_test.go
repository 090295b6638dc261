package operations_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
)

// O13: what a text is made of is what encoding/json says, for every text that encoding/json accepts.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a" : [1, {"b":"]}"}] , "c":"\"}","d":null,"a":2}`, `{"\u0061":true,"é":"\\"}`, `[1,"a,b",[],{} , [2,3]]`, `null`, `7`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if text = bytes.Trim(text, " \t\r\n"); !json.Valid(text) {
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) == nil {
			got := map[string]json.RawMessage{}
			n := operations.Object(text, func(name, text []byte) int {
				n := operations.ValueEnd(text)
				got[string(name)] = bytes.Clone(text[:n])
				return n
			})
			if n != len(text) {
				t.Errorf("the object %s ends at %d, want %d", text, n, len(text))
			}
			if !maps.EqualFunc(object, got, sameText) {
				t.Errorf("members of %s\nare %s\nwant %s", text, got, object)
			}
		}
		var array []json.RawMessage
		if json.Unmarshal(text, &array) == nil {
			var got []json.RawMessage
			n := operations.Array(text, func(text []byte) int {
				n := operations.ValueEnd(text)
				got = append(got, bytes.Clone(text[:n]))
				return n
			})
			if n != len(text) {
				t.Errorf("the array %s ends at %d, want %d", text, n, len(text))
			}
			if !slices.EqualFunc(array, got, sameText) {
				t.Errorf("elements of %s\nare %s\nwant %s", text, got, array)
			}
		}
	})
}

// O13: whatever bytes there are, lenient decoding ends without a panic; it has no fault where strict decoding has none, and
// what it returns can be written and read again.
func FuzzDecodeLenient(f *testing.F) {
	good := `{"spec":{"backupUID":"uid-1","operationID":"a"},"status":{}}`
	for _, doc := range []string{"[" + good + "]", "[" + good + ",7," + good + "]", "[" + good, "[null,{}", `[{"spec":{"backupUID":"uid-2"}}]`} {
		f.Add(zipped(f, "", doc))
		f.Add(zipped(f, "", doc)[:30])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, faults, err := operations.BackupForm.DecodeLenient(testKey, data)
		strict, strictErr := operations.BackupForm.Decode(testKey, data)
		switch {
		case err != nil:
			if !errors.Is(err, operations.ErrForeignRecord) || strictErr == nil {
				t.Fatalf("DecodeLenient = %v, Decode = %v", err, strictErr)
			}
			return
		case strictErr == nil && (len(faults) > 0 || !list.Equal(strict)):
			t.Fatalf("DecodeLenient has the faults %v of a good file", faults)
		case strictErr != nil && !errors.Is(strictErr, operations.ErrForeignRecord) && len(faults) == 0:
			t.Fatalf("DecodeLenient has no fault, Decode = %v", strictErr)
		}
		again, err := operations.BackupForm.Encode(testKey, list)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if back, err := operations.BackupForm.Decode(testKey, again); err != nil || !back.Equal(list) {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}

// O13: of a damaged record the good entries can be read, each other one is a fault that names it, and the document stays as
// it is.
func TestLoadLenient(t *testing.T) {
	t.Parallel()
	entry := func(id string) string {
		return `{"spec":{"backupUID":"uid-1","operationID":"` + id + `","backupItemAction":"a"},"status":{"phase":"Completed"}}`
	}
	var many strings.Builder
	many.WriteString(entry("0"))
	for i := range 2000 {
		many.WriteString("," + entry(strings.Repeat("x", i%50)+string(rune('a'+i%26))+"-"+strings.Repeat("y", i/50)))
	}
	whole := zipped(t, "", "["+many.String()+"]")
	tests := map[string]struct {
		reason string
		data   []byte
		good   int // -1: some
		faults []int
		err    error
	}{
		"whole":           {"nothing is at fault", whole, 2001, nil, nil},
		"one bad entry":   {"the others are read", zipped(t, "", "["+entry("a")+`,{"spec":{"backupUID":"uid-1"},"status":{}},`+entry("b")+"]"), 2, []int{1}, nil},
		"wrong type":      {"the others are read", zipped(t, "", "["+entry("a")+`,{"status":{"nTotal":"x"}},7,`+entry("b")+"]"), 2, []int{1, 2}, nil},
		"duplicate":       {"the first counts", zipped(t, "", "["+entry("a")+","+entry("b")+","+entry("a")+"]"), 2, []int{2}, nil},
		"no JSON":         {"nothing after it can be read", zipped(t, "", "["+entry("a")+`,{"spec":}`), 1, []int{-1}, nil},
		"text cut off":    {"nothing after it can be read", zipped(t, "", "["+entry("a")+","+entry("b")[:20]), 1, []int{-1}, nil},
		"file cut off":    {"what was decompressed counts", whole[:len(whole)-len(whole)/3], -1, []int{-1}, nil},
		"not a list":      {"there is no entry", zipped(t, "", "{}"), 0, []int{-1}, nil},
		"not gzip":        {"there is no text", []byte("[]"), 0, []int{-1}, nil},
		"too large":       {"what is within the limit counts", bomb(t), 0, []int{-1}, nil},
		"another's entry": {"nothing of it is ours", zipped(t, "", "["+entry("a")+`,{"spec":{"backupUID":"uid-2","operationID":"b"},"status":{}}]`), 0, nil, operations.ErrForeignRecord},
		"another's file":  {"nothing of it is ours", zipped(t, "owner-uid=uid-2", "["+entry("a")), 0, nil, operations.ErrForeignRecord},
		"no document":     {"there are no operations", nil, 0, nil, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := operations.NewMemoryStore()
			if tc.data != nil {
				if _, err := store.Write(t.Context(), docName, tc.data, ""); err != nil {
					t.Fatal(err)
				}
			}
			m := newMap(t, store)
			rec, faults, err := m.LoadLenient(t.Context(), testKey)
			if !errors.Is(err, tc.err) {
				t.Fatalf("%s: LoadLenient = %v, want %v", tc.reason, err, tc.err)
			}
			var at []int
			for _, f := range faults {
				at = append(at, f.Entry)
				if !errors.Is(f.Err, operations.ErrMalformed) && !errors.Is(f.Err, operations.ErrTooLarge) || f.String() != f.Err.Error() {
					t.Errorf("%s: fault %v is neither malformed nor too large", tc.reason, f)
				}
			}
			if !slices.Equal(at, tc.faults) {
				t.Errorf("%s: faults %v, want at %v", tc.reason, faults, tc.faults)
			}
			if n := rec.List.Len(); n != tc.good && (tc.good >= 0 || n < 100 || n > 2000) {
				t.Errorf("%s: %d good entries, want %d", tc.reason, n, tc.good)
			}
			if rec.Missing() != (tc.data == nil || tc.err != nil) {
				t.Errorf("%s: Missing = %v", tc.reason, rec.Missing())
			}
			if _, err := m.UploadProgressAndPut(t.Context(), rec); err == nil {
				t.Errorf("%s: a record that was read leniently can be put", tc.reason)
			}
			if data, _, err := store.Read(t.Context(), docName); tc.data != nil && (err != nil || !bytes.Equal(data, tc.data)) {
				t.Errorf("%s: the document was changed: %v", tc.reason, err)
			}
		})
	}
}

// O13: a key that leaves the store's prefix is refused, and an error of the store is no fault of the document.
func TestLoadLenientErrors(t *testing.T) {
	t.Parallel()
	store := newRecorder(operations.NewMemoryStore())
	m := newMap(t, store)
	if _, _, err := m.LoadLenient(t.Context(), operations.Key{Name: "../x", UID: "u"}); err == nil {
		t.Error("LoadLenient of a bad key gave no error")
	}
	store.hooks(func(context.Context, string, string) error { return errAny }, nil)
	if _, _, err := m.LoadLenient(t.Context(), testKey); !errors.Is(err, errAny) {
		t.Errorf("LoadLenient = %v, want the store's error", err)
	}
	if _, _, err := operations.Form(0).DecodeLenient(testKey, nil); err == nil {
		t.Error("the zero Form decodes")
	}
}

func sameText(a, b json.RawMessage) bool { return bytes.Equal(a, b) }
