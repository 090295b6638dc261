package driver_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
)

// all is what a client can ask for.
type all struct {
	Rules     []driver.Rule
	Limits    map[string]driver.Limit
	Volumes   []driver.Volume
	Snapshots []driver.Snapshot
	Groups    []driver.Group
	Calls     []driver.Call
	Counts    driver.Counts
	Cuts      []driver.Cut
}

func (f *fixture) all(t *testing.T) all {
	t.Helper()
	return all{
		Rules: must[[]driver.Rule](t)(f.Rules(t.Context())), Limits: must[map[string]driver.Limit](t)(f.Limits(t.Context())),
		Volumes: must[[]driver.Volume](t)(f.Volumes(t.Context())), Snapshots: must[[]driver.Snapshot](t)(f.Snapshots(t.Context())),
		Groups: must[[]driver.Group](t)(f.Groups(t.Context())), Calls: must[[]driver.Call](t)(f.Calls(t.Context(), driver.CallFilter{})),
		Counts: must[driver.Counts](t)(f.Counts(t.Context())), Cuts: must[[]driver.Cut](t)(f.Cuts(t.Context(), "")),
	}
}

// filled runs a driver that holds one of everything, ends it and returns what it had.
func filled(t *testing.T, opts driver.Options) all {
	t.Helper()
	f := start(t, opts)
	f.script(t, "app/failing", errorScript(backuptest.DriverError{Text: "one", Times: 1}, backuptest.DriverError{Text: "two", Times: 1}))
	f.script(t, "app/b", driver.Script{Script: backuptest.Script{ReadyAfter: time.Hour}, HangDelete: true})
	if err := f.SetLimit(t.Context(), "GetVolumeGroupSnapshot", driver.Limit{PerSecond: 0.5, Burst: 2}); err != nil {
		t.Fatal(err)
	}
	a, b, failing := f.volume(t, "app/a"), f.volume(t, "app/b"), f.volume(t, "app/failing")
	f.snapshot(t, "single", a)
	must[*csi.VolumeGroupSnapshot](t)(f.takeGroup(t, "g", a, b))
	if _, err := f.CreateSnapshot(t.Context(), snapshotRequest("later", failing)); err == nil {
		t.Fatal("CreateSnapshot() = nil, want the first error of the script")
	}
	before := f.all(t)
	f.stop()
	return before
}

func TestRestart(t *testing.T) {
	t.Parallel()
	opts := optionsIn(t.TempDir())
	before := filled(t, opts)
	if len(before.Snapshots) != 3 || len(before.Cuts) != 3 || len(before.Calls) != 6 {
		t.Fatalf("%d snapshots, %d cuts, %d calls, want 3, 3 and 6", len(before.Snapshots), len(before.Cuts), len(before.Calls))
	}
	f := start(t, opts)
	if diff := cmp.Diff(before, f.all(t)); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	failing := f.volume(t, "app/failing")
	if _, err := f.CreateSnapshot(t.Context(), snapshotRequest("later", failing)); err == nil || !strings.Contains(err.Error(), "two") {
		t.Errorf("CreateSnapshot() after a restart = %v, want the second error of the script", err)
	}
	f.snapshot(t, "later", failing)
}

// What a killed process leaves behind is dropped: half a line of calls, a temporary file. The rest is there.
func TestHalfWritten(t *testing.T) {
	t.Parallel()
	opts := optionsIn(t.TempDir())
	before := filled(t, opts)
	calls := must[[]byte](t)(os.ReadFile(opts.State + ".calls"))
	lines := bytes.SplitAfter(calls, []byte("\n"))
	last := len(lines) - 2 // the end of the last call; nothing follows its newline
	lines[last] = lines[last][:len(lines[last])/2]
	for name, data := range map[string][]byte{
		opts.State + ".calls": bytes.Join(lines, nil),
		filepath.Join(filepath.Dir(opts.State), "."+filepath.Base(opts.State)+".tmp"):           []byte(`{"half`),
		filepath.Join(filepath.Dir(opts.State), "."+filepath.Base(opts.State)+".snapshots.tmp"): []byte(`{"half`),
	} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := before.Calls
	want[len(want)-1].Code, want[len(want)-1].Answered, want[len(want)-1].Text = driver.Unanswered, time.Time{}, ""
	for range 2 { // the second start reads what the first one wrote
		f := start(t, opts)
		got := f.all(t)
		if diff := cmp.Diff(want, got.Calls); diff != "" {
			t.Errorf("Calls() (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before.Snapshots, got.Snapshots); diff != "" {
			t.Errorf("Snapshots() (-want +got):\n%s", diff)
		}
		f.volume(t, "app/a")
		want = must[[]driver.Call](t)(f.Calls(t.Context(), driver.CallFilter{}))
		f.stop()
	}
}

func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, suffix, content, want string
	}{
		"state is no JSON":      {"it is not guessed at", "", "x", "read state"},
		"state of the future":   {"its meaning is not known", "", `{"Version":2}`, "version 2 is not 1"},
		"state without volumes": {"nothing could be added to it", "", `{"Version":1,"Volumes":null}`, "must not be null"},
		"calls are no JSON":     {"a whole line was written whole", ".calls", "x\n", "line 1"},
		"calls have a gap":      {"lines are missing", ".calls", `{"Seq":2,"Method":"Probe"}` + "\n", "Seq 2 after 0 calls"},
		"calls with wrong Seq":  {"there is no call 0", ".calls", `{"Seq":0,"Method":"Probe"}` + "\n", "Seq 0 after 0 calls"},
		"snapshots are no JSON": {"it is not guessed at", ".snapshots", "x", "read driver file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := optionsIn(t.TempDir())
			if err := os.WriteFile(opts.State+tc.suffix, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := driver.Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run() = %v, want an error with %q: %s", err, tc.want, tc.reason)
			}
			if _, err := os.Lstat(strings.TrimPrefix(opts.Endpoint, "unix://")); !os.IsNotExist(err) {
				t.Errorf("the socket: %v, want none after an error", err)
			}
		})
	}
}
