package e2e_test

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

// shop is a small application: a pod with hooks, one without, and a volume of no pod.
func shop() app.Spec {
	return app.Spec{
		Pods:   []app.Pod{{Name: "db-0", Claims: []string{"db-data", "db-wal"}, Hooked: true}, {Name: "web-0", Claims: []string{"media"}}},
		Claims: app.Named("archive"),
	}
}

// A backup ends Completed with a handle per volume, the one that the driver gave, whether the driver is instant, takes its
// time to cut or to be ready. Afterwards the driver holds every snapshot and the cluster no object of one.
func testCompleted(t *testing.T) {
	t.Helper()
	tests := map[string]struct {
		reason string
		script backuptest.Script
		args   []string
	}{
		"instant": {reason: "S2, S10, F5, X3: cut and ready at once; what is released stays at the driver"},
		"slow-cut": {
			reason: "S2, S5: the freeze lasts until the content has a handle",
			script: backuptest.Script{CutAfter: 2 * time.Second},
		},
		"slow-ready": {
			reason: "S2, S11: a snapshot that is cut and not ready is an operation that goes on",
			script: backuptest.Script{ReadyAfter: 20 * time.Second},
		},
		"poll": {
			reason: "S1: by polling the result is the same",
			script: backuptest.Script{CutAfter: time.Second, ReadyAfter: time.Second},
			args:   []string{"-wait", "poll"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := application(t, name, shop())
			must(t, cluster(t).Stack.Driver().SetScript(t.Context(), a.Pattern(), driver.Script{Script: test.script}))
			mark, err := cluster(t).Stack.Audit().Mark()
			must(t, err)
			exit, err := backup(t, a).Run(within(t, bound), test.args...)
			must(t, err)
			report := completed(t, exit)
			if got := phases(report); !slices.Equal(got[:1], []string{phase.InProgress}) || got[len(got)-1] != phase.Completed {
				t.Errorf("the phase went to %v", got)
			}
			for _, s := range report.Snapshots {
				if !s.ReadyToUse || s.Error != "" {
					t.Errorf("%s is ready: %t, error %q", s.PVC, s.ReadyToUse, s.Error)
				}
			}
			released(t, a, report)
			thawed(t, a)
			if frozen := report.Frozen()["db-0"]; frozen < test.script.CutAfter.Seconds() {
				t.Errorf("frozen for %.3f s, and the driver took %v to cut", frozen, test.script.CutAfter)
			}
			// What the program says it sent is what the server got.
			cluster(t).Stack.Audit().AssertCounts(t, counted(report), mark, a.User, audit.NoWatch, audit.NoDiscovery)
			t.Logf("%s: %.1f s, requests %v", test.reason, report.Seconds, report.Requests)
		})
	}
}

// completed is the report of a run that ended Completed.
func completed(t *testing.T, exit app.Exit) app.Report {
	t.Helper()
	report, err := exit.Report()
	must(t, err)
	if exit.Code != app.CodeCompleted || report.Phase != phase.Completed {
		t.Fatalf("exit code %d, phase %s, errors %q, standard error %q", exit.Code, report.Phase, report.Errors, exit.Stderr)
	}
	return report
}

func phases(r app.Report) []string {
	var to []string
	for _, step := range r.Transitions {
		to = append(to, step.To)
	}
	return to
}

// counted are a run's requests as far as the audit log can tell them: without watches, of which some never reach the server,
// and without discovery.
func counted(r app.Report) map[string]int {
	counts := maps.Clone(r.Requests)
	maps.DeleteFunc(counts, func(key string, _ int) bool {
		return strings.HasPrefix(key, "watch ") || strings.HasPrefix(key, "get /")
	})
	return counts
}

// released checks that each volume of the report was cut exactly once ever, that the driver holds it under the handle that
// the report gives, and that the cluster has no object of a snapshot left.
func released(t *testing.T, a *app.App, r app.Report) {
	t.Helper()
	held := map[string]string{}
	cuts, err := cluster(t).Stack.Driver().Cuts(t.Context(), a.Pattern())
	must(t, err)
	for _, cut := range cuts {
		claim := strings.TrimPrefix(cut.Claim, a.Namespace+"/")
		if held[claim] != "" {
			t.Errorf("S9: %s was cut twice: %s and %s", claim, held[claim], cut.ID)
		}
		if !cut.Held {
			t.Errorf("S10: the snapshot of %s was deleted", claim)
		}
		held[claim] = cut.ID
	}
	if diff := cmp.Diff(held, r.Handles()); diff != "" {
		t.Errorf("handles at the driver (-) and in the report (+):\n%s", diff)
	}
	if len(r.Handles()) != len(r.Snapshots) {
		t.Errorf("%d handles of %d volumes", len(r.Handles()), len(r.Snapshots))
	}
	clean(t, a)
}

// clean checks that no object of a snapshot is left in the cluster.
func clean(t *testing.T, a *app.App) {
	t.Helper()
	snapshots, err := a.Snapshots(t.Context())
	must(t, err)
	for _, s := range snapshots {
		t.Errorf("VolumeSnapshot %s is left", s.Name)
	}
	contents, err := a.Contents(t.Context())
	must(t, err)
	for _, c := range contents {
		t.Errorf("VolumeSnapshotContent %s is left", c.Name)
	}
}

// thawed checks that every pod whose freeze had begun was thawed afterwards.
func thawed(t *testing.T, a *app.App) {
	t.Helper()
	record, err := cluster(t).Stack.Kubelet().Record(t.Context())
	must(t, err)
	all := record.In(a.Namespace)
	for _, pre := range all {
		since := pre.Started
		if !pre.Ended.IsZero() {
			since = pre.Ended
		}
		thaws := func(e kubelet.Exec) bool {
			return e.Pod == pre.Pod && e.Command[0] == app.PostHook && e.ExitCode == 0 && !e.Started.Before(since)
		}
		if pre.Command[0] == app.PreHook && !slices.ContainsFunc(all, thaws) {
			t.Errorf("S5: frozen and not thawed: %+v of %+v", pre, all)
		}
	}
}

// all-9: S1: X3: a user who may read and not watch: the backup polls, and ends as it would.
func testWithoutWatch(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(exampleRoles)
	must(t, err)
	roles := filepath.Join(t.TempDir(), "rbac.yaml")
	must(t, os.WriteFile(roles, bytes.ReplaceAll(data, []byte(", watch"), nil), 0o600))
	a := applicationAs(t, "no-watch", roles, shop())
	must(t, cluster(t).Stack.Driver().SetScript(t.Context(), a.Pattern(), driver.Script{Script: backuptest.Script{CutAfter: time.Second, ReadyAfter: time.Second}}))
	exit, err := backup(t, a).Run(within(t, bound))
	must(t, err)
	report := completed(t, exit)
	released(t, a, report)
	thawed(t, a)
	events, err := cluster(t).Stack.Audit().Events(audit.Mark{}, a.User, audit.Event.IsWatch)
	must(t, err)
	if len(events) == 0 {
		t.Error("the user never tried to watch")
	}
	for _, e := range events {
		if e.Code != http.StatusForbidden {
			t.Errorf("%s was answered with %d", e, e.Code)
		}
	}
	t.Logf("without watch: %.1f s, requests %v", report.Seconds, report.Requests)
}

// What all these runs asked for is what the example's rbac.yaml allows: nothing was refused that mattered, nothing in it is
// of no use. X3.
func testRoles(t *testing.T) {
	t.Helper()
	unneeded := []string{
		"create pods/exec", // the server asks for it besides get when a hook is run over WebSocket
		"patch volumesnapshots.snapshot.storage.k8s.io", // by an operation that is canceled, at the poller's deadline of hours
	}
	roles, err := app.ReadRoles(exampleRoles)
	must(t, err)
	var granted []rbacv1.PolicyRule
	for _, role := range roles {
		granted = append(granted, role.Rules...)
	}
	events, err := cluster(t).Stack.Audit().Events(audit.Mark{}, "", audit.NoDiscovery, func(e audit.Event) bool {
		_, ours := exampleUsers.Load(e.User)
		return ours
	})
	must(t, err)
	unused, missing := audit.CompareRules(granted, audit.Rules(events))
	if diff := cmp.Diff(unneeded, unused); diff != "" {
		t.Errorf("allowed and not used, expected (-) and found (+):\n%s", diff)
	}
	if len(missing) > 0 {
		t.Errorf("asked for and not allowed: %q", missing)
	}
	for _, e := range events {
		if e.Code == http.StatusForbidden {
			t.Logf("refused: %s at %v", e, e.Received)
		}
	}
	t.Logf("%d requests, by verb and resource: %v", len(events), audit.Count(events))
}

// The tests that need no stack of their own run side by side, on controllers that are not held back.
func TestBackup(t *testing.T) {
	t.Parallel()
	busy(t)
	must(t, rates(t.Context(), hurried()))
	t.Run("together", func(t *testing.T) {
		t.Run("completed", func(t *testing.T) { t.Parallel(); testCompleted(t) })
		t.Run("errors", func(t *testing.T) { t.Parallel(); testDriverErrors(t) })
		t.Run("writes-nothing", func(t *testing.T) { t.Parallel(); testWritesNothing(t) })
		t.Run("without-watch", func(t *testing.T) { t.Parallel(); testWithoutWatch(t) })
		t.Run("kills", func(t *testing.T) { t.Parallel(); testKills(t) })
		t.Run("class-of-another", func(t *testing.T) { t.Parallel(); testClassOfAnother(t) })
	})
	if !t.Failed() {
		t.Run("roles", testRoles)
	}
}
