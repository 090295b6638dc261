package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
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
			args := []string{"-o", "json", "-name", "killed", "-store", dir}
			r := decode(t, programtest.Killed(t, moment, args...))
			if r.Phase != phase.Completed || len(r.Snapshots) != 7 {
				t.Errorf("the second process ended %s with %d snapshots, want Completed with 7", r.Phase, len(r.Snapshots))
			}
			checkFiles(t, dir)
		})
	}
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
