package loadtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// neverReady is many snapshots that no driver ever makes.
func neverReady(t *testing.T, b *bench) {
	t.Helper()
	n := &namespace{Volumes: b.size(1000, 40), Script: func(int, int) backuptest.Script { return backuptest.Script{Silent: true} }}
	c, stop := n.cluster(t)
	run := n.velero(t, c, velerotest.DefaultWorkers)
	stop()
	if run.Failed != n.Volumes {
		t.Fatalf("%d of Velero's %d volumes failed, want all", run.Failed, n.Volumes)
	}
	for _, limit := range []int{manyFrozen, 0} {
		c, stop := n.cluster(t)
		_, report := n.anchor(t, c, csisnapshot.Options{Concurrency: limit})
		stop()
		if report.Failed() != n.Volumes || !errors.Is(report.Err(), context.DeadlineExceeded) {
			t.Fatalf("%d of our %d volumes failed: want all, by a timeout", report.Failed(), n.Volumes)
		}
		what := table.Number(n.Volumes).String() + " never made, ours without a limit"
		if limit > 0 {
			what = table.Number(n.Volumes).String() + " never made, ours with Concurrency 10"
		}
		// One timeout, and what it takes to send the first.
		b.row(what, table.Time(run.Total), table.Time(report.Duration), table.Target{Kind: table.AtMost, Limit: (10*time.Minute + 15*time.Second).Seconds()})
	}
	b.note("virtual time; both with their default timeout of 10 minutes; Velero with one worker, its default.")
}

// defaultRate is many healthy snapshots on a snapshot-controller and sidecar with their default rate.
func defaultRate(t *testing.T, b *bench) {
	t.Helper()
	n := &namespace{
		Volumes: b.size(900, 60), Script: func(int, int) backuptest.Script { return backuptest.Script{CutAfter: 500 * time.Millisecond} },
		Controller: backuptest.ControllerOptions{Rate: backuptest.RealRate, Workers: backuptest.RealWorkers},
	}
	c, stop := n.cluster(t)
	run := n.velero(t, c, velerotest.DefaultWorkers)
	stop()
	c, stop = n.cluster(t)
	_, report := n.anchor(t, c, csisnapshot.Options{})
	stop()
	volumes := table.Number(n.Volumes).String()
	b.row(volumes+" healthy at the controllers' default rate: failed", table.Number(run.Failed), table.Number(report.Failed()), table.Target{Kind: table.AtMost})
	b.row("the same, whole time", table.Time(run.Total), table.Time(report.Duration), table.Target{Kind: table.Less})
	b.note("virtual time; the snapshot-controller makes 5 requests a second, its default, and needs nine for a snapshot: about 0.55 snapshots a second are the limit for anybody. Timeout of both 10 minutes.")
}
