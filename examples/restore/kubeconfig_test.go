package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
	"github.com/sheetanchor/sheetanchor/phase"
)

// fin-12: with -kubeconfig the program talks to whatever server the file names, here one over a socket, restores there, asks
// nothing of the old namespace, and tells all the requests that it sent.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	served, file := programtest.Serve(t, w.cluster)
	store := recorded(t)
	stdout, stderr, code := runHere(t, "-kubeconfig", file, "-class", "fast", "-map", "shop=market", "-store", store, "-o", "json")
	if code != 0 {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	r := decode(t, stdout)
	if r.Phase != phase.Completed {
		t.Errorf("phase %s, want Completed", r.Phase)
	}
	checkVolumes(t, r, "market", 7)
	w.check()
	if err := w.cluster.Log().None(backuptest.Request{Namespace: "shop"}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(served.Requests(), r.Requests); diff != "" {
		t.Errorf("requests that came (-) and that are told (+):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(store, "cluster.json")); err == nil {
		t.Error("a run on a real cluster wrote cluster.json")
	}
}
