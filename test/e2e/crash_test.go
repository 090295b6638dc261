package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// TestComponents breaks components of a stack of its own, one case after the other.
func TestComponents(t *testing.T) {
	t.Parallel()
	ownStack(t, hurried())
	t.Run("crash", testCrashes)
	t.Run("thaw-without-server", testThawWithoutServer)
	t.Run("missing", testMissing)
	t.Run("definitions-deleted", testDefinitionsDeleted)
}

// Every component crashes while the backup waits, first for cuts and then for readiness, and the API server stands still for
// a while: trouble of the API is not trouble of snapshots. S8, P5: also the 403 of a server that has just started ends
// nothing; S9: no volume is cut twice.
func testCrashes(t *testing.T) {
	t.Helper()
	c := cluster(t)
	a := application(t, "crash", shop())
	script := func(claim string, s driver.Script) {
		t.Helper()
		must(t, c.Stack.Driver().SetScript(t.Context(), a.Namespace+"/"+claim, s))
	}
	hang := driver.Script{HangCreate: true}
	script("media", hang)
	script("archive", hang)
	mark, err := c.Stack.Audit().Mark()
	must(t, err)
	b := backup(t, a)
	run, err := b.Start(within(t, 2*bound), "-o", "json")
	must(t, err)
	for _, claim := range []string{"media", "archive"} {
		_, err := c.Stack.Driver().WaitCalls(within(t, bound), driver.CallFilter{Method: "CreateSnapshot", Claim: a.Namespace + "/" + claim}, 1)
		must(t, err)
	}
	crash(t, stack.SnapshotController)
	crash(t, stack.Snapshotter)
	crash(t, stack.APIServer)
	if ended(run) {
		t.Fatal("the backup did not wait for cuts")
	}
	slow := driver.Script{Script: backuptest.Script{ReadyAfter: 3 * time.Second}}
	script("media", slow)
	script("archive", slow)
	awaitPhase(t, a, b.Name, phase.WaitingForPluginOperations)
	script("media", hang) // whoever asks whether it is ready waits
	script("archive", hang)
	crash(t, stack.Etcd)
	crash(t, stack.Driver)
	must(t, c.Stack.Pause(t.Context(), stack.APIServer))
	stand(t, 5*time.Second)
	must(t, c.Stack.Resume(t.Context(), stack.APIServer))
	must(t, c.Stack.Start(within(t, bound), stack.APIServer))
	if ended(run) {
		t.Fatal("the backup did not wait for readiness")
	}
	script("media", slow)
	script("archive", slow)
	exit, err := run.Wait(within(t, bound))
	must(t, err)
	released(t, a, completed(t, exit))
	thawed(t, a)
	events, err := c.Stack.Audit().Events(mark, a.User)
	must(t, err)
	codes := map[int]int{}
	for _, e := range events {
		codes[e.Code]++
	}
	t.Logf("answers by code: %v", codes)
}

// The API server is away when a pod's freeze must end. The pod is thawed once it is back, long before the backup ends, and
// the volume that was not cut in time is reported. S5, S8.
func testThawWithoutServer(t *testing.T) {
	t.Helper()
	c := cluster(t)
	a := application(t, "thaw", app.Spec{Pods: []app.Pod{{Name: "db-0", Claims: []string{"data"}, Hooked: true}}})
	must(t, c.Stack.Driver().SetScript(t.Context(), a.Pattern(), driver.Script{HangCreate: true}))
	run, err := backup(t, a).Start(within(t, bound), "-o", "json", "-max-freeze", "6s", "-timeout", "2m")
	must(t, err)
	_, err = c.Stack.Driver().WaitCalls(within(t, bound), driver.CallFilter{Method: "CreateSnapshot", Claim: a.Pattern()}, 1)
	must(t, err)
	must(t, c.Stack.Kill(t.Context(), stack.APIServer))
	stand(t, 8*time.Second)
	must(t, c.Stack.Start(within(t, bound), stack.APIServer))
	back := time.Now()
	// The driver hangs all the while: only what thaws the pod is waited for.
	record, err := c.Stack.Kubelet().AwaitRecord(within(t, time.Minute), func(r kubelet.Record) bool { return len(thaws(r.In(a.Namespace))) > 0 })
	must(t, err)
	t.Logf("thawed %v after the server was back", thaws(record.In(a.Namespace))[0].Started.Sub(back))
	must(t, c.Stack.Driver().ClearScripts(t.Context(), a.Pattern()))
	exit, err := run.Wait(within(t, bound))
	must(t, err)
	report := completed(t, exit)
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], a.Namespace+"/data: the snapshot was not cut while the pod was frozen") {
		t.Errorf("warnings %q, want one that names the volume", report.Warnings)
	}
	released(t, a, report)
	thawed(t, a)
}

// crash kills a component and starts it again.
func crash(t *testing.T, component string) {
	t.Helper()
	must(t, cluster(t).Stack.Kill(within(t, bound), component))
	must(t, cluster(t).Stack.Start(within(t, bound), component))
}

// stand lets time pass in which something is away.
func stand(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// awaitPhase waits until the backup object is in a phase.
func awaitPhase(t *testing.T, a *app.App, name, want string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, bound, true, func(ctx context.Context) (bool, error) {
		object, err := cluster(t).Core.CoreV1().ConfigMaps(a.Namespace).Get(ctx, "sheetanchor-"+name, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // a server that has just started may say anything
		}
		last = object.Data["phase"]
		return last == want, nil
	})
	if err != nil {
		t.Fatalf("await phase %s: %v; it is %q", want, err, last)
	}
}
