package backuptest_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: at the real default rate the controller is as slow as the one that was measured: one snapshot at once, 5 in 7 s and 50 in 88 s,
// whatever the storage; and with 200 requests a second 50 in 4 s and 200 in 14 s, where the real one's own work adds to the rate's.
func TestControllerRealRate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		snapshots int
		rate      float64 // RealRate
		min, max  time.Duration
	}{
		"1":  {snapshots: 1, max: 1500 * time.Millisecond},
		"5":  {snapshots: 5, min: 6 * time.Second, max: 8 * time.Second},
		"50": {snapshots: 50, min: 86 * time.Second, max: 90 * time.Second},

		"50 at 200":  {snapshots: 50, rate: 200, min: 250 * time.Millisecond, max: 4 * time.Second},
		"200 at 200": {snapshots: 200, rate: 200, min: 7 * time.Second, max: 14 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, claimAndClass()...)
				l.run(backuptest.ControllerOptions{Rate: cmp.Or(tc.rate, backuptest.RealRate), Workers: backuptest.RealWorkers})
				for i := range tc.snapshots {
					l.take(fmt.Sprintf("snap-%d", i), "data", backuptest.DefaultSnapshotClass)
				}
				l.wait(10 * time.Minute)
				var last time.Duration
				for i := range tc.snapshots {
					last = max(last, l.when(fmt.Sprintf("vs snap-%d", i), "ready", finBound))
				}
				if last < tc.min || last > tc.max {
					t.Errorf("%d snapshots done after %v, want %v to %v", tc.snapshots, last, tc.min, tc.max)
				}
				if held := l.driver.Snapshots(); len(held) != tc.snapshots {
					t.Errorf("the storage holds %d, want %d", len(held), tc.snapshots)
				}
			})
		})
	}
}

// B2: at the real rate contents are cut seconds before their snapshots name them, as measured for 6 volumes: 2.7 s against 5.0 s; and
// a ready snapshot may lack its bound finalizer for a while.
func TestControllerDrift(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		for i := range 6 {
			l.take(fmt.Sprintf("snap-%d", i), "data", backuptest.DefaultSnapshotClass)
		}
		l.run(backuptest.ControllerOptions{Rate: backuptest.RealRate})
		l.wait(10 * time.Minute)
		var cut, bound time.Duration
		late := 0
		for i := range 6 {
			vs := fmt.Sprintf("vs snap-%d", i)
			cut = max(cut, l.when(fmt.Sprintf("vsc snap-%d", i), "handle"))
			bound = max(bound, l.when(vs, "bound"))
			if l.when(vs, finBound) > l.when(vs, "ready") {
				late++
			}
			path := l.path(vs)
			if last := path[len(path)-1]; !strings.Contains(last, finBound) {
				t.Errorf("%s ended as %q, want its bound finalizer at last", vs, last)
			}
		}
		if cut < 2*time.Second || cut > 3500*time.Millisecond || bound < 4500*time.Millisecond || bound > 6*time.Second {
			t.Errorf("all cut after %v and all bound after %v, want about 2.7s and 5.0s", cut, bound)
		}
		if late == 0 {
			t.Error("every snapshot had its bound finalizer when it became ready, want the drift of the real rate")
		}
	})
}

// B2: Workers bounds the calls under way, as the real sidecar does.
func TestControllerWorkers(t *testing.T) {
	t.Parallel()
	for workers, want := range map[int][]time.Duration{0: {10 * time.Second}, 2: {10 * time.Second, 20 * time.Second}} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, claimAndClass()...)
				l.run(backuptest.ControllerOptions{Workers: workers, Scripts: map[string]backuptest.Script{"data": {CutAfter: 10 * time.Second}}})
				var cut []time.Duration
				for i := range 4 {
					l.take(fmt.Sprintf("snap-%d", i), "data", backuptest.DefaultSnapshotClass)
				}
				l.wait(time.Minute)
				for i := range 4 {
					cut = append(cut, l.when(fmt.Sprintf("vsc snap-%d", i), "handle"))
				}
				slices.Sort(cut)
				if got := slices.Compact(cut); !slices.Equal(got, want) {
					t.Errorf("cut after %v, want %v", got, want)
				}
			})
		})
	}
}
