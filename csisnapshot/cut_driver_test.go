package csisnapshot_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// cutLog is when each claim's snapshot was made and cut, from the start of the test, as the observer is told.
type cutLog struct {
	start        time.Time
	created, cut map[string]time.Duration
}

func newCutLog() *cutLog {
	return &cutLog{start: time.Now(), created: map[string]time.Duration{}, cut: map[string]time.Duration{}}
}

func (l *cutLog) observer() csisnapshot.Observer {
	return csisnapshot.Observer{
		Created: func(e csisnapshot.VolumeEvent) { l.created[e.Claim] = time.Since(l.start) },
		Cut:     func(e csisnapshot.VolumeEvent) { l.cut[e.Claim] = time.Since(l.start) },
	}
}

// most is the largest number of these claims that were made and not cut at the same time.
func (l *cutLog) most(claims []string) int {
	most := 0
	for _, c := range claims {
		n := 0
		for _, other := range claims {
			if l.created[other] <= l.created[c] && l.cut[other] > l.created[c] {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// gaps is the shortest time between two creates.
func (l *cutLog) gap() time.Duration {
	times := slices.Sorted(maps.Values(l.created))
	shortest := time.Hour
	for i := 1; i < len(times); i++ {
		shortest = min(shortest, times[i]-times[i-1])
	}
	return shortest
}

func slowScripts(after time.Duration, claims ...string) map[string]backuptest.Script {
	scripts := map[string]backuptest.Script{}
	for _, c := range claims {
		scripts[c] = backuptest.Script{CutAfter: after}
	}
	return scripts
}

// S4: a driver's limit holds over all batches, no other driver waits for it, and no pod is frozen to wait for places that
// others have (snap-25).
func TestCutDriverInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := numbered("a", 6), numbered("b", 6)
		builders := append(claims(first...), hookedPod("p0", first[:2]...), hookedPod("p1", first[2:4]...))
		for _, name := range second {
			builders = append(builders, backuptest.Claim{Namespace: "app", Name: name, Driver: secondDriver})
		}
		builders = append(builders, backuptest.SnapshotClass{Name: "second", Driver: secondDriver})
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: slowScripts(10*time.Second, slices.Concat(first, second)...)}, builders...)
		log := newCutLog()
		report := l.mustCut(csisnapshot.Options{
			MaxFrozenPods: 2, Observer: log.observer(),
			Drivers: map[string]csisnapshot.DriverLimits{backuptest.DefaultDriver: {InFlight: 2}},
		})
		checkWhole(t, report)
		if got := log.most(first); got != 2 {
			t.Errorf("%d snapshots of the limited driver in flight, want 2", got)
		}
		if got := log.most(second); got != 6 {
			t.Errorf("%d snapshots of the other driver in flight, want all 6", got)
		}
		for _, pod := range []string{"p0", "p1"} {
			if got := podOf(t, report, pod).Frozen; got > 11*time.Second {
				t.Errorf("pod %s frozen for %v, want the 10 s of its own snapshots", pod, got)
			}
		}
	})
}

// S4: the creates of a driver keep their distance, also from one batch to the next, and a limit for every driver holds for
// those not named (snap-25).
func TestCutDriverRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := numbered("c", 8)
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims(names...), hookedPod("p0", names[0]), hookedPod("p1", names[1]))...)
		log := newCutLog()
		report := l.mustCut(csisnapshot.Options{
			Observer: log.observer(), Drivers: map[string]csisnapshot.DriverLimits{"": {Every: 5 * time.Second}},
		})
		checkWhole(t, report)
		if log.gap() != 5*time.Second || report.Duration < 35*time.Second || report.Duration > 45*time.Second {
			t.Errorf("creates %v apart, %v in all, want 5 s and about 35 s", log.gap(), report.Duration)
		}
		if got := podOf(t, report, "p1").Frozen; got >= 5*time.Second {
			t.Errorf("the second pod is frozen for %v while its driver may not be asked", got)
		}
	})
}

// S6, S4: what a classifier says of the time in which a driver makes no progress holds up the creates that were not sent,
// before the next pod is frozen (snap-25).
func TestCutHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string]backuptest.Script{"a": {Errors: []backuptest.DriverError{{Code: "ResourceExhausted", Text: "slow down", Times: 1}}}}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, append(claims("a", "b", "w"), hookedPod("pa", "a"), hookedPod("pb", "b"))...)
		log := newCutLog()
		report := l.mustCut(csisnapshot.Options{
			Observer: log.observer(), MaxFrozenPods: 2,
			Wait: csisnapshot.WaitOptions{Classifier: csisnapshot.ClassifierFunc(func(e csisnapshot.ErrorInfo) csisnapshot.Verdict {
				if e.Code != "ResourceExhausted" {
					return csisnapshot.Verdict{}
				}
				return csisnapshot.Verdict{RetryAfter: time.Minute}
			})},
		})
		checkWhole(t, report)
		if log.created["w"] < time.Minute {
			t.Errorf("created at %v: the driver asked for a minute", log.created)
		}
		if got := podOf(t, report, "pb").Frozen; got > 10*time.Second {
			t.Errorf("pod pb was frozen for %v while its driver was left alone", got)
		}
	})
}

// A limit does not hide that a driver is dead: what it did not let start ends with the rest, in one Timeout (S7).
func TestCutDriverLimitsOfADeadDriver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := numbered("c", 6)
		scripts := map[string]backuptest.Script{}
		for _, n := range names {
			scripts[n] = backuptest.Script{Silent: true}
		}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, append(claims(names...), hookedPod("p", names[0]), hookedPod("q", names[1]))...)
		report := l.mustCut(csisnapshot.Options{
			MaxFreeze: 10 * time.Second, Wait: csisnapshot.WaitOptions{Timeout: 5 * time.Minute},
			Drivers: map[string]csisnapshot.DriverLimits{backuptest.DefaultDriver: {InFlight: 1, Every: time.Second}},
		})
		for _, v := range report.Volumes {
			if !errors.Is(v.Err, csisnapshot.ErrTimeout) && !errors.Is(v.Err, csisnapshot.ErrNotStarted) {
				t.Errorf("claim %s: %v", v.Claim, v.Err)
			}
		}
		if report.Duration > 6*time.Minute {
			t.Errorf("it took %v, want about the Timeout of 5 min", report.Duration)
		}
	})
}

// A volume that has as many snapshots as its storage keeps is not tried and freezes nothing (snap-26); every other is, and an
// earlier Cut's own snapshot counts as done, not as one too many.
func TestCutVolumeFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), hookedPod("pa", "a"), hookedPod("pb", "b"))...)
		opts := csisnapshot.Options{Drivers: map[string]csisnapshot.DriverLimits{backuptest.DefaultDriver: {PerVolume: 2}}}
		s := l.snapshotter(opts)
		plan, err := s.Plan(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		only := *plan
		only.Batches = plan.Batches[:1]
		weekly, other := csisnapshot.Owner{UID: "weekly", Name: "weekly"}, csisnapshot.Owner{UID: "other", Name: "other"}
		for _, owner := range []csisnapshot.Owner{weekly, other} {
			if report, err := s.Cut(t.Context(), owner, &only); err != nil || report.Err() != nil {
				t.Fatalf("Cut = %v, %v", report, err)
			}
		}
		before := len(l.quiescer.runs())
		report, err := s.Cut(t.Context(), cutOwner, plan)
		if err != nil {
			t.Fatal(err)
		}
		if a := volumeOf(t, report, "a"); !errors.Is(a.Err, csisnapshot.ErrVolumeFull) {
			t.Errorf("a: %v, want ErrVolumeFull", a.Err)
		}
		if b := volumeOf(t, report, "b"); !b.IsCut() {
			t.Errorf("b: %v", b.Err)
		}
		var ran []string
		for _, r := range l.quiescer.runs()[before:] {
			ran = append(ran, r.pod+"/"+r.stage)
		}
		if diff := cmp.Diff([]string{"pb/pre", "pb/post"}, ran); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
		// The owners whose snapshots fill the volume go on as before.
		if report, err := s.Cut(t.Context(), other, &only); err != nil || report.Failed() != 0 {
			t.Errorf("Cut of an owner that is done = %v, %v", report.Err(), err)
		}
	})
}

// S9: a snapshot gets those labels of its claim that were asked for, none else, and none in place of the library's.
func TestCutClaimLabels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		labelled := claim("a")
		labelled.Labels = map[string]string{"team": "db", "argocd.argoproj.io/instance": "shop"}
		l := newCutLab(t, backuptest.ControllerOptions{}, labelled)
		report := l.mustCut(csisnapshot.Options{ClaimLabels: []string{"team", "absent"}})
		checkWhole(t, report)
		got, err := l.snapshotsOf().Get(t.Context(), "app", csisnapshot.Names{}.Snapshot(cutOwner.UID, claimRef("a").UID))
		if err != nil {
			t.Fatal(err)
		}
		want := csisnapshot.Names{}.Labels(cutOwner, claimRef("a"))
		want["team"] = "db"
		if diff := cmp.Diff(want, got.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		for _, bad := range []string{"sheetanchor.io/owner", "not a key"} {
			if _, err := csisnapshot.New(nil, nil, csisnapshot.Options{ClaimLabels: []string{bad}}); err == nil || !strings.Contains(err.Error(), "Options.ClaimLabels") {
				t.Errorf("ClaimLabels %q: %v", bad, err)
			}
		}
	})
}

// S9: own objects are found by a list of many pages, each with a time of its own, that is begun again when it expires between
// two.
func TestCutAdoptsFromManyPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var others []backuptest.Builder
		for _, name := range numbered("0-", 500) { // a whole page before the snapshot of the claim
			of := csisnapshot.ClaimRef{Namespace: "app", Name: name, UID: types.UID(name)}
			made := csisnapshot.Names{}.NewSnapshot(cutOwner, of, "")
			others = append(others, backuptest.Snapshot{
				Namespace: "app", Name: name, Claim: name, State: backuptest.SnapshotCreated, Labels: made.Labels, Annotations: made.Annotations,
			})
		}
		l := newCutLab(t, backuptest.ControllerOptions{}, claims("c")...)
		checkWhole(t, l.mustCut(csisnapshot.Options{}))
		l.stop()
		l.all.Wait()
		if err := l.cluster.Add(backuptest.Objects(others...)...); err != nil {
			t.Fatal(err)
		}
		l.cluster.ResetRequests()
		const snapshots = "volumesnapshots"
		l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: snapshots, Latency: 20 * time.Second, Times: 4})
		l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: snapshots, Nth: 3, Code: 410, Reason: metav1.StatusReasonExpired})
		checkWhole(t, l.mustCut(csisnapshot.Options{}))
		if got := l.cluster.Requests(); got["create "+snapshots] != 0 || got["list "+snapshots] < 3 {
			t.Errorf("%v, want the snapshot found on the second page and none made", got)
		}
	})
}

// S4: the limits are checked when the Snapshotter is made, each field by its name.
func TestDriverLimitsAreValidated(t *testing.T) {
	t.Parallel()
	_, err := csisnapshot.New(nil, nil, csisnapshot.Options{Drivers: map[string]csisnapshot.DriverLimits{
		"d": {InFlight: -1, Every: -time.Second, PerVolume: -1},
	}})
	for _, field := range []string{`Options.Drivers["d"].InFlight`, `Options.Drivers["d"].Every`, `Options.Drivers["d"].PerVolume`} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
