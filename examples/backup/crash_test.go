package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
	"github.com/sheetanchor/sheetanchor/internal/race"
	"github.com/sheetanchor/sheetanchor/phase"
)

// slowScripts make the cuts and the readiness take a while, so that a process can end in between.
func slowScripts() map[string]backuptest.Script {
	return map[string]backuptest.Script{
		"db-data": {CutAfter: 300 * time.Millisecond, ReadyAfter: 5 * time.Second},
		"media":   {CutAfter: 100 * time.Millisecond, ReadyAfter: time.Second},
	}
}

// A process that ends after any single write is followed by one that completes the backup: every freeze is thawed, and no
// volume has a second snapshot. P4 P6 O8 S5 S9 S10 F2 X6 X7.
func TestCrashAfterEveryWrite(t *testing.T) {
	t.Parallel()
	writes := 0
	t.Run("none", func(t *testing.T) { writes = crashAt(t, 0) })
	if writes < 40 {
		t.Fatalf("a whole run makes %d writes, want at least 40: are they effects of the process?", writes)
	}
	for k := 1; k <= writes; k += race.Scaled(1, 3) {
		t.Run(fmt.Sprintf("write %d", k), func(t *testing.T) {
			t.Parallel()
			crashAt(t, k)
		})
	}
}

// crashAt takes a backup whose first process ends after its kth write, and returns how many writes that began. No process
// ends before its time if k is 0.
func crashAt(t *testing.T, k int) (first int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slowScripts())
		var r result
		var code, processes int
		first, processes = programtest.CrashAt(t, k, func(ctx context.Context, p *backuptest.Process) (err error) {
			r, code, err = w.live(ctx, p, testOptions(t), w.store)
			return err
		})
		if code != program.ExitCompleted || r.Phase != phase.Completed {
			t.Fatalf("process %d: exit %d, phase %s, want 0 and Completed", processes, code, r.Phase)
		}
		if got := len(r.Snapshots); got != 7 {
			t.Errorf("%d snapshots are recorded, want 7", got)
		}
		for _, s := range r.Snapshots {
			if s.Handle == "" || !s.ReadyToUse || s.Error != "" {
				t.Errorf("the record of claim %s is %+v, want a ready one with a handle", s.PVC, s)
			}
		}
		w.check(t.Context())
	})
	return first
}
