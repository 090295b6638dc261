package kubelet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

const recordText = `{"id":1,"started":"2026-01-02T03:04:05.000000006Z","namespace":"app","pod":"db","podUID":"u1","container":"main","command":["freeze"],"exitCode":0}
{"id":2,"started":"2026-01-02T03:04:06Z","namespace":"app","pod":"web","podUID":"u2","container":"main","command":["freeze"],"exitCode":0}
{"id":1,"started":"2026-01-02T03:04:05.000000006Z","ended":"2026-01-02T03:04:07Z","namespace":"app","pod":"db","podUID":"u1","container":"main","command":["freeze"],"exitCode":3,"lost":true}
`

func TestReadRecord(t *testing.T) {
	t.Parallel()
	first := kubelet.Exec{
		ID: 1, Started: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Ended: time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC),
		Namespace: "app", Pod: "db", PodUID: "u1", Container: "main", Command: []string{"freeze"}, ExitCode: 3, Lost: true,
	}
	second := kubelet.Exec{ID: 2, Started: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), Namespace: "app", Pod: "web", PodUID: "u2", Container: "main", Command: []string{"freeze"}}
	cases := map[string]struct {
		reason string
		text   string
		want   kubelet.Record
		err    string
	}{
		"empty":           {reason: "nothing was asked for yet"},
		"whole":           {reason: "a later line about a command replaces the earlier", text: recordText, want: kubelet.Record{first, second}},
		"half a line":     {reason: "the server was killed while it wrote", text: recordText + `{"id":3,"star`, want: kubelet.Record{first, second}},
		"no line yet":     {reason: "the server was killed while it wrote the first", text: `{"id":1}`},
		"a broken line":   {reason: "only the last line may be broken", text: recordText + "{\n" + recordText, err: "line 4: unexpected end of JSON input"},
		"without an ID":   {reason: "the lines of a command belong together by it", text: "{}\n", err: "line 1: id: 0: want more than 0"},
		"not in order":    {reason: "commands stand in the order in which they began", text: strings.Join(reversed(recordText), ""), want: kubelet.Record{{ID: 1, Started: first.Started, Namespace: "app", Pod: "db", PodUID: "u1", Container: "main", Command: []string{"freeze"}}, second}},
		"fields to come":  {reason: "a later version may write more", text: `{"id":1,"new":true}` + "\n", want: kubelet.Record{{ID: 1}}},
		"a wrong command": {reason: "a line of something else is told", text: `{"id":1,"command":"x"}` + "\n", err: "line 1: json: cannot unmarshal string"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "execs")
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := kubelet.ReadRecord(file)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: ReadRecord (-want +got):\n%s", tc.reason, diff)
			}
			if (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), file)) {
				t.Errorf("%s: ReadRecord = %v, want an error with %q and the file", tc.reason, err, tc.err)
			}
		})
	}
}

func reversed(text string) []string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return []string{lines[2] + "\n", lines[1], lines[0]}
}

func TestReadRecordOfNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got, err := kubelet.ReadRecord(filepath.Join(dir, "none")); err != nil || got != nil {
		t.Errorf("ReadRecord of a missing file = %v, %v, want nothing", got, err)
	}
	if _, err := kubelet.ReadRecord(dir); err == nil {
		t.Error("ReadRecord of a folder gave no error")
	}
}

func TestRecordSelections(t *testing.T) {
	t.Parallel()
	r := kubelet.Record{{ID: 1, Namespace: "a", Pod: "x"}, {ID: 2, Namespace: "a", Pod: "y"}, {ID: 5, Namespace: "b", Pod: "x"}}
	cases := map[string]struct {
		reason    string
		got, want kubelet.Record
	}{
		"namespace": {reason: "In selects by namespace", got: r.In("a"), want: r[:2]},
		"pod":       {reason: "Of selects by namespace and name", got: r.Of("b", "x"), want: r[2:]},
		"after":     {reason: "After leaves out the mark itself", got: r.After(2), want: r[2:]},
		"after all": {reason: "Last is the mark of now", got: r.After(r.Last()), want: nil},
		"from zero": {reason: "the mark of an empty record is before everything", got: r.After(kubelet.Record{}.Last()), want: r},
	}
	for name, tc := range cases {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.reason, diff)
		}
	}
}

// A record is read whole or refused; commands are in order, each is there once, and written again they are the same.
func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(recordText))
	f.Add([]byte("{\"id\":1}\n\n"))
	f.Add([]byte("null\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		record, err := kubelet.ParseRecord(data)
		if err != nil {
			if record != nil {
				t.Errorf("ParseRecord = %v, %v", record, err)
			}
			return
		}
		last := int64(0)
		var again []byte
		for _, e := range record {
			if e.ID <= last {
				t.Errorf("ID %d after %d", e.ID, last)
			}
			last = e.ID
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			again = append(append(again, line...), '\n')
		}
		got, err := kubelet.ParseRecord(append(again, data...))
		if diff := cmp.Diff(record, got); err != nil || diff != "" {
			t.Errorf("read again: %v (-want +got):\n%s", err, diff)
		}
	})
}

func ExampleReadRecord() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "execs")
	if err := os.WriteFile(file, []byte(recordText), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	record, err := kubelet.ReadRecord(file)
	for _, e := range record.In("app") {
		fmt.Println(e.Pod, e.Command, e.ExitCode, e.Ended.IsZero())
	}
	fmt.Println(err)
	// Output:
	// db [freeze] 3 false
	// web [freeze] 0 true
	// <nil>
}
