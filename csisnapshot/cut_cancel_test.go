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

// S9, X2: when ctx ends while a create has no answer, the report names what that create made (snap-21).
func TestCutNamesTheSnapshotOfACancelledCreate(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fault  backuptest.Fault
		second *backuptest.Fault
		made   bool
	}{
		"made, no answer":      {fault: backuptest.Fault{Action: backuptest.FaultHangAnswer}, made: true},
		"never seen":           {fault: backuptest.Fault{Action: backuptest.FaultHang}},
		"read fails at first":  {fault: backuptest.Fault{Action: backuptest.FaultHangAnswer}, second: &backuptest.Fault{Code: 500, Nth: 1, Times: 2}, made: true},
		"read never succeeds":  {fault: backuptest.Fault{Action: backuptest.FaultHangAnswer}, second: &backuptest.Fault{Code: 500}},
		"read is not answered": {fault: backuptest.Fault{Action: backuptest.FaultHangAnswer}, second: &backuptest.Fault{Action: backuptest.FaultHang}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, claims("a")...)
				tc.fault.Verb, tc.fault.Resource = "create", "volumesnapshots"
				l.cluster.Fault(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if tc.second != nil {
					tc.second.Verb, tc.second.Resource, tc.second.Name = "get", "volumesnapshots", csisnapshot.Names{}.Snapshot(cutOwner.UID, claimRef("a").UID)
					l.cluster.Fault(*tc.second)
				}
				start := time.Now()
				report, err := l.cut(ctx, csisnapshot.Options{})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Cut = %v, want the end of ctx", err)
				}
				if took := time.Since(start); took > time.Minute {
					t.Errorf("Cut took %v although ctx ended after 5s", took)
				}
				v := volumeOf(t, report, "a")
				if (v.Snapshot != "") != tc.made || (v.Err == nil) != v.IsCut() || v.Adopted {
					t.Errorf("snapshot %q, adopted %v, error %v; want one named: %v", v.Snapshot, v.Adopted, v.Err, tc.made)
				}
			})
		})
	}
}

// S5: a thaw of a pod left frozen that is begun is carried out and recorded although ctx ends; one that is not begun is
// left for the next Cut. Neither is recorded without its hook having run.
func TestCutThawsLeftoversWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		before  bool // ctx ends when the pod was read, before the hook
		outcome csisnapshot.ThawOutcome
		runs    int // of post hooks in the cancelled Cut
	}{
		"ended as the pod was read":   {before: true, outcome: csisnapshot.ThawFailed},
		"ended as the hook had begun": {outcome: csisnapshot.ThawDone, runs: 1},
	}
	for name, tc := range cases {
		for _, onError := range []csisnapshot.OnError{csisnapshot.OnErrorFail, csisnapshot.OnErrorContinue} {
			t.Run(name+" "+onError.String(), func(t *testing.T) {
				t.Parallel()
				for range 4 { // select chooses by chance
					synctest.Test(t, func(t *testing.T) {
						l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
						l.quiescer.onError = onError
						first := &process{lab: l, limit: 2} // the intent and the pre hook
						if _, err := first.live(t, cutOwner); err == nil {
							t.Fatal("not killed")
						}
						plan, err := l.snapshotter(csisnapshot.Options{}).Plan(t.Context(), "app")
						if err != nil {
							t.Fatal(err)
						}
						ctx, cancel := context.WithCancel(t.Context())
						if tc.before {
							l.cluster.Fault(backuptest.Fault{Verb: "get", Resource: "pods", Nth: 1, Observe: func(backuptest.Request) { cancel() }})
						}
						ran := 0
						l.quiescer.exec = func(hook context.Context, _, stage string) error {
							cancel()
							if hook.Err() == nil && stage == "post" {
								ran++
							}
							return hook.Err()
						}
						report, err := l.snapshotter(csisnapshot.Options{}).Cut(ctx, cutOwner, plan)
						if !errors.Is(err, context.Canceled) {
							t.Errorf("Cut = %v, want the end of ctx", err)
						}
						if len(report.Leftovers) != 1 || report.Leftovers[0].Outcome != tc.outcome || ran != tc.runs {
							t.Errorf("leftovers %+v after %d post hooks, want %q after %d", report.Leftovers, ran, tc.outcome, tc.runs)
						}
						l.quiescer.exec = nil
						before := len(l.quiescer.runs())
						again := l.mustCut(csisnapshot.Options{})
						checkWhole(t, again)
						if left := len(again.Leftovers); left != 1-tc.runs {
							t.Errorf("the next Cut found %d leftovers, want %d", left, 1-tc.runs)
						}
						if got := l.quiescer.runs()[before].stage; (got == "post") != (tc.runs == 0) {
							t.Errorf("the next Cut began with a %s hook", got)
						}
					})
				}
			})
		}
	}
}

// S5: with ctx ended before anything was begun, no pod is touched and every leftover stays open.
func TestCutCancelledBeforeItBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), hookedPod("pa", "a"), hookedPod("pb", "b"))...)
		s := l.snapshotter(csisnapshot.Options{})
		plan, err := s.Plan(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		report, err := s.Cut(ctx, cutOwner, plan)
		if !errors.Is(err, context.Canceled) || report.Failed() != 2 || len(l.quiescer.runs()) > 0 || len(l.stored()) > 0 {
			t.Errorf("Cut = %v, %d failed; hooks %q, stored %v", err, report.Failed(), l.quiescer.order(), l.stored())
		}
		if l.intents.content() != "" {
			t.Errorf("intents:\n%s", l.intents.content())
		}
	})
}
