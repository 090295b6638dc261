package e2e_test

import (
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// atOnce is how many snapshots TestAtOnce takes together.
const atOnce = 500

// maxReads bounds what is read for all of them: the plan's lists, the watches' lists and one safety re-read a minute.
const maxReads = 40

// S1: S3: snap-2: snap-3: snap-6: 500 snapshots at once, on controllers that are not held back: each is told as fast as by a bare watch
// of client-go beside it, reads do not grow with their number, and all are destroyed at once too. S10: nothing is left at the driver.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	busy(t)
	c := cluster(t)
	faster := []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}
	must(t, rates(t.Context(), map[string][]string{stack.SnapshotController: faster, stack.Snapshotter: faster}))
	a := application(t, "many", app.Spec{Claims: app.Named(app.Numbered("v", atOnce)...)})
	var ours sightings
	snapshots := library(t, a, csisnapshot.Options{Observer: csisnapshot.Observer{Cut: func(e csisnapshot.VolumeEvent) { ours.see(e.Handle) }}})
	bare := watchBare(t, a)
	mark, err := c.Stack.Audit().Mark()
	must(t, err)
	owner := ownerOf(a, "all")
	report := cut(t, snapshots, a, owner)
	counts, err := c.Stack.Audit().Counts(mark, a.User, audit.NoDiscovery)
	must(t, err)
	if made := counts["create volumesnapshots"]; made != atOnce {
		t.Errorf("%d snapshots were created, want %d", made, atOnce)
	}
	reads := 0
	for request, n := range counts {
		if request != "create volumesnapshots" {
			reads += n
		}
	}
	if reads > maxReads {
		t.Errorf("S3: %d requests besides creates, want at most %d: %v", reads, maxReads, counts)
	}
	t.Logf("%d snapshots cut in %.1f s, requests %v", atOnce, report.Duration.Seconds(), counts)

	from := answered(t, a)
	if len(from) != atOnce {
		t.Errorf("the driver cut %d, want %d", len(from), atOnce)
	}
	told, seen := latencies(t, from, ours.all()), latencies(t, from, bare.all())
	if t.Failed() {
		return
	}
	for _, p := range []int{50, 99} {
		our, its := percentile(told, p), percentile(seen, p)
		t.Logf("from the driver's answer, p%d: the library %v, a bare watch %v", p, our.Round(time.Millisecond), its.Round(time.Millisecond))
		if float64(our) > slowerFactor*float64(its) && our > its+slowerBy {
			t.Errorf("p%d: %v, a bare watch takes %v", p, our, its)
		}
	}

	began := time.Now()
	destroyed, err := snapshots.Destroy(within(t, bound), owner, refs(report.Volumes)...)
	must(t, err)
	must(t, destroyed.Err())
	t.Logf("destroyed in %.1f s", time.Since(began).Seconds())
	clean(t, a)
	judge(t, a, atOnce, 0)
}
