package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestWaitEventThatHangsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	// X1 S5: a function of WaitEvents that never returns keeps no pod frozen, and Cut does not wait for it.
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
		release := make(chan struct{})
		calls := 0
		hang := func() { calls++; <-release }
		start := time.Now()
		report, err := l.cut(t.Context(), csisnapshot.Options{Wait: csisnapshot.WaitOptions{Events: csisnapshot.WaitEvents{
			Changed:     func(csisnapshot.Result, error) { hang() },
			ModeChanged: func(csisnapshot.ModeChange) { hang() },
		}}})
		if err != nil || time.Since(start) > 10*time.Second {
			t.Errorf("Cut = %v after %v", err, time.Since(start))
		}
		checkWhole(t, report)
		if pod := podOf(t, report, "pa"); pod.Frozen > 3*time.Second {
			t.Errorf("frozen for %v", pod.Frozen)
		}
		close(release)
		synctest.Wait()
		if calls != 1 {
			t.Errorf("%d calls, want the one that hung and none after Cut had returned", calls)
		}
	})
}

func TestWaitEventThatHangsDoesNotOutliveACancel(t *testing.T) {
	t.Parallel()
	// X1 S7: waiting ends with ctx, and its error names the callback that was left behind.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", scripts(1, backuptest.Script{Silent: true}), 1)
		l.create(0)
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l.all.Go(func() { time.Sleep(time.Minute); cancel() })
		s := l.snapshotter(csisnapshot.WaitOptions{Events: csisnapshot.WaitEvents{Changed: func(csisnapshot.Result, error) { <-release }}})
		out, err := s.Wait(ctx, l.owner, csisnapshot.StageCut, l.ref(0))
		if !errors.Is(err, csisnapshot.ErrAbandoned) || !errors.Is(out[0].Err, csisnapshot.ErrCanceled) || l.at() > 70*time.Second {
			t.Errorf("after %v: %v, %v", l.at(), out[0].Err, err)
		}
		close(release)
	})
}

func TestWaitEventThatIsSlowDelaysNoThaw(t *testing.T) {
	t.Parallel()
	// X1 S5: twenty cuts with a function that takes a second for each.
	synctest.Test(t, func(t *testing.T) {
		names := numbered("a", 20)
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims(names...), hookedPod("pa", names...))...)
		report := l.mustCut(csisnapshot.Options{Wait: csisnapshot.WaitOptions{Events: csisnapshot.WaitEvents{
			Changed: func(csisnapshot.Result, error) { time.Sleep(time.Second) },
		}}})
		checkWhole(t, report)
		if pod := podOf(t, report, "pa"); pod.Frozen > 5*time.Second {
			t.Errorf("frozen for %v", pod.Frozen)
		}
		time.Sleep(time.Second) // the last call
	})
}

func TestWaitsEndInOrder(t *testing.T) {
	t.Parallel()
	// X4: what ends, or is seen, at the same moment is told in the order of the names.
	for name, tt := range map[string]struct {
		opts    csisnapshot.WaitOptions
		drivers int
	}{
		"end of the run":  {csisnapshot.WaitOptions{MaxWait: time.Minute}, 1},
		"stalled drivers": {csisnapshot.WaitOptions{Timeout: time.Minute}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 20
				l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, n)
				l.stopController()
				var told []csisnapshot.Ref
				tt.opts.Events.Changed = func(r csisnapshot.Result, err error) {
					if err != nil {
						told = append(told, r.Ref)
					}
				}
				var targets []csisnapshot.Target
				for i := range n {
					vs := l.create(i)
					targets = append(targets, csisnapshot.Target{Snapshot: &vs})
				}
				slices.SortFunc(targets, func(a, b csisnapshot.Target) int { return a.Snapshot.Ref().Compare(b.Snapshot.Ref()) })
				for i := range targets {
					targets[i].Driver = fmt.Sprintf("driver-%02d", i%tt.drivers)
				}
				l.waiter(tt.opts).Wait(t.Context(), targets, csisnapshot.StageCut)
				if len(told) != n || !slices.IsSortedFunc(told, csisnapshot.Ref.Compare) {
					t.Errorf("%d ends told, in the order %v", len(told), told)
				}
			})
		})
	}
}
