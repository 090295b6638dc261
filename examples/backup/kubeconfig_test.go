package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
)

// With -kubeconfig the program talks to whatever server the file names, here one over a socket. Pods without hooks: the
// server has no containers; podexec's own tests run commands.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	w := &world{
		t: t, cluster: backuptest.New(t), store: operations.NewMemoryStore(),
		driver: backuptest.NewDriver(backuptest.DriverOptions{Names: []string{"csi.example.dev"}}),
	}
	if _, err := w.cluster.Load(bytes.NewReader(bytes.ReplaceAll(demo, []byte("hook.backup.velero.io"), []byte("no.example.dev")))); err != nil {
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
	server := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     w.cluster.RoundTripper(),
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "cluster"}) },
	})
	defer server.Close()
	defer group.Wait()
	defer cancel()

	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	stdout, stderr, code := runHere(t, "-kubeconfig", file, "-namespace", "shop", "-store", store, "-o", "json")
	if code != exitCompleted {
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
	if code != exitOther || !strings.Contains(stderr, `namespace "nowhere" does not exist`) {
		t.Errorf("exit %d, stderr %q, want 1 and the namespace named", code, stderr)
	}
}
