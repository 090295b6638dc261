package csisnapshot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// process is one life of a program: it is killed after its kth effect on the world, and has none afterwards.
type process struct {
	lab   *cutLab
	limit int // effects until the kill; 0: none

	life    *backuptest.Process
	effects []string // that began before it ended
	killed  bool
}

// Load reads the lab's document.
func (p *process) Load(ctx context.Context) ([]byte, error) { return p.lab.intents.Load(ctx) }

// Save writes the lab's document.
func (p *process) Save(ctx context.Context, data []byte) error {
	return p.life.Do(ctx, "save", func(ctx context.Context) error { return p.lab.intents.Save(ctx, data) })
}

// Hooks are the lab's.
func (p *process) Hooks(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
	return p.lab.quiescer.Hooks(pod)
}

// Exec runs the lab's hooks.
func (p *process) Exec(ctx context.Context, pod csisnapshot.PodRef, hook csisnapshot.Hook) error {
	return p.life.Do(ctx, hook.Name+" "+pod.Name, func(ctx context.Context) error { return p.lab.quiescer.Exec(ctx, pod, hook) })
}

// live runs Cut for the owner until it returns or is killed.
func (p *process) live(t *testing.T, owner csisnapshot.Owner) (*csisnapshot.Report, error) {
	t.Helper()
	ctx, life := backuptest.NewProcess(t.Context(), map[int]backuptest.Trouble{p.limit: backuptest.CrashAfter})
	p.life = life
	defer func() {
		p.effects, p.killed = life.Effects(), life.Crashed()
		life.Kill()
	}()
	config := life.Config(p.lab.cluster.Config())
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{Quiescer: p, Intents: p})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan(ctx, "app")
	if err != nil {
		t.Fatal(err)
	}
	return s.Cut(ctx, owner, plan)
}

// S9, S5: killed after each of its effects and run again, Cut takes one snapshot per volume, leaves no pod frozen
// and touches nothing of another's (snap-22, snap-23).
func TestCutSurvivesAKillAfterEachEffect(t *testing.T) {
	t.Parallel()
	for kill := 1; ; kill += race.Scaled(1, 3) {
		killed := false
		synctest.Test(t, func(t *testing.T) {
			scripts := map[string]backuptest.Script{"b1": {CutAfter: 2 * time.Second, ReadyAfter: 5 * time.Second}}
			l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts},
				append(claims("a1", "a2", "b1", "w1", "orphan"), hookedPod("pa", "a1", "a2"), hookedPod("pb", "b1"), plainPod("web", "w1"),
					backuptest.Snapshot{Namespace: "app", Name: "theirs", Claim: "a1"})...)
			theirs, err := l.snapshotsOf().Get(t.Context(), "app", "theirs")
			if err != nil {
				t.Fatal(err)
			}
			first := &process{lab: l, limit: kill}
			_, err = first.live(t, cutOwner)
			killed = first.killed
			if killed != (err != nil) {
				t.Fatalf("kill %d: killed %v, Cut = %v", kill, killed, err)
			}
			where := fmt.Sprintf("killed after %v", first.effects)
			frozen := l.quiescer.frozen()
			if len(frozen) > 1 {
				t.Errorf("%s: %v frozen at once", where, frozen)
			}
			before := len(l.quiescer.runs())
			again := &process{lab: l}
			report, err := again.live(t, cutOwner)
			if err != nil {
				t.Fatalf("%s: second Cut: %v", where, err)
			}
			checkWhole(t, report)
			checkOnce(t, l, where)
			runs := l.quiescer.runs()[before:]
			if len(frozen) == 1 && (len(runs) == 0 || runs[0].pod != frozen[0] || runs[0].stage != "post") {
				t.Errorf("%s: %v was left frozen, and the first thing that ran was %v", where, frozen, runs)
			}
			if strings.Contains(l.intents.content(), "podUID") && strings.Count(l.intents.content(), "podUID") != strings.Count(l.intents.content(), "thawedAt") {
				t.Errorf("%s: an intent has no thaw record:\n%s", where, l.intents.content())
			}

			// A third run has nothing to do: it freezes nothing and creates nothing (S5).
			third := &process{lab: l}
			if report, err = third.live(t, cutOwner); err != nil {
				t.Fatalf("%s: third Cut: %v", where, err)
			}
			checkWhole(t, report)
			if len(third.effects) > 0 {
				t.Errorf("%s: the third run did %v", where, third.effects)
			}
			for _, b := range report.Batches {
				if b.Hooked && !b.Resumed {
					t.Errorf("%s: a batch is not marked resumed", where)
				}
			}
			checkSameOperations(t, l, report)
			if now, err := l.snapshotsOf().Get(t.Context(), "app", "theirs"); err != nil || now.ResourceVersion != theirs.ResourceVersion {
				t.Errorf("%s: another's snapshot was touched: %+v, %v", where, now, err)
			}
		})
		if t.Failed() {
			return
		}
		if !killed {
			if kill < 12 {
				t.Errorf("only %d effects: the test lost its hold on them", kill)
			}
			return
		}
	}
}

// checkOnce fails unless each volume has one snapshot and no pod is frozen.
func checkOnce(t *testing.T, l *cutLab, where string) {
	t.Helper()
	if want := []string{"a1", "a2", "b1", "orphan", "w1"}; !slices.Equal(l.stored(), want) {
		t.Errorf("%s: the storage has snapshots of %v, want one of each of %v", where, l.stored(), want)
	}
	if frozen := l.quiescer.frozen(); frozen != nil {
		t.Errorf("%s: still frozen: %v", where, frozen)
	}
}

// checkSameOperations fails unless operation IDs are what another Cut would give.
func checkSameOperations(t *testing.T, l *cutLab, report *csisnapshot.Report) {
	t.Helper()
	again, err := l.cut(t.Context(), csisnapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, got := report.Operations(), again.Operations()
	for i := range want {
		if want[i].ID != got[i].ID || want[i].Status.Phase != "InProgress" {
			t.Errorf("operation %v became %v", want[i], got[i])
		}
	}
}

// S5: what an earlier process cut of a batch was not cut in the freeze of this one, and the report says so.
func TestCutNamesWhatWasCutBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), hookedPod("pa", "a", "b"))...)
		first := &process{lab: l, limit: 3} // the intent, the pre hook, one create
		if _, err := first.live(t, cutOwner); err == nil {
			t.Fatal("not killed")
		}
		time.Sleep(time.Minute)
		old := l.stored()
		if len(old) != 1 {
			t.Fatalf("%v taken before the kill, want one", old)
		}
		report := l.mustCut(csisnapshot.Options{})
		checkWhole(t, report)
		if got := report.Batches[0].NotCutInWindow; !slices.Equal(got, []string{"app/" + old[0]}) {
			t.Errorf("NotCutInWindow = %v, want that of %v", got, old)
		}
		if v := volumeOf(t, report, old[0]); !v.Adopted || !v.NotCutInWindow {
			t.Errorf("%s: %+v", old[0], v)
		}
	})
}

// S5: another owner thaws what a killed one left frozen, before any other work.
func TestCutThawsForAnotherOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), hookedPod("pa", "a"), hookedPod("pb", "b"))...)
		first := &process{lab: l, limit: 2} // the intent and the pre hook
		if _, err := first.live(t, cutOwner); err == nil || !slices.Equal(l.quiescer.frozen(), []string{"pa"}) {
			t.Fatalf("Cut = %v after %v, frozen %v", err, first.effects, l.quiescer.frozen())
		}
		other := csisnapshot.Owner{UID: "another-uid", Namespace: "backups", Name: "weekly"}
		second := &process{lab: l}
		report, err := second.live(t, other)
		if err != nil {
			t.Fatal(err)
		}
		if second.effects[0] != "post pa" || second.effects[1] != "save" {
			t.Errorf("the new owner began with %v, want the thaw and its record", second.effects[:2])
		}
		want := csisnapshot.PodRef{Namespace: "app", Name: "pa", UID: l.quiescer.runs()[0].uid}
		if len(report.Leftovers) != 1 || report.Leftovers[0].Pod != want || report.Leftovers[0].Outcome != csisnapshot.ThawDone ||
			report.Leftovers[0].Owner != cutOwner || report.Leftovers[0].Err != nil {
			t.Errorf("Leftovers = %+v, want %v of %v, thawed", report.Leftovers, want, cutOwner)
		}
		if frozen := l.quiescer.frozen(); frozen != nil {
			t.Errorf("frozen after Cut: %v", frozen)
		}
	})
}

// S5: a pod that was recreated is not thawed but reported, one that is gone is reported, and both are settled.
func TestCutReportsPodsThatCannotBeThawed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		recreate bool
		phase    corev1.PodPhase
		want     csisnapshot.ThawOutcome
	}{
		"recreated": {recreate: true, want: csisnapshot.ThawPodRecreated},
		"gone":      {want: csisnapshot.ThawPodGone},
		"ended":     {phase: corev1.PodSucceeded, want: csisnapshot.ThawPodGone},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
				first := &process{lab: l, limit: 2}
				if _, err := first.live(t, cutOwner); err == nil {
					t.Fatal("not killed")
				}
				core, err := kubernetes.NewForConfig(l.cluster.Config())
				if err != nil {
					t.Fatal(err)
				}
				pods := core.CoreV1().Pods("app")
				if err := pods.Delete(t.Context(), "pa", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
					t.Fatal(err)
				}
				pod := hookedPod("pa", "a")
				if tc.phase != "" {
					pod.Phase = tc.phase
				}
				if tc.recreate {
					pod.UID = "another"
				}
				if tc.recreate || tc.phase != "" {
					if err := l.cluster.Add(pod.Objects()...); err != nil {
						t.Fatal(err)
					}
				}
				before := len(l.quiescer.runs())
				report := l.mustCut(csisnapshot.Options{})
				if len(report.Leftovers) != 1 || report.Leftovers[0].Outcome != tc.want {
					t.Fatalf("Leftovers = %+v, want one %q", report.Leftovers, tc.want)
				}
				for _, run := range l.quiescer.runs()[before:] {
					if run.stage == "post" && run.uid != "another" {
						t.Errorf("a post hook ran in pod UID %s", run.uid)
					}
				}
				checkWhole(t, report)
				if again := l.mustCut(csisnapshot.Options{}); len(again.Leftovers) != 0 {
					t.Errorf("the next Cut has leftovers again: %+v", again.Leftovers)
				}
			})
		})
	}
}
