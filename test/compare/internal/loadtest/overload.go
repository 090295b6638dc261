package loadtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// syncFrequency is how often Velero's server asks about running operations by default.
const syncFrequency = 10 * time.Second

// overload is what waiting for 500 snapshots costs the API server in a minute.
func overload(t *testing.T, b *bench) {
	t.Helper()
	volumes := b.size(500, 100)
	uncut := &namespace{Volumes: volumes, Script: func(int, int) backuptest.Script { return backuptest.Script{CutAfter: time.Hour} }}
	c, stop := uncut.cluster(t)
	watched := cutReads(t, uncut, c, csisnapshot.ModeWatch)
	stop()
	c, stop = uncut.cluster(t)
	polled := cutReads(t, uncut, c, csisnapshot.ModePoll)
	stop()
	c, stop = uncut.cluster(t)
	// Velero has one wait for each worker; its limit of 10 is as many as its users are advised to set.
	ten := veleroCutReads(t, uncut, c, manyFrozen)
	stop()
	unready := &namespace{Volumes: volumes, Script: func(int, int) backuptest.Script { return backuptest.Script{ReadyAfter: time.Hour} }}
	c, stop = unready.cluster(t)
	theirs := veleroReadyReads(t, unready, c)
	stop()
	c, stop = unready.cluster(t)
	ours := readyReads(t, unready, c)
	stop()
	count := table.Number(volumes).String()
	few := table.Target{Kind: table.PartOf, Limit: 0.05}
	b.row("reads a minute, "+count+" cut, not ready: ours by the poller", table.Number(theirs), table.Number(ours), few)
	b.row("reads a minute, "+count+" not cut: Velero's waits for 10, ours for all by watch", table.Number(ten), table.Number(watched), table.Target{Kind: table.Less})
	b.row("the same, ours by polling", table.Number(ten), table.Number(polled), table.Target{Kind: table.Less})
	b.note("virtual time, the third minute of the wait. Velero asks each operation of its VolumeSnapshot action every %v (its default): two reads each; before the cut it waits for one volume a worker, here 10 workers. Ours waits for all at once.", syncFrequency)
}

// during returns the user's reads in the third minute from now, while wait runs.
func during(t *testing.T, c *backuptest.Cluster, user string, wait func(ctx context.Context)) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); wait(ctx) }()
	<-time.NewTimer(2*time.Minute + time.Second).C
	before := reads(c, user)
	<-time.NewTimer(time.Minute).C
	after := reads(c, user)
	cancel()
	<-done
	return after - before
}

func (n *namespace) snapshotter(t *testing.T, c *backuptest.Cluster, mode csisnapshot.Mode) *csisnapshot.Snapshotter {
	t.Helper()
	as := config(c, userAnchor)
	opts := csisnapshot.Options{Wait: csisnapshot.WaitOptions{Mode: mode}}
	s, err := csisnapshot.New(kubernetes.NewForConfigOrDie(as), csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(as)), opts)
	must(t, err)
	return s
}

func cutReads(t *testing.T, n *namespace, c *backuptest.Cluster, mode csisnapshot.Mode) int {
	t.Helper()
	s := n.snapshotter(t, c, mode)
	plan, err := s.Plan(t.Context(), app)
	must(t, err)
	return during(t, c, userAnchor, func(ctx context.Context) {
		if _, err := s.Cut(ctx, anchorOwner, plan); err == nil {
			t.Error("a cut of an hour ended in minutes")
		}
	})
}

func veleroCutReads(t *testing.T, n *namespace, c *backuptest.Cluster, workers int) int {
	t.Helper()
	client, err := velerotest.NewClient(config(c, userVelero))
	must(t, err)
	backup := velerotest.NewBackup("nightly")
	backup.Spec.CSISnapshotTimeout.Duration = 4 * time.Minute // only so that the run ends
	return during(t, c, userVelero, func(ctx context.Context) {
		if _, err := velerotest.Backup(ctx, client, backup, workers, n.blocks[:workers]); err != nil {
			t.Error(err)
		}
	})
}

func veleroReadyReads(t *testing.T, n *namespace, c *backuptest.Cluster) int {
	t.Helper()
	run := n.velero(t, c, manyFrozen)
	client, err := velerotest.NewClient(config(c, userVelero))
	must(t, err)
	actions, err := velerotest.NewActions(client)
	must(t, err)
	backup := velerotest.NewBackup("nightly")
	return during(t, c, userVelero, func(ctx context.Context) {
		tick := time.NewTicker(syncFrequency)
		defer tick.Stop()
		for {
			for _, id := range run.Operations {
				if p, err := actions.Snapshots.Progress(id, backup); err != nil || p.Completed {
					t.Errorf("progress of %s = %+v, %v, want it running", id, p, err)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

func readyReads(t *testing.T, n *namespace, c *backuptest.Cluster) int {
	t.Helper()
	s, report := n.anchor(t, c, csisnapshot.Options{})
	must(t, report.Err())
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	must(t, err)
	key := operations.Key{Namespace: app, Name: anchorOwner.Name, UID: anchorOwner.UID}
	_, err = m.Update(t.Context(), key, func(l *operations.List) error { return l.Add(report.Operations()...) })
	must(t, err)
	poller, err := operations.NewPoller(m, map[string]operations.Action{csisnapshot.ActionName: s.Action()}, operations.PollerOptions{})
	must(t, err)
	return during(t, c, userAnchor, func(ctx context.Context) {
		if sum, err := poller.Run(ctx, key); err == nil {
			t.Error(fmt.Errorf("snapshots that are ready in an hour were %+v in minutes", sum))
		}
	})
}
