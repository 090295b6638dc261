package csisnapshot_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// S7: any number of volumes whose creates meet nothing but trouble cost one Timeout at any cap, no pod is frozen for longer,
// and none is frozen for nothing afterwards.
func TestCutTroubleOfCreatesCostsOneTimeout(t *testing.T) {
	t.Parallel()
	faults := map[string]backuptest.Fault{
		"500":       {Code: 500},
		"429":       {Code: 429},
		"refused":   {Action: backuptest.FaultRefuse},
		"no answer": {Action: backuptest.FaultHang},
	}
	for name, fault := range faults {
		for _, limit := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, limit %d", name, limit), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					first := numbered("a", 20)
					l := newCutLab(t, backuptest.ControllerOptions{}, append(claims(append(first, "b", "w")...), hookedPod("pa", first...), hookedPod("pb", "b"))...)
					fault.Verb, fault.Resource = "create", "volumesnapshots"
					l.cluster.Fault(fault)
					report := l.mustCut(csisnapshot.Options{Concurrency: limit, Wait: csisnapshot.WaitOptions{Timeout: 2 * time.Minute}})
					// Each that was tried is looked for by its name, which takes 1.5 s.
					if frozen := podOf(t, report, "pa").Frozen; report.Duration > 125*time.Second || frozen > 125*time.Second {
						t.Errorf("Cut took %v, pod pa was frozen for %v, want one Timeout of 2m", report.Duration, frozen)
					}
					if got := l.quiescer.order(); got != "pa/pre pa/post" {
						t.Errorf("hooks ran %q, want none in pb, for which nothing would have been sent", got)
					}
					if b := report.Batches[1]; b.Resumed || len(b.NotCutInWindow) > 0 {
						t.Errorf("batch of pb: %+v", b)
					}
					for _, v := range report.Volumes {
						if !errors.Is(v.Err, csisnapshot.ErrNotStarted) || v.Snapshot != "" {
							t.Errorf("claim %s: %v", v.Claim, v.Err)
						}
					}
				})
			})
		}
	}
}

// S7: each driver has a clock of its own beside the run's, so that trouble with one costs one Timeout and harms no other;
// trouble that ends in time harms nobody.
func TestCutTroubleOfOneDriver(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		ends time.Duration // of the trouble; zero: never
		want error
	}{
		"lasts":        {want: csisnapshot.ErrNotStarted},
		"ends in time": {ends: 110 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var builders []backuptest.Builder
				bad := numbered("bad", 5)
				for _, n := range bad {
					builders = append(builders, backuptest.Claim{Namespace: "app", Name: n, Driver: secondDriver})
				}
				builders = append(builders, backuptest.SnapshotClass{Name: "bad", Driver: secondDriver})
				good := numbered("good", 20)
				scripts := map[string]backuptest.Script{}
				for _, n := range good {
					scripts[n] = backuptest.Script{CutAfter: 5 * time.Second}
				}
				l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, append(builders, claims(good...)...)...)
				for _, n := range bad {
					f := backuptest.Fault{Verb: "create", Resource: "volumesnapshots", Name: csisnapshot.Names{}.Snapshot(cutOwner.UID, claimRef(n).UID), Code: 500}
					remove := l.cluster.Fault(f)
					if tc.ends > 0 {
						time.AfterFunc(tc.ends, remove)
					}
				}
				report := l.mustCut(csisnapshot.Options{Concurrency: 2, Wait: csisnapshot.WaitOptions{Timeout: 2 * time.Minute}})
				for _, v := range report.Volumes {
					if want := tc.want; v.Driver != secondDriver && !v.IsCut() || v.Driver == secondDriver && (!errors.Is(v.Err, want) || (v.Err == nil) != (want == nil)) {
						t.Errorf("claim %s: %v", v.Claim, v.Err)
					}
				}
				// Two in flight: the five cost one Timeout, the twenty 5 s for each two.
				if report.Duration > 180*time.Second {
					t.Errorf("Cut took %v, want one Timeout of 2m and 50s of the good ones", report.Duration)
				}
			})
		})
	}
}

// S5, S8: the volumes that an earlier Cut has sent share the time in which it is found out whether they are cut, so that a
// batch of many does not hold up the others for a timeout each.
func TestCutLooksForEarlierCutsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := numbered("a", 12)
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims(names...), hookedPod("pa", names...))...)
		l.mustCut(csisnapshot.Options{})
		l.cluster.Fault(backuptest.Fault{Resource: "volumesnapshotcontents", Action: backuptest.FaultHang})
		const timeout = 2 * time.Minute
		began := time.Now()
		if _, err := l.cut(t.Context(), csisnapshot.Options{Wait: csisnapshot.WaitOptions{Timeout: timeout}}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > timeout+time.Minute {
			t.Errorf("Cut took %v, want little more than one timeout of %v", took, timeout)
		}
	})
}
