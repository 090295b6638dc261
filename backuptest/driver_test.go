package backuptest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func createRequest(name string, script backuptest.Script) backuptest.CreateRequest {
	return backuptest.CreateRequest{
		Name: name, VolumeHandle: "vol-1", Claim: types.NamespacedName{Namespace: "app", Name: "data"}, Script: script,
	}
}

func TestDriverCreateSnapshotIsIdempotent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		driver := backuptest.NewDriver(backuptest.DriverOptions{})
		req := createRequest("snapshot-1", backuptest.Script{CutAfter: 2 * time.Second, ReadyAfter: 3 * time.Second})
		start := time.Now()
		first, err := driver.CreateSnapshot(t.Context(), req)
		if err != nil {
			t.Fatalf("CreateSnapshot = %v", err)
		}
		if took := time.Since(start); took != 2*time.Second || first.ReadyToUse {
			t.Errorf("cut after %v, ready %t; want 2s and not ready", took, first.ReadyToUse)
		}
		time.Sleep(3 * time.Second)
		again, err := driver.CreateSnapshot(t.Context(), req)
		if err != nil {
			t.Fatalf("CreateSnapshot again = %v", err)
		}
		first.ReadyToUse = true
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("a second call took another snapshot (-first +second):\n%s", diff)
		}
		if held := driver.Snapshots(); len(held) != 1 || held[0].Claim.String() != "app/data" || held[0].VolumeHandle != "vol-1" {
			t.Errorf("Snapshots() = %+v, want the one of app/data", held)
		}
		if held := driver.Snapshots(); held[0].Size != 1<<30 || held[0].Driver != backuptest.DefaultDriver {
			t.Errorf("Snapshots() = %+v, want the defaults 1 GiB and %s", held, backuptest.DefaultDriver)
		}
	})
}

func TestDriverCutGoesOnWithoutItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		driver := backuptest.NewDriver(backuptest.DriverOptions{})
		cause := errors.New("caller went away")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		req := createRequest("snapshot-1", backuptest.Script{CutAfter: 4 * time.Second})
		if _, err := driver.CreateSnapshot(ctx, req); !errors.Is(err, cause) {
			t.Fatalf("CreateSnapshot = %v, want the cause of its ctx", err)
		}
		if held := driver.Snapshots(); len(held) != 0 {
			t.Fatalf("Snapshots() = %+v before the cut, want none", held)
		}
		time.Sleep(3 * time.Second)
		if held := driver.Snapshots(); len(held) != 1 {
			t.Fatalf("Snapshots() = %+v after the cut, want one", held)
		}
		start := time.Now()
		if _, err := driver.CreateSnapshot(t.Context(), req); err != nil || time.Since(start) != 0 {
			t.Errorf("CreateSnapshot after the cut = %v in %v, want at once", err, time.Since(start))
		}
	})
}

func TestDriverErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		errors []backuptest.DriverError
		want   []string // one a call; empty is success
	}{
		"none": {reason: "no script, no error", want: []string{""}},
		"three then success": {
			reason: "an error is answered Times times, then the next, then success",
			errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "bad", Times: 2}, {Text: "broken", Times: 1}},
			want: []string{
				"rpc error: code = InvalidArgument desc = bad", "rpc error: code = InvalidArgument desc = bad",
				"rpc error: code = Internal desc = broken", "",
			},
		},
		"for ever": {
			reason: "Times 0 has no end",
			errors: []backuptest.DriverError{{Code: "Unavailable", Text: "down"}},
			want:   []string{"rpc error: code = Unavailable desc = down", "rpc error: code = Unavailable desc = down"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := backuptest.NewDriver(backuptest.DriverOptions{})
			for i, want := range tc.want {
				_, err := driver.CreateSnapshot(t.Context(), createRequest("snapshot-1", backuptest.Script{Errors: tc.errors}))
				got := ""
				if failure, ok := errors.AsType[*backuptest.DriverError](err); ok {
					got = failure.Error()
				}
				if got != want || (err == nil) != (want == "") {
					t.Errorf("%s: call %d = %v, want %q", tc.reason, i+1, err, want)
				}
			}
		})
	}
}

func TestDriverRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	if _, err := driver.CreateSnapshot(t.Context(), createRequest("snapshot-1", backuptest.Script{})); err != nil {
		t.Fatal(err)
	}
	other := createRequest("snapshot-1", backuptest.Script{})
	other.VolumeHandle = "vol-2"
	nameless := createRequest("", backuptest.Script{})
	for want, req := range map[string]backuptest.CreateRequest{"AlreadyExists": other, "InvalidArgument": nameless} {
		_, err := driver.CreateSnapshot(t.Context(), req)
		if failure, ok := errors.AsType[*backuptest.DriverError](err); !ok || failure.Code != want {
			t.Errorf("CreateSnapshot(%q of %q) = %v, want code %s", req.Name, req.VolumeHandle, err, want)
		}
	}
}

func TestDriverDeleteSnapshot(t *testing.T) {
	t.Parallel()
	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	taken, err := driver.CreateSnapshot(t.Context(), createRequest("snapshot-1", backuptest.Script{}))
	if err != nil {
		t.Fatal(err)
	}
	stubborn := backuptest.Script{DeleteErrors: []backuptest.DriverError{{Code: "FailedPrecondition", Text: "in use", Times: 1}}}
	if err := driver.DeleteSnapshot(t.Context(), taken.Handle, stubborn); err == nil || len(driver.Snapshots()) != 1 {
		t.Errorf("DeleteSnapshot = %v with %d held, want a refusal and the snapshot kept", err, len(driver.Snapshots()))
	}
	for range 2 {
		if err := driver.DeleteSnapshot(t.Context(), taken.Handle, stubborn); err != nil || len(driver.Snapshots()) != 0 {
			t.Errorf("DeleteSnapshot = %v with %d held, want success and none", err, len(driver.Snapshots()))
		}
	}
}

func TestDriverSurvivesARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "driver.json")
	open := func() *backuptest.Driver { return backuptest.NewDriver(backuptest.DriverOptions{File: file}) }
	script := backuptest.Script{Errors: []backuptest.DriverError{{Text: "busy", Times: 2}}}
	req := createRequest("snapshot-1", script)

	if _, err := open().CreateSnapshot(t.Context(), req); err == nil {
		t.Fatal("first call succeeded, want the scripted error")
	}
	if _, err := open().CreateSnapshot(t.Context(), req); err == nil {
		t.Fatal("the second call after a restart succeeded, want the second scripted error")
	}
	taken, err := open().CreateSnapshot(t.Context(), req)
	if err != nil {
		t.Fatalf("third call = %v, want success", err)
	}
	again, err := open().CreateSnapshot(t.Context(), req)
	if err != nil || again.Handle != taken.Handle {
		t.Errorf("a restarted driver took %q, %v; want %q again", again.Handle, err, taken.Handle)
	}
	if held := open().Snapshots(); len(held) != 1 || !held[0].ReadyToUse {
		t.Errorf("a restarted driver holds %+v, want the one snapshot", held)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v; want the driver's file alone", entries, err)
	}
}

func TestDriverFileFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	newer := filepath.Join(dir, "newer.json")
	for name, text := range map[string]string{broken: "{", newer: `{"version":99}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(dir, "no", "such", "driver.json")
	for name, file := range map[string]string{"broken": broken, "newer": newer, "a folder": dir} {
		driver := backuptest.NewDriver(backuptest.DriverOptions{File: file})
		if err := driver.Load(); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: Load() = %v, want an error naming %s", name, err, file)
		}
		if _, err := driver.CreateSnapshot(t.Context(), createRequest("s", backuptest.Script{})); err == nil {
			t.Errorf("%s: CreateSnapshot succeeded on a file that cannot be read", name)
		}
	}
	unwritable := backuptest.NewDriver(backuptest.DriverOptions{File: missing})
	if _, err := unwritable.CreateSnapshot(t.Context(), createRequest("s", backuptest.Script{})); err == nil || len(unwritable.Snapshots()) != 0 {
		t.Errorf("CreateSnapshot = %v with %d held, want an error and nothing held", err, len(unwritable.Snapshots()))
	}
	if data, err := os.ReadFile(newer); err != nil || string(data) != `{"version":99}` {
		t.Errorf("a file of another version became %q, %v; want it untouched", data, err)
	}
}
