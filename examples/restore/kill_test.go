package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
	"github.com/sheetanchor/sheetanchor/phase"
)

// F2, X7: a real process that is killed at any moment is followed by one that completes the restore.
func TestKillProcess(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 2026))
	for i := range 4 {
		moment := 50*time.Millisecond + time.Duration(random.Int64N(int64(2*time.Second)))
		t.Run(fmt.Sprintf("%d after %v", i, moment), func(t *testing.T) {
			t.Parallel()
			dir := recorded(t)
			args := []string{"-o", "json", "-map", "shop=market", "-store", dir}
			r := decode(t, programtest.Killed(t, moment, args...))
			if r.Phase != phase.Completed {
				t.Errorf("the second process ended %s, want Completed", r.Phase)
			}
			checkVolumes(t, r, "market", 7)
			driver := backuptest.NewDriver(backuptest.DriverOptions{File: filepath.Join(dir, "driver.json")})
			if err := driver.Load(); err != nil {
				t.Fatal(err)
			}
			w := &world{t: t, driver: driver, cluster: backuptest.New(t, backuptest.Options{File: filepath.Join(dir, "cluster.json")})}
			w.check()
		})
	}
}
