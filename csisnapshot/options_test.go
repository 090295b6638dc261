package csisnapshot_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
)

// New reports every fault at once, each with its field.
func TestNewChecksItsOptions(t *testing.T) {
	t.Parallel()
	_, err := csisnapshot.New(nil, nil, csisnapshot.Options{
		Names: csisnapshot.Names{Domain: "not a domain"}, Wait: csisnapshot.WaitOptions{Timeout: -1},
		Quiescer: &scriptedQuiescer{}, MaxFreeze: -1, MaxFrozenPods: -1, Concurrency: -1, MaxPickup: -1,
	})
	if err == nil {
		t.Fatal("New gave no error")
	}
	for _, want := range []string{
		"core client is nil", "snapshot client is nil", "Options.Names: ", "Options.Wait: ", "Options.Intents: required", "Options.MaxFreeze: negative",
		"Options.MaxFrozenPods: negative", "Options.Concurrency: negative", "Options.MaxPickup: negative",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v\nwant it to name %q", err, want)
		}
	}
}

// X1: a client that was made of nothing is refused where it is used first, by a clear error and not a panic.
func TestNilClientsAreRefused(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]csisnapshot.Client{
		"dynamic":       csisnapshot.NewDynamic(nil),
		"dynamic typed": csisnapshot.NewDynamic((*dynamic.DynamicClient)(nil)),
		"snapv6":        snapv6.New(nil),
		"snapv6 typed":  snapv6.New((*versioned.Clientset)(nil)),
	} {
		_, err := csisnapshot.New(fake.NewClientset(), client, csisnapshot.Options{})
		_, waiterErr := csisnapshot.NewWaiter(client, csisnapshot.WaitOptions{}, cutOwner, csisnapshot.Names{}, nil)
		_, actionErr := csisnapshot.NewAction(client, csisnapshot.Names{}, csisnapshot.WaitOptions{})
		for _, err := range []error{err, waiterErr, actionErr} {
			if err == nil || !strings.Contains(err.Error(), "client is nil") {
				t.Errorf("%s: error %v, want one that names the client", name, err)
			}
		}
	}
}

// Cut names what is wrong with its arguments and does nothing.
func TestCutChecksItsArguments(t *testing.T) {
	t.Parallel()
	vol := func(edit func(*csisnapshot.Volume)) *csisnapshot.Plan {
		v := csisnapshot.Volume{Namespace: "app", Claim: "a", ClaimUID: "u", Class: "c"}
		edit(&v)
		return &csisnapshot.Plan{Batches: []csisnapshot.Batch{{Volumes: []csisnapshot.Volume{v}}}}
	}
	pods := func(refs ...csisnapshot.PodRef) *csisnapshot.Plan {
		plan := &csisnapshot.Plan{}
		for _, ref := range refs {
			plan.Batches = append(plan.Batches, csisnapshot.Batch{Pods: []csisnapshot.Pod{{PodRef: ref}}})
		}
		return plan
	}
	cases := map[string]struct {
		owner csisnapshot.Owner
		plan  *csisnapshot.Plan
		text  string
	}{
		"no owner":     {plan: &csisnapshot.Plan{}, text: "UID is empty"},
		"no plan":      {owner: cutOwner, text: "plan is nil"},
		"no claim":     {owner: cutOwner, plan: vol(func(v *csisnapshot.Volume) { v.Claim = "" }), text: "batch 1: volume \"app/\": namespace and claim are required"},
		"no claim UID": {owner: cutOwner, plan: vol(func(v *csisnapshot.Volume) { v.ClaimUID = "" }), text: "batch 1: volume app/a: UID of the claim is required"},
		"no class":     {owner: cutOwner, plan: vol(func(v *csisnapshot.Volume) { v.Class = "" }), text: "batch 1: volume app/a: class is required"},
		"hooks but no quiescer": {
			owner: cutOwner, plan: &csisnapshot.Plan{Batches: []csisnapshot.Batch{{Hooked: true}}}, text: "batch 1 has hooks, and Options.Quiescer is nil",
		},
		"a claim twice": {owner: cutOwner, plan: &csisnapshot.Plan{Batches: []csisnapshot.Batch{{Volumes: []csisnapshot.Volume{
			{Namespace: "app", Claim: "a", ClaimUID: "u", Class: "c"}, {Namespace: "app", Claim: "b", ClaimUID: "u", Class: "c"},
		}}}}, text: "volume app/b: claim UID u is also that of app/a"},
		"a claim under two UIDs": {owner: cutOwner, plan: &csisnapshot.Plan{Batches: []csisnapshot.Batch{
			{Volumes: []csisnapshot.Volume{{Namespace: "app", Claim: "a", ClaimUID: "u", Class: "c"}}},
			{Volumes: []csisnapshot.Volume{{Namespace: "app", Claim: "a", ClaimUID: "v", Class: "c"}}},
		}}, text: "batch 2: volume app/a: is also in batch 1"},
		"a pod without name":      {owner: cutOwner, plan: pods(csisnapshot.PodRef{Namespace: "app"}), text: "batch 1: pod \"app/\": namespace and name are required"},
		"a pod without namespace": {owner: cutOwner, plan: pods(csisnapshot.PodRef{Name: "pa"}), text: "batch 1: pod \"/pa\": namespace and name are required"},
		"a pod in two batches": { // S5: the first batch would thaw it while the second cuts
			owner: cutOwner, plan: pods(csisnapshot.PodRef{Namespace: "app", Name: "pa"}, csisnapshot.PodRef{Namespace: "app", Name: "pb"}, csisnapshot.PodRef{Namespace: "app", Name: "pa", UID: "u"}),
			text: "batch 3: pod app/pa: is also in batch 1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{})
				report, err := l.bareSnapshotter(csisnapshot.Options{}).Cut(t.Context(), tc.owner, tc.plan)
				if err == nil || !strings.Contains(err.Error(), tc.text) || report == nil {
					t.Errorf("Cut = %v, %v, want an error with %q", report, err, tc.text)
				}
				if n := l.cluster.Requests()["create volumesnapshots"]; n > 0 {
					t.Errorf("%d creates", n)
				}
			})
		})
	}
}

// X4: progress can be followed, in order, and a panic of an observer changes nothing (X1).
func TestCutObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := claim("bad")
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{
			"bad": {Errors: []backuptest.DriverError{{Code: "Internal", Text: "no"}}},
		}}, append(claims("a"), bad, hookedPod("pa", "a"))...)
		var log []string
		add := func(text string) { log = append(log, text) }
		report := l.mustCut(csisnapshot.Options{
			Wait: csisnapshot.WaitOptions{Classifier: csisnapshot.FinalCodes("Internal")},
			Observer: csisnapshot.Observer{
				BatchStarted: func(csisnapshot.BatchEvent) { add("batch started"); panic("observer") },
				BatchEnded:   func(csisnapshot.BatchEvent) { add("batch ended") },
				Frozen:       func(e csisnapshot.PodEvent) { add("frozen " + e.Pod.Name) },
				Thawed:       func(e csisnapshot.PodEvent) { add("thawed " + e.Pod.Name) },
				Created:      func(e csisnapshot.VolumeEvent) { add("created " + e.Claim) },
				Cut:          func(e csisnapshot.VolumeEvent) { add("cut " + e.Claim) },
				Failed:       func(e csisnapshot.VolumeEvent) { add("failed " + e.Claim) },
			},
		})
		want := []string{
			"batch started", "frozen pa", "created a", "cut a", "thawed pa", "batch ended",
			"batch started", "created bad", "failed bad", "batch ended",
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if report.Failed() != 1 || report.Err() == nil {
			t.Errorf("report: %+v", report)
		}
	})
}

// X1: an observer hears of nothing after Cut has returned, be it slow or stuck.
func TestCutLeavesASlowObserver(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"slow": time.Second, "stuck": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, claims(numbered("a", 20)...)...)
				var calls atomic.Int32
				report := l.mustCut(csisnapshot.Options{Observer: csisnapshot.Observer{
					Cut: func(csisnapshot.VolumeEvent) { calls.Add(1); time.Sleep(pause) },
				}})
				checkWhole(t, report)
				told := calls.Load()
				time.Sleep(2 * time.Minute)
				if later := calls.Load(); later != told || told == 0 || told == 20 {
					t.Errorf("%d calls when Cut returned and %d later, want some and no more", told, later)
				}
			})
		})
	}
}

// X1, S5: a clock that panics or tells no time does not keep a pod from being thawed and recorded as that.
func TestCutWithABrokenClock(t *testing.T) {
	t.Parallel()
	cases := map[string]func() time.Time{
		"panics":        func() time.Time { panic("clock") },
		"zero":          func() time.Time { return time.Time{} },
		"far future":    func() time.Time { return time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"before Christ": func() time.Time { return time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
	}
	for name, clock := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
				report := l.mustCut(csisnapshot.Options{Clock: clock})
				checkWhole(t, report)
				if !report.Started.Equal(l.quiescer.start) {
					t.Errorf("Started = %v, want the system's time", report.Started)
				}
				if again := l.mustCut(csisnapshot.Options{Clock: clock}); len(again.Leftovers) > 0 {
					t.Errorf("a thawed pod is a leftover: %+v", again.Leftovers)
				}
			})
		})
	}
}

// X1: a panic in the quiescer's Hooks is an error of the pod, not of the program.
func TestHooksPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "w"), hookedPod("pa", "a"))...)
		q := &moodyQuiescer{scriptedQuiescer: l.quiescer}
		s := l.snapshotter(csisnapshot.Options{Quiescer: q, Intents: l.intents})
		plan, err := s.Plan(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		q.panics = true
		report, err := s.Cut(t.Context(), cutOwner, plan)
		if err != nil {
			t.Fatal(err)
		}
		if v := volumeOf(t, report, "a"); v.Err == nil || !strings.Contains(v.Err.Error(), "hooks of today") || !volumeOf(t, report, "w").IsCut() {
			t.Errorf("volumes: %+v", report.Volumes)
		}
	})
}

// moodyQuiescer panics when told to.
type moodyQuiescer struct {
	*scriptedQuiescer

	panics bool
}

func (q *moodyQuiescer) Hooks(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
	if q.panics {
		panic("hooks of today")
	}
	return q.scriptedQuiescer.Hooks(pod)
}
