package loadtest

import (
	"container/heap"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

const (
	cutPods    = 40
	cutVolumes = 3
	manyFrozen = 10
)

// cut is 40 pods of 3 volumes, half of the pods with hooks, cuts of 0.2 to 4 s.
func cut(t *testing.T, b *bench) {
	t.Helper()
	latency := make([][]time.Duration, cutPods)
	r := random(1)
	for pod := range latency {
		for range cutVolumes {
			latency[pod] = append(latency[pod], 200*time.Millisecond+time.Duration(r.Int64N(int64(3800*time.Millisecond))))
		}
	}
	n := &namespace{
		Pods: cutPods, Volumes: cutVolumes, Hooked: func(pod int) bool { return pod%2 == 0 },
		Script: func(pod, volume int) backuptest.Script { return backuptest.Script{CutAfter: latency[pod][volume]} },
	}
	type result struct {
		total, freeze time.Duration
		reads, failed int
	}
	velero := map[int]result{}
	for _, workers := range []int{velerotest.DefaultWorkers, manyFrozen} {
		c, stop := n.cluster(t)
		run := n.velero(t, c, workers)
		res := result{total: run.Total, reads: reads(c, userVelero), failed: run.Failed}
		for _, f := range run.Freezes {
			res.freeze = max(res.freeze, f.Time)
		}
		velero[workers] = res
		stop()
	}
	ours := map[int]result{}
	var late time.Duration // the freeze that was longest beside its pod's slowest cut
	for _, frozen := range []int{1, manyFrozen} {
		c, stop := n.cluster(t)
		_, report := n.anchor(t, c, csisnapshot.Options{MaxFrozenPods: frozen})
		must(t, report.Err())
		res := result{total: report.Duration, reads: reads(c, userAnchor), failed: report.Failed()}
		for _, batch := range report.Batches {
			for _, pod := range batch.Pods {
				if !pod.Hooked {
					continue
				}
				res.freeze = max(res.freeze, pod.Frozen)
				late = max(late, pod.Frozen-slowest(n, latency, pod.Name))
			}
		}
		ours[frozen] = res
		stop()
	}
	one, ten := velero[velerotest.DefaultWorkers], velero[manyFrozen]
	b.row("40 pods × 3 volumes, whole time; ours MaxFrozenPods 1", table.Time(one.total), table.Time(ours[1].total), table.Target{})
	b.row("the same, ours MaxFrozenPods 10", table.Time(one.total), table.Time(ours[manyFrozen].total), table.Target{Kind: table.TimesBetter, Limit: 20})
	b.row("the same, Velero's with 10 workers", table.Time(ten.total), table.Time(ours[manyFrozen].total), table.Target{})
	for _, frozen := range []int{1, manyFrozen} {
		best := listSchedule(n, latency, frozen)
		b.row("over list scheduling of the same batches ("+table.Time(best).String()+")", nil, table.Number(ours[frozen].total.Seconds()/best.Seconds()), table.Target{Kind: table.AtMost, Limit: 1.05})
	}
	b.row("longest freeze of a pod", table.Time(one.freeze), table.Time(ours[1].freeze), table.Target{Kind: table.Less})
	b.row("longest freeze beyond the pod's slowest cut", nil, table.Time(late), table.Target{Kind: table.AtMost, Limit: 0.001})
	b.row("API reads", table.Number(one.reads), table.Number(ours[manyFrozen].reads), table.Target{Kind: table.PartOf, Limit: 0.05})
	b.row("volumes that failed", table.Number(one.failed+ten.failed), table.Number(ours[1].failed+ours[manyFrozen].failed), table.Target{Kind: table.AtMost})
	b.note("virtual time; hooks in every second pod, cuts 0.2 to 4 s; controllers without a rate limit. Velero %s: its PVC and VolumeSnapshot actions in the order of its item blocks, ItemBlockWorkerCount %d (its default), csiSnapshotTimeout %v, CSI_SNAPSHOT_EARLY_FREQUENT_POLLING unset.", velerotest.Version(), velerotest.DefaultWorkers, velerotest.DefaultTimeout())
}

// slowest is the slowest cut of the pod's volumes.
func slowest(n *namespace, latency [][]time.Duration, pod string) (most time.Duration) {
	for i, block := range n.blocks {
		if block.Pod == pod {
			for _, d := range latency[i] {
				most = max(most, d)
			}
		}
	}
	return most
}

// listSchedule is how long the batches take when each begins as soon as one of the slots is free: the hooked ones in their
// order, each as long as its slowest cut, then all unhooked ones at once.
func listSchedule(n *namespace, latency [][]time.Duration, slots int) time.Duration {
	free := make(durations, slots)
	var last, rest time.Duration
	for i, block := range n.blocks {
		most := slowest(n, latency, block.Pod)
		if !n.Hooked(i) {
			rest = max(rest, most)
			continue
		}
		end := free[0] + most
		free[0] = end
		heap.Fix(&free, 0)
		last = max(last, end)
	}
	return last + rest
}

// durations is a heap with the shortest first.
type durations []time.Duration

func (d durations) Len() int           { return len(d) }
func (d durations) Less(i, j int) bool { return d[i] < d[j] }
func (d durations) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *durations) Push(any)          {}
func (d *durations) Pop() any          { return nil }
