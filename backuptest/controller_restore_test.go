package backuptest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: deleting many snapshots lists the claims a few times, not once a snapshot: before the watch, and after
// it.
func TestControllerDeletesWithFewLists(t *testing.T) {
	t.Parallel()
	const snapshots, wantLists = 60, 2
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{})
		for i := range snapshots {
			l.take(fmt.Sprintf("snap-%d", i), "data", backuptest.DefaultSnapshotClass)
		}
		l.wait(10 * time.Second)
		if lists := l.cluster.Requests()["list persistentvolumeclaims"]; lists != 0 {
			t.Errorf("%d lists of claims before anything is deleted, want none", lists)
		}
		for i := range snapshots {
			l.delete(snapshotsGVR, "app", fmt.Sprintf("snap-%d", i))
		}
		l.wait(time.Second)
		if lists := l.cluster.Requests()["list persistentvolumeclaims"]; lists != wantLists {
			t.Errorf("%d lists of claims for %d deletions, want %d", lists, snapshots, wantLists)
		}
		if held := l.driver.Snapshots(); len(held) != 0 {
			t.Errorf("the storage holds %d snapshots, want none", len(held))
		}
	})
}
