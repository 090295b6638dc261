package loadtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

const (
	cutTime  = 2 * time.Second
	pageSize = 500
)

// scaleSnapshots takes more and more snapshots of a namespace without pods.
func scaleSnapshots(t *testing.T, b *bench) {
	t.Helper()
	sizes := []int{100, 1000, 10_000}
	if b.short {
		sizes = []int{50, 500}
	}
	var times, requests []table.Point
	for _, size := range sizes {
		n := &namespace{Volumes: size, Script: func(int, int) backuptest.Script { return backuptest.Script{CutAfter: cutTime} }}
		c, stop := n.cluster(t)
		run := n.velero(t, c, velerotest.DefaultWorkers)
		theirs := reads(c, userVelero)
		stop()
		if run.Failed > 0 {
			t.Fatalf("%d of Velero's volumes failed", run.Failed)
		}
		c, stop = n.cluster(t)
		_, report := n.anchor(t, c, csisnapshot.Options{})
		ours := reads(c, userAnchor)
		stop()
		must(t, report.Err())
		times = append(times, table.Point{N: size, Velero: table.Time(run.Total), Ours: table.Time(report.Duration)})
		requests = append(requests, table.Point{N: size, Velero: table.Number(theirs), Ours: table.Number(ours)})
		b.row(fmt.Sprintf("%d cuts of 2 s: whole time", size), table.Time(run.Total), table.Time(report.Duration), table.Target{})
		// Five lists of the plan and the opening watches are the constant part, the rest is pages.
		limit := float64(20 + 5*((size+pageSize-1)/pageSize))
		b.row(fmt.Sprintf("%d cuts of 2 s: reads", size), table.Number(theirs), table.Number(ours), table.Target{Kind: table.AtMost, Limit: limit})
	}
	b.curve("time until all are cut", times)
	b.curve("reads until all are cut", requests)
	b.note("virtual time; Velero with one worker, its default. Its time is ×1/10 with 10 workers, its reads are the same.")
}
