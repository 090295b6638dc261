package main

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
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
	t.Run("none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, slowScripts())
			f := noTrouble()
			r, code, err := w.run(f, testOptions(t))
			if err != nil || code != exitCompleted || r.Phase != phase.Completed {
				t.Fatalf("exit %d, phase %s, error %v, want 0, Completed and none", code, r.Phase, err)
			}
			w.check(t.Context())
			writes = f.writes
		})
	})
	if writes < 40 {
		t.Fatalf("a whole run makes %d writes, want at least 40: is the fuse in place?", writes)
	}
	for k := 1; k <= writes; k++ {
		t.Run(fmt.Sprintf("write %d", k), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slowScripts())
				f := killAt(k)
				if _, _, err := w.run(f, testOptions(t)); !errors.Is(err, errKilled) && (err != nil || f.writes >= k) {
					t.Fatalf("the first process ended with %v after %d writes, want that write %d killed it", err, f.writes, k)
				}
				r, code, err := w.run(noTrouble(), testOptions(t))
				if err != nil || code != exitCompleted || r.Phase != phase.Completed {
					t.Fatalf("the second process: exit %d, phase %s, error %v, want 0, Completed and none", code, r.Phase, err)
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
		})
	}
}
