package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

// killSeed chooses which event of its kind a kill follows and how long after it.
const killSeed = 3

// maxDelay is the longest time from the event to the kill.
const maxDelay = 150 * time.Millisecond

// victim is a run that will be killed.
type victim struct {
	app    *app.App
	run    *app.Run
	mark   audit.Mark
	random *rand.Rand
}

// moment is an event of a run.
type moment func(ctx context.Context, t *testing.T, v victim) error

// SIGKILL at any moment, and the next run ends the backup: one physical snapshot of each volume ever, each frozen pod
// thawed, Completed once. S5, S9, S10, P4, P5, P6, O8, F2, X7, X8.
func testKills(t *testing.T) {
	t.Helper()
	tests := map[string]moment{
		"object-made":        onRequest("create", "configmaps", 1),
		"freeze-begun":       onHook(app.PreHook, false),
		"freeze-ended":       onHook(app.PreHook, true),
		"snapshot-made":      onRequest("create", "volumesnapshots", 4),
		"cut-begun":          onCall(false, 3),
		"cut-answered":       onCall(true, 3),
		"thaw-begun":         onHook(app.PostHook, false),
		"line-printed":       onLine(12),
		"policy-changed":     onRequest("patch", "volumesnapshotcontents", 2),
		"at-a-moment-of-4-s": func(ctx context.Context, _ *testing.T, v victim) error { return pause(ctx, v.random, 4*time.Second) },
	}
	for name, event := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKill(t, name, event)
		})
	}
}

func testKill(t *testing.T, name string, event moment) {
	t.Helper()
	c := cluster(t)
	a := application(t, "kill-"+name, shop())
	must(t, c.Stack.Driver().SetScript(t.Context(), a.Pattern(), driver.Script{Script: backuptest.Script{CutAfter: time.Second, ReadyAfter: time.Second}}))
	must(t, c.Stack.Kubelet().AddScript(t.Context(), kubelet.Script{Pattern: a.Namespace + "/*", Delay: 300 * time.Millisecond}))
	b := backup(t, a)
	history := observePhase(t, a, b.Name)
	var seed uint64
	for _, r := range name {
		seed = seed*31 + uint64(r)
	}
	mark, err := c.Stack.Audit().Mark()
	must(t, err)
	run, err := b.Start(within(t, bound))
	must(t, err)
	v := victim{app: a, run: run, mark: mark, random: rand.New(rand.NewPCG(killSeed, seed))}
	must(t, event(within(t, bound), t, v))
	must(t, pause(t.Context(), v.random, maxDelay))
	killed, err := run.Kill()
	must(t, err)
	exit, err := run.Wait(t.Context())
	must(t, err)
	if !killed {
		t.Fatalf("the run ended before it was killed: %d, %q", exit.Code, exit.Stdout)
	}
	printed := strings.Split(strings.TrimSpace(exit.Stdout), "\n")
	t.Logf("killed after %d lines, the last %q", len(printed), printed[len(printed)-1])

	exit, err = b.Run(within(t, bound))
	must(t, err)
	report := completed(t, exit)
	released(t, a, report)
	thawed(t, a)
	for _, s := range report.Snapshots {
		if !s.ReadyToUse || s.Error != "" {
			t.Errorf("%s is ready: %t, error %q", s.PVC, s.ReadyToUse, s.Error)
		}
	}
	if got := history(); slices.Index(got, phase.Completed) != len(got)-1 {
		t.Errorf("P5: the phase went through %v, want Completed once, at the end", got)
	}
}

// pause waits for a time below most that the seed chooses.
func pause(ctx context.Context, random *rand.Rand, most time.Duration) error {
	timer := time.NewTimer(time.Duration(random.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// onRequest is one of the first n requests of a kind.
func onRequest(verb, resource string, n int) moment {
	return func(ctx context.Context, t *testing.T, v victim) error {
		t.Helper()
		least := 1 + v.random.IntN(n)
		t.Logf("after %d × %s %s", least, verb, resource)
		return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			counts, err := cluster(t).Stack.Audit().Counts(v.mark, v.app.User)
			if err == nil && counts[verb+" "+resource] < least && ended(v.run) {
				err = fmt.Errorf("the run ended after %d × %s %s", counts[verb+" "+resource], verb, resource)
			}
			return counts[verb+" "+resource] >= least, err
		})
	}
}

// onHook is the beginning of a hook, or its end.
func onHook(command string, end bool) moment {
	return func(_ context.Context, t *testing.T, v victim) error {
		t.Helper()
		awaitHook(t, v.app, command, end)
		return nil
	}
}

// onCall is one of the first n cuts of the driver, as it begins or as it is answered.
func onCall(answered bool, n int) moment {
	return func(ctx context.Context, t *testing.T, v victim) error {
		t.Helper()
		least := 1 + v.random.IntN(n)
		t.Logf("after %d calls of the driver, answered: %t", least, answered)
		filter := driver.CallFilter{Method: "CreateSnapshot", Claim: v.app.Pattern(), Answered: answered}
		_, err := cluster(t).Stack.Driver().WaitCalls(ctx, filter, least)
		return err
	}
}

// onLine is one of the first n lines that the run prints.
func onLine(n int) moment {
	return func(ctx context.Context, t *testing.T, v victim) error {
		t.Helper()
		least := 1 + v.random.IntN(n)
		t.Logf("after %d lines", least)
		return v.run.AwaitLines(ctx, func(lines []string) bool { return len(lines) >= least })
	}
}

func ended(run *app.Run) bool {
	select {
	case <-run.Done():
		return true
	default:
		return false
	}
}

// observePhase watches the backup object from now on. The function that it returns reads on to the object's present version
// and tells the phases that it was in, each as often as it was entered.
func observePhase(t *testing.T, a *app.App, name string) func() []string {
	t.Helper()
	name = "sheetanchor-" + name
	client := cluster(t).Core.CoreV1().ConfigMaps(a.Namespace)
	watch, err := client.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	must(t, err)
	t.Cleanup(watch.Stop)
	return func() []string {
		last, err := client.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		var entered []string
		for event := range watch.ResultChan() {
			object, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				t.Fatalf("watch of the backup object: %v", event.Object)
			}
			if now := object.Data["phase"]; len(entered) == 0 || entered[len(entered)-1] != now {
				entered = append(entered, now)
			}
			if object.ResourceVersion == last.ResourceVersion {
				return entered
			}
		}
		t.Fatal("the watch of the backup object ended")
		return nil
	}
}
