package csisnapshot_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestWaitTimeoutTellsEverything(t *testing.T) {
	t.Parallel()
	// S7 X2 snap-28: one typed error with object, content, readiness, handle, last error, last change and a diagnosis.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{ReadyAfter: 20 * time.Hour}), 1)
		w := l.run(t.Context(), csisnapshot.WaitOptions{Timeout: 5 * time.Minute})
		p := w.add(0, csisnapshot.StageReady)
		if _, err := p.Wait(t.Context(), csisnapshot.StageCut); err != nil {
			t.Fatal(err)
		}
		began := l.at()
		_, err := p.Wait(t.Context(), csisnapshot.StageReady)
		e, ok := errors.AsType[*csisnapshot.WaitError](err)
		if !ok || !errors.Is(err, csisnapshot.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		if took := l.at() - began; took < 299*time.Second || took > 302*time.Second {
			t.Errorf("after %v, want 5m after the cut", took)
		}
		if e.Ref != l.ref(0) || e.UID == "" || e.Driver != backuptest.DefaultDriver || e.Stage != csisnapshot.StageReady || e.Content == "" ||
			e.Handle == "" || e.ReadyToUse == nil || *e.ReadyToUse || e.LastChange.IsZero() || e.Diagnosis != csisnapshot.DiagnosisNoProgress {
			t.Errorf("error %#v", e)
		}
		for _, part := range []string{l.ref(0).String(), e.Content, e.Handle, "readyToUse false", "ready", "NoProgress", "ago"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitDiagnoses(t *testing.T) {
	t.Parallel()
	// S7 snap-35 snap-34: what a snapshot waited for is told apart.
	for name, tt := range map[string]struct {
		reason string
		script backuptest.Script
		edit   func(*csisnapshot.Snapshot)
		target func(*csisnapshot.Target)
		stop   bool
		want   csisnapshot.Diagnosis
		text   string
	}{
		"no controller":      {reason: "nothing ever touches it", stop: true, want: csisnapshot.DiagnosisNeverPickedUp},
		"no sidecar":         {reason: "the content gets no status", script: backuptest.Script{Silent: true}, want: csisnapshot.DiagnosisSidecarSilent},
		"class missing":      {reason: "the text names it", edit: func(s *csisnapshot.Snapshot) { s.Class = new("gone") }, want: csisnapshot.DiagnosisClassMissing, text: `"gone" not found`},
		"driver error":       {reason: "it is retried for ever", script: backuptest.Script{Errors: []backuptest.DriverError{{Code: "Internal", Text: "disk on fire"}}}, want: csisnapshot.DiagnosisError, text: "disk on fire"},
		"another driver":     {reason: "the volume's driver is told", target: func(t *csisnapshot.Target) { t.Driver = "other.example.dev" }, script: backuptest.Script{Silent: true}, want: csisnapshot.DiagnosisClassOfAnother},
		"nothing more to it": {reason: "the call is answered after the timeout", script: backuptest.Script{CutAfter: 30 * time.Second}, want: csisnapshot.DiagnosisNoProgress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, scripts(1, tt.script), 1)
				if tt.stop {
					l.stopController()
				}
				object := l.object(0)
				if tt.edit != nil {
					tt.edit(&object)
				}
				w := l.run(t.Context(), csisnapshot.WaitOptions{Timeout: 20 * time.Second})
				vs, err := l.client.Snapshots().Create(t.Context(), object)
				if err != nil {
					t.Fatal(err)
				}
				target := csisnapshot.Target{Snapshot: &vs, Driver: backuptest.DefaultDriver, Created: true}
				if tt.target != nil {
					tt.target(&target)
				}
				_, err = w.Add(target, csisnapshot.StageCut).Wait(t.Context(), csisnapshot.StageCut)
				e, ok := errors.AsType[*csisnapshot.WaitError](err)
				if !ok || e.Diagnosis != tt.want || !strings.Contains(e.LastError, tt.text) {
					t.Errorf("error %v, want diagnosis %q and text %q: %s", err, tt.want, tt.text, tt.reason)
				}
				if err := w.finish(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWaitFinalErrorEndsOnlyItsSnapshot(t *testing.T) {
	t.Parallel()
	// S6: a final error ends that snapshot's wait at once; errors are retried without a classifier, snap-7.
	onEachAdapter(t, func(t bubble) {
		bad := backuptest.Script{Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no", Times: 4}}}
		opts := backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data-000": bad, "data-001": {CutAfter: 5 * time.Second}}}
		l := newWaitLab(t.T, t.adapter, opts, 2)
		w := l.run(t.Context(), csisnapshot.WaitOptions{Classifier: csisnapshot.FinalCodes("InvalidArgument")})
		failing, good := w.add(0, csisnapshot.StageCut), w.add(1, csisnapshot.StageCut)
		_, err := failing.Wait(t.Context(), csisnapshot.StageCut)
		if !errors.Is(err, csisnapshot.ErrFinal) || l.at() > time.Second {
			t.Errorf("after %v: %v, want ErrFinal at once", l.at(), err)
		}
		if _, err := good.Wait(t.Context(), csisnapshot.StageCut); err != nil {
			t.Errorf("the other snapshot: %v", err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
		l.start = time.Now()
		again := l.waiter(csisnapshot.WaitOptions{}).Wait(t.Context(), []csisnapshot.Target{{Ref: l.ref(0), Driver: backuptest.DefaultDriver}}, csisnapshot.StageCut)
		if again[0].Err != nil {
			t.Errorf("without a classifier: %v, want a cut after the retries", again[0].Err)
		}
	})
}

func TestWaitRetryAfterStopsTheClock(t *testing.T) {
	t.Parallel()
	// S6 snap-24: retry-after gives a throttled snapshot the time its driver asks for.
	synctest.Test(t, func(t *testing.T) {
		throttled := backuptest.Script{Errors: []backuptest.DriverError{{Code: "ResourceExhausted", Text: "slow down", Times: 9}}}
		l := newWaitLab(t, "dynamic", scripts(1, throttled), 1) // 1+2+4+…+256 s until the tenth call
		w := l.run(t.Context(), csisnapshot.WaitOptions{Timeout: time.Minute, Classifier: csisnapshot.ClassifierFunc(func(e csisnapshot.ErrorInfo) csisnapshot.Verdict {
			if e.Code == "ResourceExhausted" {
				return csisnapshot.Verdict{RetryAfter: 10 * time.Minute}
			}
			return csisnapshot.Verdict{}
		})})
		if _, err := w.add(0, csisnapshot.StageCut).Wait(t.Context(), csisnapshot.StageCut); err != nil {
			t.Errorf("after %v: %v, want a cut", l.at(), err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitSlowQueueFailsNobody(t *testing.T) {
	t.Parallel()
	// S7: a queue that moves restarts the clock of all that wait in it, although each waits longer than Timeout.
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{Rate: backuptest.RealRate, Workers: backuptest.RealWorkers}, n)
		w := l.run(t.Context(), csisnapshot.WaitOptions{Timeout: 20 * time.Second})
		var pending []*csisnapshot.Pending
		for i := range n {
			pending = append(pending, w.add(i, csisnapshot.StageCut))
		}
		for _, p := range pending {
			if _, err := p.Wait(t.Context(), csisnapshot.StageCut); err != nil {
				t.Errorf("after %v: %v", l.at(), err)
			}
		}
		if l.at() < 30*time.Second {
			t.Errorf("all cut after %v: the queue was not slow", l.at())
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitStalledDriver(t *testing.T) {
	t.Parallel()
	// S7 snap-1: never-ready snapshots cost one timeout, also those a limit has not let start; another driver is not touched.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", scripts(3, backuptest.Script{CutAfter: 20 * time.Hour}), 3)
		w := l.run(t.Context(), csisnapshot.WaitOptions{Timeout: time.Minute})
		first := w.add(0, csisnapshot.StageCut)
		time.Sleep(10 * time.Second)
		second := w.add(1, csisnapshot.StageCut)
		stalled := w.Stalled(backuptest.DefaultDriver)
		if _, err := first.Wait(t.Context(), csisnapshot.StageCut); !errors.Is(err, csisnapshot.ErrTimeout) || l.at().Round(time.Second) != time.Minute {
			t.Errorf("first after %v: %v", l.at(), err)
		}
		select {
		case <-first.Freed():
			t.Error("the place of a timed out snapshot is free while its driver may be stalled")
		case <-stalled:
			t.Error("stalled although the second is still in its time")
		default:
		}
		if _, err := second.Wait(t.Context(), csisnapshot.StageCut); !errors.Is(err, csisnapshot.ErrTimeout) || l.at().Round(time.Second) != 70*time.Second {
			t.Errorf("second after %v: %v", l.at(), err)
		}
		<-first.Freed()
		<-stalled
		late := w.Add(csisnapshot.Target{Ref: l.ref(2), Driver: backuptest.DefaultDriver}, csisnapshot.StageCut)
		if _, err := late.Outcome(csisnapshot.StageCut); !errors.Is(err, csisnapshot.ErrNotStarted) {
			t.Errorf("one that was not started: %v, want ErrNotStarted", err)
		}
		other := w.Add(csisnapshot.Target{Ref: l.ref(2), Driver: "other.example.dev"}, csisnapshot.StageCut)
		if _, err := other.Outcome(csisnapshot.StageCut); err != nil {
			t.Errorf("one of another driver: %v", err)
		}
		other.Drop()
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitEndsOnceWhateverEndsIt(t *testing.T) {
	t.Parallel()
	// snap-5 snap-15 snap-27 S7: every deadline is the same typed timeout, also before the first successful read and in a
	// client that waits for its rate limiter; a cancel is a cancel.
	for name, tt := range map[string]struct {
		reason   string
		opts     csisnapshot.WaitOptions
		deadline time.Duration
		cancel   time.Duration
		category error
		is       error
	}{
		"MaxWait":  {reason: "the hard cap", opts: csisnapshot.WaitOptions{MaxWait: 30 * time.Second}, category: csisnapshot.ErrTimeout, is: context.DeadlineExceeded},
		"deadline": {reason: "the context's", deadline: 30 * time.Second, category: csisnapshot.ErrTimeout, is: context.DeadlineExceeded},
		"cancel":   {reason: "nobody waits any more", cancel: 30 * time.Second, category: csisnapshot.ErrCanceled, is: context.Canceled},
		"poll":     {reason: "the same when polling", opts: csisnapshot.WaitOptions{Mode: csisnapshot.ModePoll}, deadline: 30 * time.Second, category: csisnapshot.ErrTimeout, is: context.DeadlineExceeded},
		"Timeout":  {reason: "no read ever succeeded", opts: csisnapshot.WaitOptions{Timeout: 30 * time.Second}, category: csisnapshot.ErrTimeout, is: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
				l.cluster.Fault(backuptest.Fault{Code: 503})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				if tt.cancel > 0 {
					time.AfterFunc(tt.cancel, stop)
				}
				w := l.waiter(tt.opts)
				began := time.Now()
				outcomes := w.Wait(ctx, []csisnapshot.Target{{Ref: l.ref(0)}}, csisnapshot.StageReady)
				err := outcomes[0].Err
				if _, ok := errors.AsType[*csisnapshot.WaitError](err); !ok || !errors.Is(err, tt.category) || !errors.Is(err, tt.is) {
					t.Errorf("error %v, want %v: %s", err, tt.category, tt.reason)
				}
				if took := time.Since(began); took.Round(time.Second) != 30*time.Second {
					t.Errorf("after %v, want 30s", took)
				}
				if late := w.Add(csisnapshot.Target{Ref: l.ref(0)}, csisnapshot.StageCut); late != nil {
					if _, err := late.Wait(t.Context(), csisnapshot.StageCut); !errors.Is(err, csisnapshot.ErrCanceled) {
						t.Errorf("added after the end: %v", err)
					}
				}
			})
		})
	}
}

func TestPendingInterrupted(t *testing.T) {
	t.Parallel()
	// X2: a caller's own deadline gives the same typed error, and the waiter goes on.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", scripts(1, backuptest.Script{CutAfter: time.Minute / 2}), 1)
		w := l.run(t.Context(), csisnapshot.WaitOptions{})
		p := w.add(0, csisnapshot.StageCut)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if res, err := p.Wait(ctx, csisnapshot.StageCut); !errors.Is(err, csisnapshot.ErrTimeout) || !res.PickedUp {
			t.Errorf("interrupted: %+v, %v", res, err)
		}
		<-p.PickedUp()
		if _, err := p.Wait(t.Context(), csisnapshot.StageCut); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnUnknownStageIsTheLast(t *testing.T) {
	t.Parallel()
	// X1: a stage that is none is waited for as the last one, and panics nowhere.
	synctest.Test(t, func(t *testing.T) {
		const unknown = csisnapshot.StageReady + 1
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 2)
		l.create(0)
		outcomes, err := l.snapshotter(csisnapshot.WaitOptions{}).Wait(t.Context(), l.owner, unknown, l.ref(0))
		if err != nil || outcomes[0].Err != nil || !outcomes[0].Result.Reached(unknown) || !outcomes[0].Result.Ready {
			t.Errorf("Wait = %+v, %v", outcomes, err)
		}
		w := l.run(t.Context(), csisnapshot.WaitOptions{})
		p := w.add(1, unknown)
		<-p.Done(unknown)
		for _, get := range []func() (csisnapshot.Result, error){
			func() (csisnapshot.Result, error) { return p.Outcome(unknown) },
			func() (csisnapshot.Result, error) { return p.Wait(t.Context(), unknown) },
		} {
			if got, err := get(); err != nil || !got.Ready {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestNewWaiterNamesFaults(t *testing.T) {
	t.Parallel()
	_, err := csisnapshot.NewWaiter(nil, csisnapshot.WaitOptions{Timeout: -1}, csisnapshot.Owner{}, csisnapshot.Names{Prefix: "X"}, []string{""})
	for _, part := range []string{"client", "Wait.Timeout", "owner", "Names.Prefix", "namespaces"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("NewWaiter: %v, does not name %s", err, part)
		}
	}
}
