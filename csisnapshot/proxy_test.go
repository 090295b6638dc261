package csisnapshot_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// S1, all-2: behind a proxy that drops bookmarks nothing waits for one: the snapshot is ready at the speed of events. Behind
// one that swallows everything polling takes over, and that is reported.
func TestProxiesThatDropEvents(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		action backuptest.FaultAction
		within time.Duration
		modes  bool
	}{
		"bookmarks":  {"events still come", backuptest.FaultLoseBookmarks, 3 * time.Second, false},
		"everything": {"reads find what no event tells", backuptest.FaultSilenceWatch, 2 * time.Minute, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{CutAfter: 50 * time.Second}), 1)
				time.Sleep(time.Second) // the controller, which is on this side of the proxy, has its watches
				l.cluster.Fault(backuptest.Fault{Verb: "watch", Action: tc.action})
				changes := make(chan csisnapshot.ModeChange, 100)
				w := l.run(t.Context(), csisnapshot.WaitOptions{Events: csisnapshot.WaitEvents{ModeChanged: func(c csisnapshot.ModeChange) {
					if c.Mode == csisnapshot.ModePoll {
						changes <- c
					}
				}}})
				p := w.add(0, csisnapshot.StageReady)
				began := l.at()
				if _, err := p.Wait(t.Context(), csisnapshot.StageReady); err != nil {
					t.Fatal(err)
				}
				if took := l.at() - began; took < 50*time.Second || took > 50*time.Second+tc.within {
					t.Errorf("ready after %v, want within %v of the cut after 50s: %s", took, tc.within, tc.reason)
				}
				if err := w.finish(); err != nil {
					t.Error(err)
				}
				if reported := len(changes) > 0; reported != tc.modes {
					t.Errorf("%d changes to polling reported, want some: %v", len(changes), tc.modes)
				}
			})
		})
	}
}

// S8, all-4: a deletion that no event tells, since it was lost, is found by a read, as a deletion.
func TestLostDeletion(t *testing.T) {
	t.Parallel()
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		l.stopController()
		l.cluster.Fault(backuptest.Fault{Verb: "watch", Resource: "volumesnapshots", Action: backuptest.FaultLoseEvent, After: 1})
		w := l.run(t.Context(), csisnapshot.WaitOptions{})
		p := w.add(0, csisnapshot.StageCut)
		time.Sleep(time.Minute)
		if err := l.client.Snapshots().Delete(t.Context(), "app", l.ref(0).Name, csisnapshot.Preconditions{}); err != nil {
			t.Fatal(err)
		}
		began := l.at()
		if _, err := p.Wait(t.Context(), csisnapshot.StageCut); !errors.Is(err, csisnapshot.ErrDeleted) || l.at()-began > 2*time.Minute {
			t.Errorf("after %v: %v, want ErrDeleted within two minutes", l.at()-began, err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}
