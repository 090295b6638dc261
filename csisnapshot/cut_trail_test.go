package csisnapshot_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// S4: at the real rate of the controllers a pod is frozen no longer than alone, however many pods and unhooked volumes there
// are: the work that the snapshots of one pod leave to the controllers is waited for before the next freeze. It costs the Cut
// no time, for the rate is the limit.
func TestCutFreezesAsIfAlone(t *testing.T) {
	t.Parallel()
	pods, each, others := race.Scaled(10, 5), 3, race.Scaled(60, 20)
	tests := map[string]struct {
		wait csisnapshot.WaitOptions
		// On an idle cluster three snapshots are cut in 0.4 to 2.2 s, depending on which the controller takes first; behind
		// three others it was 5 s. Polling learns of it up to a second later.
		limit time.Duration
		// Without a rest between the work on one pod and the next, each freeze but the first was 3 s.
		mean time.Duration
	}{
		"watch": {limit: 3 * time.Second, mean: time.Second},
		"poll":  {wait: csisnapshot.WaitOptions{Mode: csisnapshot.ModePoll}, limit: 4 * time.Second, mean: 2 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := claims(numbered("other", others)...)
				for _, pod := range numbered("pod", pods) {
					mounts := numbered(pod+"-", each)
					all = append(append(all, claims(mounts...)...), hookedPod(pod, mounts...))
				}
				l := newCutLab(t, backuptest.ControllerOptions{Rate: backuptest.RealRate}, all...)
				report := l.mustCut(csisnapshot.Options{Wait: tc.wait})
				checkWhole(t, report)
				var total time.Duration
				for _, pod := range numbered("pod", pods) {
					frozen := podOf(t, report, pod).Frozen
					if total += frozen; frozen > tc.limit {
						t.Errorf("%s was frozen for %v, want at most %v", pod, frozen, tc.limit)
					}
				}
				if mean := total / time.Duration(pods); mean > tc.mean {
					t.Errorf("a pod was frozen for %v on average, want at most %v", mean, tc.mean)
				}
				if most := 2 * time.Minute; report.Duration > most {
					t.Errorf("the Cut took %v, want at most %v", report.Duration, most)
				}
			})
		})
	}
}

// S4: a controller that is not held back is not waited for.
func TestCutDoesNotRestWithoutNeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []backuptest.Builder
		for _, pod := range numbered("pod", race.Scaled(20, 8)) {
			all = append(all, claim(pod), hookedPod(pod, pod))
		}
		l := newCutLab(t, backuptest.ControllerOptions{}, all...)
		report := l.mustCut(csisnapshot.Options{})
		checkWhole(t, report)
		if most := 2 * time.Second; report.Duration > most {
			t.Errorf("the Cut took %v, want at most %v", report.Duration, most)
		}
	})
}

// S4: a snapshot whose status never tells of its cut holds up one freeze, for MaxPickup, and no more.
func TestCutGivesUpOnWorkOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pods := numbered("pod", 4)
		var all []backuptest.Builder
		for _, pod := range pods {
			all = append(all, claim(pod), hookedPod(pod, pod))
		}
		l := newCutLab(t, backuptest.ControllerOptions{}, all...)
		l.cluster.Fault(backuptest.Fault{
			Verb: "patch", Resource: "volumesnapshots/status", Code: 500,
			Name: csisnapshot.Names{}.Snapshot(cutOwner.UID, backuptest.UIDOf("PersistentVolumeClaim", "app", pods[0])),
		})
		report := l.mustCut(csisnapshot.Options{MaxPickup: 30 * time.Second})
		checkWhole(t, report)
		thawed, frozen := l.quiescer.find(t, pods[0], "post", 0).end, l.quiescer.find(t, pods[1], "pre", 0).at
		if frozen-thawed != 30*time.Second {
			t.Errorf("%s was frozen %v after %s was thawed, want MaxPickup of 30s", pods[1], frozen-thawed, pods[0])
		}
		if most := 35 * time.Second; report.Duration > most {
			t.Errorf("the Cut took %v, want at most %v", report.Duration, most)
		}
	})
}
