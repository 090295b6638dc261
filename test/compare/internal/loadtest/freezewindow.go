package loadtest

import (
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// vssWindow is how long a Windows guest stays frozen before it thaws by itself.
const vssWindow = 10 * time.Second

// early is the variable that makes Velero poll each second at first.
const early = "CSI_SNAPSHOT_EARLY_FREQUENT_POLLING"

// freezeWindow is a guest with two volumes whose cuts take 3 and 4 s.
func freezeWindow(t *testing.T, b *bench) {
	t.Helper()
	n := &namespace{
		Pods: 1, Volumes: 2, Hooked: func(int) bool { return true },
		Script: func(_, volume int) backuptest.Script {
			return backuptest.Script{CutAfter: time.Duration(3+volume) * time.Second}
		},
	}
	velero := func() *table.Figure {
		c, stop := n.cluster(t)
		defer stop()
		run := n.velero(t, c, velerotest.DefaultWorkers)
		if run.Failed > 0 || len(run.Freezes) != 1 {
			t.Fatalf("Velero's run ended with %d failures and %d freezes", run.Failed, len(run.Freezes))
		}
		return table.Time(run.Freezes[0].Time)
	}
	ours := func(mode csisnapshot.Mode) *table.Figure {
		c, stop := n.cluster(t)
		defer stop()
		_, report := n.anchor(t, c, csisnapshot.Options{Wait: csisnapshot.WaitOptions{Mode: mode}, MaxFreeze: vssWindow})
		must(t, report.Err())
		return table.Time(report.Batches[0].Pods[0].Frozen)
	}
	t.Setenv(early, "") // as if it were not set
	slow := velero()
	t.Setenv(early, "true")
	fast := velero()
	inside := table.Target{Kind: table.AtMost, Limit: (vssWindow - time.Millisecond).Seconds()}
	b.row("cuts at 3 and 4 s: thawed after; ours by watch", slow, ours(csisnapshot.ModeWatch), inside)
	b.row("the same, ours by polling", slow, ours(csisnapshot.ModePoll), inside)
	b.row("the same, Velero's with "+early, fast, ours(csisnapshot.ModePoll), inside)
	b.note("virtual time; a guest thaws by itself at 10 s, so its thaw has to come before. Ours sends both snapshots at once; Velero sends the second when it has seen the first.")
}
