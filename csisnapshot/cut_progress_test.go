package csisnapshot_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// X4: the counts begin with the whole, change with every step, only grow but for the pods that are frozen, and end with all
// done; each volume's own steps are told before them.
func TestCutProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := slowScripts(5*time.Second, "a", "b")
		scripts["bad"] = backuptest.Script{Errors: []backuptest.DriverError{{Code: "Internal", Text: "no"}}}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, append(claims("a", "b", "bad"), hookedPod("pa", "a"))...)
		var seen []csisnapshot.Progress
		steps := map[string]int{}
		step := func(name string) func(csisnapshot.VolumeEvent) {
			return func(e csisnapshot.VolumeEvent) { steps[name+" "+e.Claim] = len(seen) }
		}
		l.mustCut(csisnapshot.Options{
			Wait: csisnapshot.WaitOptions{Classifier: csisnapshot.FinalCodes("Internal")},
			Observer: csisnapshot.Observer{
				Created: step("created"), PickedUp: step("picked up"), Cut: step("cut"), Failed: step("failed"),
				Progress: func(p csisnapshot.Progress) { seen = append(seen, p) },
			},
		})
		for i := 1; i < len(seen); i++ {
			before, now := seen[i-1], seen[i]
			if now == before || now.Created < before.Created || now.PickedUp < before.PickedUp || now.Cut < before.Cut ||
				now.Failed < before.Failed || now.ThawedPods < before.ThawedPods || now.Done() < before.Done() {
				t.Errorf("%+v follows %+v", now, before)
			}
		}
		if first := seen[0]; first.Done() != 0 || first.FrozenPods != 0 || first.HookedPods != 1 || first.Volumes != 3 {
			t.Errorf("first %+v, want one pod to be frozen and three volumes to come, before anything is done", first)
		}
		want := csisnapshot.Progress{
			Volumes: 3, Created: 3, PickedUp: 3, Cut: 2, Failed: 1, Batches: 2, EndedBatches: 2, HookedPods: 1, ThawedPods: 1,
		}
		if diff := cmp.Diff(want, seen[len(seen)-1]); diff != "" || want.Done() != 1 {
			t.Errorf("last (-want +got):\n%s", diff)
		}
		for _, c := range []string{"a", "b"} {
			if created, picked, cut := steps["created "+c], steps["picked up "+c], steps["cut "+c]; created >= picked || picked >= cut {
				t.Errorf("claim %s: %v", c, fmt.Sprint(steps))
			}
		}
		if _, ok := steps["failed bad"]; !ok {
			t.Errorf("the failure was not told: %v", steps)
		}
		if got := (csisnapshot.Progress{}).Done(); got != 1 {
			t.Errorf("Done of nothing = %v", got)
		}
	})
}
