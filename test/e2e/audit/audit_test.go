package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// line is an entry of user u, received a number of milliseconds after began.
func line(id, stage, verb, uri string, code, millis int, more ...string) string {
	received := began.Add(time.Duration(millis) * time.Millisecond)
	status := ""
	if code > 0 {
		status = fmt.Sprintf(`"responseStatus":{"metadata":{},"code":%d},`, code)
	}
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":%q,"stage":%q,"requestURI":%q,"verb":%q,`+
		`"user":{"username":"u","groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"],"userAgent":"backup/v0",%s%s`+
		`"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{"authorization.k8s.io/decision":"allow"}}`+"\n",
		id, stage, uri, verb, strings.Join(more, ""), status,
		received.Format("2006-01-02T15:04:05.000000Z07:00"), received.Add(time.Millisecond).Format("2006-01-02T15:04:05.000000Z07:00"))
}

func done(id, verb, uri string, code, millis int, more ...string) string {
	return line(id, "ResponseComplete", verb, uri, code, millis, more...)
}

const snapshots = "/apis/snapshot.storage.k8s.io/v1/namespaces/app/volumesnapshots"

func write(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	appendTo(t, file, lines...)
	return file
}

func appendTo(t *testing.T, path string, lines ...string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(strings.Join(lines, "")); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		lines  []string
		only   []audit.Filter
		want   map[string]int
		err    string
	}{
		"nothing": {reason: "an empty log has no requests", want: map[string]int{}},
		"every verb": {
			reason: "the keys are those of Cluster.Requests",
			lines: []string{
				done("1", "get", "/api/v1/namespaces/app/pods/db", 200, 1),
				done("2", "list", "/api/v1/pods?limit=500", 200, 2),
				done("3", "create", snapshots+"?fieldManager=x", 201, 3),
				done("4", "update", "/api/v1/namespaces/app/pods/db/status", 200, 4),
				done("5", "patch", snapshots+"/s-1", 200, 5),
				done("6", "delete", snapshots+"/s-1", 200, 6),
				done("7", "deletecollection", snapshots, 200, 7),
				done("8", "get", "/apis", 200, 8),
				done("9", "get", "/api/v1/namespaces/app/pods/db/exec?command=x", 101, 9),
				done("10", "create", "/api/v1/namespaces/app/pods/db/exec?command=x", 101, 10),
				done("11", "head", "/healthz", 200, 11),
				done("12", "list", "/api/v1/namespaces/app/pods?fieldSelector=metadata.name%3Ddb", 200, 12),
			},
			want: map[string]int{
				"get pods": 1, "list pods": 2, "create volumesnapshots": 1, "update pods/status": 1, "patch volumesnapshots": 1,
				"delete volumesnapshots": 1, "deletecollection volumesnapshots": 1, "get /apis": 1, "get pods/exec": 1,
				"create pods/exec": 1, "get /healthz": 1,
			},
		},
		"watches": {
			reason: "a watch counts once, open or ended",
			lines: []string{
				line("1", "ResponseStarted", "watch", snapshots+"?watch=true", 200, 1),
				line("2", "ResponseStarted", "watch", snapshots+"?watch=true", 200, 2),
				done("1", "watch", snapshots+"?watch=true", 200, 1),
			},
			want: map[string]int{"watch volumesnapshots": 2},
		},
		"every stage": {
			reason: "a policy may log all stages",
			lines: []string{
				line("1", "RequestReceived", "list", "/api/v1/pods", 0, 1),
				line("1", "ResponseStarted", "list", "/api/v1/pods", 200, 1),
				line("1", "Panic", "list", "/api/v1/pods", 500, 1),
			},
			want: map[string]int{"list pods": 1},
		},
		"refusals": {
			reason: "each try reached the server",
			lines: []string{
				done("1", "create", snapshots, 429, 1), done("2", "create", snapshots, 429, 2), done("3", "create", snapshots, 201, 3),
				done("4", "list", "/api/v1/secrets", 403, 4),
			},
			want: map[string]int{"create volumesnapshots": 3, "list secrets": 1},
		},
		"without watch and discovery": {
			reason: "filters leave out",
			lines: []string{
				line("1", "ResponseStarted", "watch", snapshots+"?watch=true", 200, 1),
				done("2", "get", "/api", 200, 2), done("3", "get", "/version", 200, 3), done("4", "list", snapshots, 200, 4),
			},
			only: []audit.Filter{audit.NoWatch, audit.NoDiscovery},
			want: map[string]int{"list volumesnapshots": 1},
		},
		"half a line": {
			reason: "the server is writing it",
			lines:  []string{done("1", "list", snapshots, 200, 1), strings.TrimSuffix(done("2", "list", snapshots, 200, 2), "\n")},
			want:   map[string]int{"list volumesnapshots": 1},
		},
		"a URI that is none": {
			reason: "anybody may send anything",
			lines:  []string{done("1", "get", "%zz", 400, 1)},
			want:   map[string]int{"get %zz": 1},
		},
		"a broken line": {
			reason: "only the last line may be half",
			lines:  []string{done("1", "list", snapshots, 200, 1), "{\n"},
			err:    "after byte 0: line 2: unexpected end of JSON input",
		},
		"something else": {reason: "an object that is no event is told", lines: []string{"{}\n"}, err: `after byte 0: line 1: stage: "": no such stage`},
		"without an ID":  {reason: "entries of a request belong together by it", lines: []string{done("", "list", snapshots, 200, 1)}, err: "auditID: must not be empty"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, tc.lines...)
			got, err := audit.Open(file).Counts(audit.Mark{}, "u", tc.only...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: Counts (-want +got):\n%s", tc.reason, diff)
			}
			if (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), file)) {
				t.Errorf("%s: Counts = %v, want an error with %q and the file", tc.reason, err, tc.err)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	other := strings.ReplaceAll(done("9", "list", "/api/v1/pods", 200, 2), `"username":"u"`, `"username":"other"`)
	log := audit.Open(write(t,
		done("2", "create", snapshots, 201, 20, `"objectRef":{"resource":"volumesnapshots","namespace":"app","name":"s-1"},`),
		line("1", "ResponseStarted", "watch", "/api/v1/pods?watch=1", 200, 10),
		other,
		line("3", "RequestReceived", "create", snapshots, 0, 20),
		done("3", "create", snapshots, 409, 20, `"objectRef":{"resource":"volumesnapshots","namespace":"app","name":"s-2"},`),
	))
	snapshot := apirequest.Info{
		Verb: "create", Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots", Namespace: "app", Path: snapshots, User: "u",
	}
	first, second := snapshot, snapshot
	first.Name, second.Name = "s-1", "s-2"
	at := func(millis int) time.Time { return began.Add(time.Duration(millis) * time.Millisecond) }
	want := []audit.Event{
		{Info: apirequest.Info{Verb: "watch", Version: "v1", Resource: "pods", Path: "/api/v1/pods", User: "u"}, ID: "1", Code: 200, Agent: "backup/v0", Received: at(10)},
		{Info: first, ID: "2", Code: 201, Agent: "backup/v0", Received: at(20), Ended: at(21)},
		{Info: second, ID: "3", Code: 409, Agent: "backup/v0", Received: at(20), Ended: at(21)},
	}
	got, err := log.Events(audit.Mark{}, "u")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Events = %v (-want +got):\n%s", err, diff)
	}
	if s := got[1].String(); s != "create app/volumesnapshots/s-1: 201" {
		t.Errorf("String() = %q", s)
	}
	everybody, err := log.Events(audit.Mark{}, "", audit.NoWatch)
	if err != nil || len(everybody) != 3 || everybody[0].User != "other" {
		t.Errorf("Events of everybody = %v, %v, want 3, the other's first", everybody, err)
	}
}

// What was received before a mark does not count after it, though its last entry stands behind the mark.
func TestMark(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	log := audit.Open(file)
	early, err := log.Mark()
	if err != nil {
		t.Fatal(err)
	}
	millis := func() int { return int(time.Since(began).Milliseconds()) + 1 } // the next millisecond
	before := millis() - 1000
	half := done("2", "list", "/api/v1/secrets", 200, before)
	appendTo(t, file, line("1", "ResponseStarted", "watch", "/api/v1/pods?watch=1", 200, before), half[:10])
	mark, err := log.Mark()
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, file, half[10:], done("1", "watch", "/api/v1/pods?watch=1", 200, before), done("3", "create", snapshots, 201, millis()))
	log.AssertCounts(t, map[string]int{"create volumesnapshots": 1}, mark, "u")
	log.AssertCounts(t, map[string]int{"create volumesnapshots": 1}, early, "u")
	log.AssertCounts(t, map[string]int{"create volumesnapshots": 1, "watch pods": 1, "list secrets": 1}, audit.Mark{}, "u")
	whole, err := log.Mark()
	if err != nil {
		t.Fatal(err)
	}
	log.AssertCounts(t, nil, whole, "u")
	if err := os.Truncate(file, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Counts(whole, "u"); err == nil || !strings.Contains(err.Error(), "5 bytes, less than") {
		t.Errorf("Counts of a log that was cut = %v, want that it is shorter", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Counts(whole, "u"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Counts of a log that is gone = %v, want that it does not exist", err)
	}
	log.AssertCounts(t, nil, audit.Mark{}, "u")
}

// A Log that nobody opened has no answer, least of all that nobody asked for anything.
func TestZeroLog(t *testing.T) {
	t.Parallel()
	var log audit.Log
	if _, err := log.Mark(); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Mark of the zero Log = %v, want ErrInvalid", err)
	}
	if counts, err := log.Counts(audit.Mark{}, ""); !errors.Is(err, fs.ErrInvalid) || counts != nil {
		t.Errorf("Counts of the zero Log = %v, %v, want ErrInvalid", counts, err)
	}
}

// A log is read whole or refused, and every request counts once.
func FuzzParse(f *testing.F) {
	f.Add([]byte(done("1", "list", snapshots, 200, 1) + line("2", "ResponseStarted", "watch", "/api/v1/pods?watch=1", 200, 2) + "{"))
	f.Add([]byte(done("1", "connect", "x", 0, 1)))
	f.Add([]byte("null\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := audit.Parse(bytes.NewReader(data))
		if err != nil {
			if events != nil {
				t.Errorf("Parse = %v, %v", events, err)
			}
			return
		}
		ids, sum := map[string]bool{}, 0
		for _, e := range events {
			ids[e.ID] = true
		}
		for _, n := range audit.Count(events) {
			sum += n
		}
		if len(ids) != len(events) || sum != len(events) {
			t.Errorf("%d events, %d IDs, %d counted", len(events), len(ids), sum)
		}
		if _, missing := audit.CompareRules(audit.Rules(events), audit.Rules(events)); len(missing) > 0 {
			t.Errorf("rules of the events do not allow %q", missing)
		}
	})
}

func ExampleLog_Counts() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "audit.log")
	text := done("1", "get", "/apis", 200, 1) + done("2", "create", snapshots, 429, 2) + done("3", "create", snapshots, 201, 3)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(audit.Open(file).Counts(audit.Mark{}, "u", audit.NoDiscovery))
	// Output: map[create volumesnapshots:2] <nil>
}
