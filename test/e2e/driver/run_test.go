package driver_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"google.golang.org/grpc/codes"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*driver.Options)
		want   []string
	}{
		"none at all":       {"every fault is told at once", func(o *driver.Options) { *o = driver.Options{} }, []string{"Name must", "Endpoint:", "Control:", "State must"}},
		"a TCP endpoint":    {"sidecars and driver share a directory", func(o *driver.Options) { o.Endpoint = "tcp://127.0.0.1:1" }, []string{`Endpoint: "tcp://127.0.0.1:1" is not unix:///absolute/path`}},
		"a relative socket": {"it would depend on where the program runs", func(o *driver.Options) { o.Control = "unix://ctl" }, []string{"Control:"}},
		"one socket twice":  {"two servers cannot share it", func(o *driver.Options) { o.Control = o.Endpoint }, []string{"Endpoint and Control are both"}},
		"a long socket":     {"the kernel does not take it", func(o *driver.Options) { o.Endpoint = "unix:///" + strings.Repeat("x", 107) }, []string{"longer than 107 bytes"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := optionsIn(t.TempDir())
			tc.change(&opts)
			err := driver.Run(t.Context(), opts)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Run() = %v, want an error with %q: %s", err, want, tc.reason)
				}
			}
		})
	}
}

func TestSockets(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		prepare func(t *testing.T, path string)
		want    string // empty: it is replaced
	}{
		"of a dead process": {"nobody removes it when a process is killed", func(t *testing.T, path string) {
			t.Helper()
			l := must[*net.UnixListener](t)(net.ListenUnix("unix", &net.UnixAddr{Name: path}))
			l.SetUnlinkOnClose(false)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"of a living process": {"it may be another driver", func(t *testing.T, path string) {
			t.Helper()
			l := must[net.Listener](t)(net.Listen("unix", path))
			t.Cleanup(func() { _ = l.Close() })
		}, "somebody listens there"},
		"no socket": {"it is somebody's file", func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "no socket"},
	}
	for name, tc := range cases {
		for _, socket := range []string{"csi", "ctl"} {
			t.Run(name+"/"+socket, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				tc.prepare(t, filepath.Join(dir, socket))
				if tc.want == "" {
					start(t, optionsIn(dir)).volume(t, "app/data")
					return
				}
				if err := driver.Run(t.Context(), optionsIn(dir)); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("Run() = %v, want an error with %q: %s", err, tc.want, tc.reason)
				}
			})
		}
	}
}

// Two drivers on one state would lose each other's snapshots.
func TestOneDriverForAState(t *testing.T) {
	t.Parallel()
	first := optionsIn(t.TempDir())
	start(t, first)
	second := optionsIn(t.TempDir())
	second.State = first.State
	tired := errors.New("waited long enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tired)
	if err := driver.Run(ctx, second); !errors.Is(err, tired) || !strings.Contains(err.Error(), first.State+".lock") {
		t.Errorf("Run() = %v, want the cause of ctx and the lock's name", err)
	}
}

// lines is a writer that may be read when the driver has ended.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func TestErrorLog(t *testing.T) {
	t.Parallel()
	log := &lines{}
	opts := optionsIn(t.TempDir())
	opts.Log = log
	f := start(t, opts)
	f.snapshot(t, "fine", f.volume(t, "app/data"))
	_, err := f.CreateSnapshot(t.Context(), snapshotRequest("s", "vol-none"))
	wantStatus(t, "CreateSnapshot", err, codes.NotFound, "")
	_, err = f.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{})
	wantStatus(t, "DeleteSnapshot", err, codes.InvalidArgument, "")
	f.stop()
	got := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	want := []string{
		`#3 CreateSnapshot name="s" id="" claim="": NotFound: source volume vol-none does not exist`,
		`#4 DeleteSnapshot name="" id="" claim="": InvalidArgument: snapshot_id: must be given`,
	}
	if len(got) != len(want) {
		t.Fatalf("log = %q, want %d lines", got, len(want))
	}
	for i := range want {
		if !strings.HasSuffix(got[i], want[i]) {
			t.Errorf("line %d = %q, want it to end with %q", i, got[i], want[i])
		}
	}
}

// Any number of callers with one name get one snapshot.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	volumes := []string{f.volume(t, "app/a"), f.volume(t, "app/b")}
	const callers, names = 8, 6
	var running sync.WaitGroup
	ids := make([][names]string, callers)
	for caller := range callers {
		running.Go(func() {
			for i := range names {
				name := string(rune('a' + i))
				resp, err := f.CreateSnapshot(t.Context(), snapshotRequest(name, volumes[i%2]))
				if err != nil {
					t.Error(err)
				}
				ids[caller][i] = resp.GetSnapshot().GetSnapshotId()
				if _, err := f.Snapshots(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Go(func() {
		for range names {
			if err := f.SetScript(t.Context(), "app/*", driver.Script{}); err != nil {
				t.Error(err)
			}
		}
	})
	running.Wait()
	for caller := range ids {
		if ids[caller] != ids[0] {
			t.Errorf("caller %d got %v, want %v as caller 0", caller, ids[caller], ids[0])
		}
	}
	if cuts := must[[]driver.Cut](t)(f.Cuts(t.Context(), "app/?")); len(cuts) != names {
		t.Errorf("%d cuts, want %d", len(cuts), names)
	}
	calls := must[[]driver.Call](t)(f.Calls(t.Context(), driver.CallFilter{}))
	for i, c := range calls {
		if c.Seq != i+1 || c.Code != "OK" || c.Answered.Before(c.Begun) {
			t.Errorf("call %d = %+v, want Seq %d, OK, answered after it began", i, c, i+1)
		}
	}
	if want := len(volumes) + callers*names; len(calls) != want {
		t.Errorf("%d calls, want %d", len(calls), want)
	}
}
