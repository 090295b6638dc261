package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
)

// With -kubeconfig the program talks to whatever server the file names, here one over a socket. Pods without hooks: the
// server has no containers; podexec's own tests run commands.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	w, _, file := serve(t, bytes.ReplaceAll(demo, []byte("hook.backup.velero.io"), []byte("no.example.dev")))
	store := t.TempDir()
	stdout, stderr, code := runHere(t, "-kubeconfig", file, "-namespace", "shop", "-store", store, "-o", "json")
	if code != program.ExitCompleted {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	if r := decode(t, stdout); r.Phase != phase.Completed || len(r.Snapshots) != 7 {
		t.Errorf("phase %s with %d snapshots, want Completed with 7", r.Phase, len(r.Snapshots))
	}
	w.check(t.Context())
	if _, err := os.Stat(filepath.Join(store, "cluster.json")); err == nil {
		t.Error("a run on a real cluster wrote cluster.json")
	}

	_, stderr, code = runHere(t, "-kubeconfig", file, "-namespace", "nowhere", "-store", store)
	if code != program.ExitOther || !strings.Contains(stderr, `namespace "nowhere" does not exist`) {
		t.Errorf("exit %d, stderr %q, want 1 and the namespace named", code, stderr)
	}
}

// The requests that the program tells are all that the server gets, those that run hooks too, here in vain.
func TestRequestsOfHooks(t *testing.T) {
	t.Parallel()
	_, served, file := serve(t, demo)
	stdout, stderr, code := runHere(t, "-kubeconfig", file, "-namespace", "shop", "-store", t.TempDir(), "-o", "json")
	if code != program.ExitPartiallyFailed {
		t.Fatalf("exit %d, stderr %q, want 2: no hook can run", code, stderr)
	}
	told := decode(t, stdout).Requests
	if told["get pods/exec"] == 0 {
		t.Errorf("no exec among the requests: %v", told)
	}
	if diff := cmp.Diff(served.Requests(), told); diff != "" {
		t.Errorf("requests that came (-) and that are told (+):\n%s", diff)
	}
}

// serve serves a cluster with objects over a socket, counts what comes, and returns a kubeconfig for it.
func serve(t *testing.T, objects []byte) (w *world, served *apirequest.Counter, kubeconfig string) {
	t.Helper()
	w = &world{
		t: t, cluster: backuptest.New(t), store: operations.NewMemoryStore(),
		driver: backuptest.NewDriver(backuptest.DriverOptions{Names: []string{"csi.example.dev"}}),
	}
	if _, err := w.cluster.Load(bytes.NewReader(objects)); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(w.config())
	if err != nil {
		t.Fatal(err)
	}
	controller := backuptest.NewSnapshotController(client, w.driver, backuptest.ControllerOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = controller.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	served, kubeconfig = programtest.Serve(t, w.cluster)
	return w, served, kubeconfig
}
