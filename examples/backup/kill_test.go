package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
)

// A real process that is killed at any moment is followed by one that completes the backup. O8 S5 S9 X7.
func TestKillProcess(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 2026))
	for i := range 5 {
		moment := 50*time.Millisecond + time.Duration(random.Int64N(int64(3*time.Second)))
		t.Run(fmt.Sprintf("%d after %v", i, moment), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), moment)
			defer cancel()
			if out, err := process(ctx, t, dir).Output(); err == nil {
				t.Logf("it was quicker: %d bytes of output", len(out))
			} else if _, ok := errors.AsType[*exec.ExitError](err); !ok {
				t.Fatal(err)
			}
			out, err := process(t.Context(), t, dir).Output()
			if err != nil {
				t.Fatalf("the second process: %v\n%s", err, out)
			}
			var r result
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if r.Phase != phase.Completed || len(r.Snapshots) != 7 {
				t.Errorf("the second process ended %s with %d snapshots, want Completed with 7", r.Phase, len(r.Snapshots))
			}
			checkFiles(t, dir)
		})
	}
}

// process is the program, by SIGKILL ended with ctx.
func process(ctx context.Context, t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	args, err := json.Marshal([]string{"-o", "json", "-name", "killed", "-store", dir})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), argsVariable+"="+string(args))
	cmd.Stderr = &bytes.Buffer{}
	return cmd
}

// checkFiles reads the cluster and the storage that the processes left.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{File: filepath.Join(dir, "cluster.json")})
	driver := backuptest.NewDriver(backuptest.DriverOptions{File: filepath.Join(dir, "driver.json")})
	if err := driver.Load(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, cluster: cluster, driver: driver, store: operations.NewMemoryStore()}
	w.check(t.Context())
}
