package reconciler_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/reconciler"
)

// reconcile calls the reconciler as a workqueue does: again when it asks for it, and soon after an error.
func reconcile(ctx context.Context, config *rest.Config) error {
	r := reconciler.Reconciler{Client: dynamic.NewForConfigOrDie(config)}
	for {
		after, err := r.Reconcile(ctx, "shop", "nightly")
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			time.Sleep(time.Second)
		case after == 0:
			return nil
		default:
			time.Sleep(after)
		}
	}
}

func TestCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t, backuptest.Options{Resources: kinds, Objects: objects})
		driver := backuptest.RunSnapshots(t, cluster, slow)
		start := time.Now()
		if err := reconcile(t.Context(), cluster.Config()); err != nil {
			t.Fatal(err)
		}
		if got := len(driver.Snapshots()); got != 1 {
			t.Errorf("the storage holds %d snapshots, want one", got)
		}
		if took := time.Since(start); took < 20*time.Minute { // of virtual time
			t.Errorf("done after %v, before the snapshot could be ready", took)
		}
	})
}

func TestRidesOutTrouble(t *testing.T) {
	for name, fault := range map[string]backuptest.Fault{
		"throttled":              {Code: 429, RetryAfter: time.Second, Times: 20},
		"down for a minute":      {Action: backuptest.FaultRefuse, For: time.Minute},
		"forbidden for a moment": {Code: 403, For: 2 * time.Second},
		"an answer is lost":      {Verb: "create", Resource: "volumesnapshots", Nth: 1, Action: backuptest.FaultLostAnswer},
		"one in five fails":      {Code: 500, Chance: 0.2, Seed: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster := backuptest.New(t, backuptest.Options{Resources: kinds, Objects: objects})
			driver := backuptest.RunSnapshots(t, cluster, slow)
			cluster.Fault(fault)
			if err := reconcile(t.Context(), cluster.Config()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := len(driver.Snapshots()); got != 1 {
				t.Errorf("%s: the storage holds %d snapshots, want one", name, got)
			}
		})
	}
}

func TestAsksForLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t, backuptest.Options{Resources: kinds, Objects: objects})
		backuptest.RunSnapshots(t, cluster, slow)
		operator := cluster.ConfigFor("operator", // who may do this, and nothing else
			rbacv1.PolicyRule{APIGroups: []string{"example.dev"}, Resources: []string{"backups"}, Verbs: []string{"get"}},
			rbacv1.PolicyRule{APIGroups: []string{"example.dev"}, Resources: []string{"backups/status"}, Verbs: []string{"update"}},
			rbacv1.PolicyRule{APIGroups: []string{"snapshot.storage.k8s.io"}, Resources: []string{"volumesnapshots"}, Verbs: []string{"get", "create"}},
		)
		for _, run := range []string{"first run", "second run"} {
			cluster.Mark(run)
			if err := reconcile(t.Context(), operator); err != nil {
				t.Fatal(err)
			}
		}
		log := cluster.Log().By("operator")
		backuptest.Check(t,
			log.AtMost(1, backuptest.Request{Verb: "create"}),
			log.None(backuptest.Request{Namespace: "kube-system"}),
			log.After("second run").NoWrites(),
			log.After("second run").AtMost(1, backuptest.Request{}),
		)
	})
}

func TestBeginsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The snapshot of an earlier process is cut, and has an old error beside its handle.
		snapshot := backuptest.Snapshot{
			Namespace: "shop", Name: "backup-1", Claim: "data", State: backuptest.SnapshotCut, Error: "the array was busy",
		}
		cluster := backuptest.New(t, backuptest.Options{Resources: kinds, Objects: append(
			backuptest.Objects(snapshot, backuptest.Claim{Namespace: "shop", Name: "data"}), backup("1", "InProgress"),
		)})
		after, err := reconciler.Reconciler{Client: dynamic.NewForConfigOrDie(cluster.Config())}.Reconcile(t.Context(), "shop", "nightly")
		if err != nil || after == 0 {
			t.Errorf("Reconcile = %v, %v, want that it waits: an old error says nothing", after, err)
		}
		backuptest.Check(t, cluster.Log().NoWrites())
	})
}

// The Go code of the guide stands in a file of this folder or in an example of backuptest, so that it compiles and runs.
func TestGuide(t *testing.T) {
	var code strings.Builder
	for _, pattern := range []string{"*.go", "../../backuptest/example_*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code.WriteString(read(t, file))
		}
	}
	for _, page := range []string{"testing.md", "api-server.md"} {
		blocks := strings.Split(read(t, "../../docs/"+page), "```go\n")[1:]
		if page == "testing.md" && len(blocks) < 8 {
			t.Errorf("%s has %d blocks of Go code, want at least 8", page, len(blocks))
		}
		for _, block := range blocks {
			block, _, _ = strings.Cut(block, "```")
			if !strings.Contains(unindent(code.String()), unindent(block)) {
				t.Errorf("%s has code that no test has:\n%s", page, block)
			}
		}
	}
	if lines := strings.Count(read(t, "reconciler_test.go"), "\n"); lines > 40 {
		t.Errorf("reconciler_test.go has %d lines: the guide says 40", lines)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// unindent lets a page show the inside of a function.
func unindent(code string) string {
	var lines strings.Builder
	for line := range strings.Lines(code) {
		lines.WriteString(strings.TrimLeft(line, "\t"))
	}
	return lines.String()
}
