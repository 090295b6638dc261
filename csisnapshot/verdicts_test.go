package csisnapshot_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

// failing is a script whose claim 0 fails for ever; the others are cut after a minute.
func failing(n int) backuptest.ControllerOptions {
	opts := scripts(n, backuptest.Script{CutAfter: time.Minute})
	opts.Scripts[claimName(0)] = backuptest.Script{Errors: []backuptest.DriverError{{Code: "Internal"}}}
	return opts
}

func TestClassifierThatHangsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	// X1 S6: the classifier is called under no lock. One that never returns is left behind, once and not for every error, and
	// named; the other snapshots are cut in their time, and the wait ends with its own.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", failing(3), 3)
		var calls atomic.Int32
		release := make(chan struct{})
		w := l.run(t.Context(), csisnapshot.WaitOptions{
			Timeout: 5 * time.Minute,
			Classifier: csisnapshot.ClassifierFunc(func(csisnapshot.ErrorInfo) csisnapshot.Verdict {
				calls.Add(1)
				<-release
				return csisnapshot.Verdict{Final: true}
			}),
		})
		bad := w.add(0, csisnapshot.StageCut)
		for i := 1; i < 3; i++ {
			if _, err := w.add(i, csisnapshot.StageCut).Wait(t.Context(), csisnapshot.StageCut); err != nil {
				t.Errorf("snapshot %d: %v", i, err)
			}
		}
		if l.at() > 65*time.Second*2 {
			t.Errorf("the good ones were cut after %v", l.at())
		}
		_, err := bad.Wait(t.Context(), csisnapshot.StageCut)
		if !errors.Is(err, csisnapshot.ErrTimeout) || !errors.Is(err, csisnapshot.ErrAbandoned) {
			t.Errorf("the bad one: %v, want a timeout that names the classifier", err)
		}
		if err := w.finish(); !errors.Is(err, csisnapshot.ErrAbandoned) {
			t.Errorf("Run = %v, want the abandoned callback", err)
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls, want one that hangs and no other beside it", calls.Load())
		}
		close(release)
	})
}

func TestClassifierThatHangsDoesNotOutliveTheContext(t *testing.T) {
	t.Parallel()
	// X1 X2: at the end of ctx a call may take its grace, no more.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", failing(1), 1)
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := l.run(ctx, csisnapshot.WaitOptions{Classifier: csisnapshot.ClassifierFunc(func(csisnapshot.ErrorInfo) csisnapshot.Verdict {
			cancel()
			<-release
			return csisnapshot.Verdict{}
		})})
		p := w.add(0, csisnapshot.StageCut)
		_, err := p.Wait(t.Context(), csisnapshot.StageCut)
		if !errors.Is(err, csisnapshot.ErrCanceled) || l.at() > 20*time.Second {
			t.Errorf("after %v: %v", l.at(), err)
		}
		if err := w.finish(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
		close(release)
	})
}

func TestClassifierIsAskedAgainWhenItReturns(t *testing.T) {
	t.Parallel()
	// X1 S6: a call that was left behind counts as retry, whatever it answers later; when it has returned, the next error is
	// asked about, and its verdict counts.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", failing(1), 1)
		var calls atomic.Int32
		w := l.run(t.Context(), csisnapshot.WaitOptions{
			SafetyRead: 30 * time.Second,
			Classifier: csisnapshot.ClassifierFunc(func(csisnapshot.ErrorInfo) csisnapshot.Verdict {
				if calls.Add(1) == 1 {
					time.Sleep(time.Minute)
				}
				return csisnapshot.Verdict{Final: true}
			}),
		})
		_, err := w.add(0, csisnapshot.StageCut).Wait(t.Context(), csisnapshot.StageCut)
		if !errors.Is(err, csisnapshot.ErrFinal) || calls.Load() < 2 || l.at() < time.Minute || l.at() > 3*time.Minute {
			t.Errorf("after %v and %d calls: %v, want the second verdict", l.at(), calls.Load(), err)
		}
		_ = w.finish()
	})
}

func TestActionWithAClassifierThatHangs(t *testing.T) {
	t.Parallel()
	// X1 S11: Progress answers all the same, and soon once the classifier was left behind.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", failing(1), 1)
		vs := l.create(0)
		time.Sleep(time.Minute)
		release := make(chan struct{})
		a, err := csisnapshot.NewAction(l.client, l.names, csisnapshot.WaitOptions{
			Classifier: csisnapshot.ClassifierFunc(func(csisnapshot.ErrorInfo) csisnapshot.Verdict {
				<-release
				return csisnapshot.Verdict{}
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		id := csisnapshot.OperationID(vs.Ref(), vs.Created)
		for _, limit := range []time.Duration{15 * time.Second, 0} {
			start := time.Now()
			p, err := a.Progress(t.Context(), id)
			if err != nil || p.State != operations.StateRunning || time.Since(start) > limit {
				t.Errorf("after %v: %+v, %v, want an answer within %v", time.Since(start), p, err, limit)
			}
		}
		close(release)
	})
}
