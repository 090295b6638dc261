package backuptest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: a successful snapshot goes through the statuses, annotations and finalizers of the real controllers, in their order.
func TestControllerSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{
			Scripts: map[string]backuptest.Script{"app/data": {CutAfter: 2 * time.Second, ReadyAfter: 5 * time.Second}},
		})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Minute)

		wantVS := []string{
			"no-status",
			finSource + " no-status",
			"bound " + finSource + " unready",
			"bound " + finSource + " " + finBound + " unready",
			"bound cut " + finSource + " " + finBound + " size unready",
			"bound cut " + finSource + " " + finBound + " ready size",
		}
		if diff := cmp.Diff(wantVS, l.path("vs snap")); diff != "" {
			t.Errorf("states of the snapshot (-want +got):\n%s", diff)
		}
		wantVSC := []string{
			"no-status",
			"being-created:yes no-status",
			"being-created:yes cut handle size unready",
			"cut handle size unready",
			"being-created:yes cut handle size unready", "cut handle size unready", // asked after 1 s
			"being-created:yes cut handle size unready", "cut handle size unready", // and 2 s
			"being-created:yes cut handle size unready",
			"being-created:yes cut handle ready size", // and 4 s
			"cut handle ready size",
		}
		if diff := cmp.Diff(wantVSC, l.path("vsc snap", finContent)); diff != "" {
			t.Errorf("states of the content (-want +got):\n%s", diff)
		}
		if cut, ready := l.when("vsc snap", "handle"), l.when("vs snap", "ready"); cut != 2*time.Second || ready != 9*time.Second {
			t.Errorf("cut after %v and ready after %v, want 2s and, as 5s is asked for after 1, 3 and 7, 9s", cut, ready)
		}
		l.when("vsc snap", finContent, "no-status")
		want := []string{"Normal CreatingSnapshot", "Normal SnapshotCreated", "Normal SnapshotReady"}
		if diff := cmp.Diff(want, l.reasons("app")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if held := l.driver.Snapshots(); len(held) != 1 || held[0].Claim.String() != "app/data" {
			t.Errorf("the storage holds %+v, want one snapshot of app/data", held)
		}
	})
}
