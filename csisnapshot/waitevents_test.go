package csisnapshot_test

import (
	"context"
	"errors"
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
