package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

// world is what outlives a process: the cluster, the storage and the records. Use it inside a synctest bubble.
type world struct {
	t       *testing.T
	cluster *backuptest.Cluster
	driver  *backuptest.Driver
	store   *operations.MemoryStore
}

func newWorld(t *testing.T, scripts map[string]backuptest.Script) *world {
	t.Helper()
	w := &world{
		t: t, cluster: backuptest.New(t), store: operations.NewMemoryStore(),
		driver: backuptest.NewDriver(backuptest.DriverOptions{Names: []string{"csi.example.dev"}}),
	}
	if _, err := w.cluster.Load(bytes.NewReader(demo)); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(w.config())
	if err != nil {
		t.Fatal(err)
	}
	controller := backuptest.NewSnapshotController(client, w.driver, backuptest.ControllerOptions{Scripts: scripts})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = controller.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return w
}

func (w *world) config() *rest.Config {
	config := w.cluster.Config()
	config.QPS = -1
	return config
}

func (w *world) core() kubernetes.Interface {
	w.t.Helper()
	core, err := kubernetes.NewForConfig(w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	return core
}

// troubles say which effects of a process meet trouble.
type troubles = map[int]backuptest.Trouble

// run is one process, which meets the troubles.
func (w *world) run(at troubles, opts options) (result, int, error) {
	w.t.Helper()
	return w.runOn(at, opts, w.store)
}

// runOn is run on a store that may be troubled.
func (w *world) runOn(at troubles, opts options, store operations.Store) (result, int, error) {
	w.t.Helper()
	ctx, p := backuptest.NewProcess(w.t.Context(), at)
	defer p.Kill()
	return w.live(ctx, p, opts, store)
}

// live is what a process does until it ends. Its effects are writes of the API, of the store and of hooks.
func (w *world) live(ctx context.Context, p *backuptest.Process, opts options, store operations.Store) (result, int, error) {
	w.t.Helper()
	quiescer, err := newEmbeddedQuiescer(w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	env := &environment{config: p.Config(w.config()), namespace: "shop", quiescer: processQuiescer{quiescer, p}}
	env.count()
	var stdout bytes.Buffer
	code, err := backupIn(ctx, opts, env, backuptest.NewStore(store).In(p), &stdout)
	var r result
	if err == nil {
		if jsonErr := json.Unmarshal(stdout.Bytes(), &r); jsonErr != nil {
			w.t.Fatalf("output is not one JSON object: %v\n%s", jsonErr, stdout.String())
		}
	}
	return r, code, err
}

// processQuiescer makes the hooks effects of a process.
type processQuiescer struct {
	csisnapshot.Quiescer

	p *backuptest.Process
}

func (q processQuiescer) Exec(ctx context.Context, pod csisnapshot.PodRef, hook csisnapshot.Hook) error {
	return q.p.Do(ctx, hook.Name+" "+pod.Name, func(ctx context.Context) error { return q.Quiescer.Exec(ctx, pod, hook) })
}

func testOptions(t *testing.T, args ...string) options {
	t.Helper()
	opts, err := parseOptions(append([]string{"-o", "json", "-store", "memory"}, args...), &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// check holds what must be true after a backup has ended Completed, whatever happened on the way.
func (w *world) check(ctx context.Context) {
	w.t.Helper()
	perClaim := map[string]int{}
	for _, s := range w.driver.Snapshots() {
		perClaim[s.Claim.Name]++
	}
	for _, claim := range []string{"db-data", "db-wal", "app-cache", "app-data", "app-logs", "media", "archive"} {
		if perClaim[claim] != 1 {
			w.t.Errorf("the storage holds %d snapshots of claim %s, want 1", perClaim[claim], claim)
		}
		delete(perClaim, claim)
	}
	if len(perClaim) > 0 {
		w.t.Errorf("the storage holds snapshots of claims that have none: %v", perClaim)
	}
	w.checkThawed(ctx)
	w.checkReleased(ctx)
}

func (w *world) checkThawed(ctx context.Context) {
	w.t.Helper()
	pods, err := w.core().CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Annotations[frozenAnnotation] == "true" {
			w.t.Errorf("pod %s is frozen still", pod.Name)
		}
	}
}

func (w *world) checkReleased(ctx context.Context) {
	w.t.Helper()
	client, err := dynamic.NewForConfig(w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, resource := range []string{"volumesnapshots", "volumesnapshotcontents"} {
		left, err := client.Resource(schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range left.Items {
			w.t.Errorf("%s %s is left in the cluster", resource, o.GetName())
		}
	}
}
