package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// What the driver refuses ends as its own volume's failure with its own words, and holds up no other.
func testDriverErrors(t *testing.T) {
	t.Helper()
	const words = "the pool is gone"
	tests := map[string]struct {
		reason string
		fault  backuptest.DriverError
		code   int
	}{
		"final":   {reason: "S6, snap-24: a code that the program calls final ends the wait at once", fault: backuptest.DriverError{Code: "InvalidArgument", Text: words}, code: app.CodePartiallyFailed},
		"lasting": {reason: "S6, S7: an error that is none ends with the timeout", fault: backuptest.DriverError{Code: "Internal", Text: words}, code: app.CodePartiallyFailed},
		"passing": {reason: "S6: an error that passes is no end", fault: backuptest.DriverError{Code: "Internal", Text: words, Times: 2}, code: app.CodeCompleted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := application(t, "error-"+name, shop())
			script := driver.Script{Script: backuptest.Script{Errors: []backuptest.DriverError{test.fault}}}
			must(t, cluster(t).Stack.Driver().SetScript(t.Context(), a.Namespace+"/media", script))
			args := []string{"-timeout", "30s"}
			if test.code == app.CodeCompleted {
				args = nil // the driver is asked again after 1 and 2 s, and the machine may be slow
			}
			exit, err := backup(t, a).Run(within(t, bound), args...)
			must(t, err)
			if test.code == app.CodeCompleted {
				released(t, a, completed(t, exit))
				return
			}
			report := partial(t, exit)
			failed(t, report, words, "media")
			clean(t, a)
			thawed(t, a)
			cuts, err := cluster(t).Stack.Driver().Cuts(t.Context(), a.Namespace+"/media")
			must(t, err)
			if len(cuts) > 0 {
				t.Errorf("the driver cut what it refused: %v", cuts)
			}
		})
	}
}

// partial is the report of a run that ended PartiallyFailed.
func partial(t *testing.T, exit app.Exit) app.Report {
	t.Helper()
	report, err := exit.Report()
	must(t, err)
	if exit.Code != app.CodePartiallyFailed || report.Phase != phase.PartiallyFailed {
		t.Fatalf("exit code %d, phase %s, errors %q, standard error %q", exit.Code, report.Phase, report.Errors, exit.Stderr)
	}
	return report
}

// failed checks that these claims failed with the words, in their own records and among the errors, and the others did not.
func failed(t *testing.T, r app.Report, words string, claims ...string) {
	t.Helper()
	for _, s := range r.Snapshots {
		if !slices.Contains(claims, s.PVC) {
			if !s.ReadyToUse || s.Handle == "" || s.Error != "" {
				t.Errorf("%s has handle %q, is ready: %t, error %q", s.PVC, s.Handle, s.ReadyToUse, s.Error)
			}
			continue
		}
		if s.ReadyToUse || !strings.Contains(s.Error, words) {
			t.Errorf("%s is ready: %t, error %q, want %q in it", s.PVC, s.ReadyToUse, s.Error, words)
		}
	}
	if !slices.ContainsFunc(r.Errors, func(e string) bool { return strings.Contains(e, words) }) {
		t.Errorf("no %q among the errors %q", words, r.Errors)
	}
}

// A plan is printed and nothing is written; a backup that has ended is not taken again.
func testWritesNothing(t *testing.T) {
	t.Helper()
	a := application(t, "plan", shop())
	b := backup(t, a)
	exit, err := b.Run(within(t, bound), "-plan")
	must(t, err)
	if exit.Code != app.CodeCompleted || !strings.Contains(exit.Stdout, `"db-wal"`) {
		t.Errorf("exit code %d, output %q, standard error %q", exit.Code, exit.Stdout, exit.Stderr)
	}
	readOnly(t, a, audit.Mark{})

	exit, err = b.Run(within(t, bound))
	must(t, err)
	first := completed(t, exit)
	released(t, a, first)
	mark, err := cluster(t).Stack.Audit().Mark()
	must(t, err)
	exit, err = b.Run(within(t, bound))
	must(t, err)
	again := completed(t, exit)
	if len(again.Transitions)+len(again.Batches) > 0 {
		t.Errorf("P2: the run after the end made transitions %v, batches %v", again.Transitions, again.Batches)
	}
	readOnly(t, a, mark)
	released(t, a, again)
}

// readOnly checks that the application's user has only read since the mark.
func readOnly(t *testing.T, a *app.App, since audit.Mark) {
	t.Helper()
	events, err := cluster(t).Stack.Audit().Events(since, a.User)
	must(t, err)
	if len(events) == 0 {
		t.Error("the user asked for nothing")
	}
	for _, e := range events {
		if !slices.Contains([]string{"get", "list", "watch"}, e.Verb) || e.ResourcePath() == "pods/exec" {
			t.Errorf("written: %s", e)
		}
	}
}

// A claim that asks for a class of another driver is told before anything is written; a class that becomes another driver's
// while the pod is frozen is diagnosed, bounded by the timeout, and what was made is not left behind. S7, S12.
func testClassOfAnother(t *testing.T) {
	t.Helper()
	class := map[string]string{"sheetanchor.io/csi-volumesnapshot-class": stack.OtherSnapshotClass}
	t.Run("named", func(t *testing.T) {
		t.Parallel()
		a := application(t, "class", app.Spec{Claims: []app.Claim{{Name: "data", Annotations: class}}})
		exit, err := backup(t, a).Run(within(t, bound))
		must(t, err)
		if exit.Code != app.CodeOther || !strings.Contains(exit.Stderr, stack.OtherSnapshotClass) || !strings.Contains(exit.Stderr, "data") {
			t.Errorf("exit code %d, standard error %q, want the class and the claim", exit.Code, exit.Stderr)
		}
		readOnly(t, a, audit.Mark{})
	})
	t.Run("replaced", func(t *testing.T) {
		t.Parallel()
		c := cluster(t)
		spec := shop()
		a := application(t, "turned", spec)
		class := &snapshotv1.VolumeSnapshotClass{
			ObjectMeta: metav1.ObjectMeta{Name: a.Namespace}, Driver: stack.DriverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		}
		classes := c.Snapshots.SnapshotV1().VolumeSnapshotClasses()
		_, err := classes.Create(t.Context(), class, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { _ = classes.Delete(within(t, bound), class.Name, metav1.DeleteOptions{}) })
		must(t, a.Add(t.Context(), app.Spec{Claims: []app.Claim{{Name: "turned", Annotations: map[string]string{"sheetanchor.io/csi-volumesnapshot-class": class.Name}}}}))
		pattern := a.Namespace + "/db-0"
		must(t, c.Stack.Kubelet().AddScript(t.Context(), kubelet.Script{Pattern: pattern, Command: app.PostHook, Delay: 4 * time.Second}))
		run, err := backup(t, a).Start(within(t, bound), "-o", "json", "-timeout", "15s")
		must(t, err)
		awaitHook(t, a, app.PostHook, false)
		must(t, classes.Delete(t.Context(), class.Name, metav1.DeleteOptions{}))
		class.Driver = stack.OtherDriverName
		_, err = classes.Create(t.Context(), class, metav1.CreateOptions{})
		must(t, err)
		exit, err := run.Wait(within(t, bound))
		must(t, err)
		report := partial(t, exit)
		failed(t, report, string(csisnapshot.DiagnosisClassOfAnother), "turned")
		t.Logf("errors: %q after %.1f s", report.Errors, report.Seconds)
	})
}

// awaitHook waits until a hook of the application has begun, or ended.
func awaitHook(t *testing.T, a *app.App, command string, ended bool) {
	t.Helper()
	_, err := cluster(t).Stack.Kubelet().AwaitRecord(within(t, bound), func(r kubelet.Record) bool {
		return slices.ContainsFunc(r.In(a.Namespace), func(e kubelet.Exec) bool {
			return e.Command[0] == command && (!ended || !e.Ended.IsZero())
		})
	})
	must(t, err)
}
