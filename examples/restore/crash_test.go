package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
	"github.com/sheetanchor/sheetanchor/internal/race"
	"github.com/sheetanchor/sheetanchor/operations"
)

// world is what outlives a process: the cluster, the storage and the records.
type world struct {
	t       *testing.T
	cluster *backuptest.Cluster
	driver  *backuptest.Driver
	store   *operations.MemoryStore
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, store: operations.NewMemoryStore(),
		cluster: backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(backuptest.StorageClass{Name: "fast", Driver: "csi.example.dev"})}),
		driver:  backuptest.NewDriver(backuptest.DriverOptions{Names: []string{"csi.example.dev"}, File: recorded(t) + "/driver.json"}),
	}
	if err := operations.NewSlot(w.store, "backups/demo/demo-volumeinfo.json.gz").Save(t.Context(), recordedVolumes); err != nil {
		t.Fatal(err)
	}
	stop := startControllers(t.Context(), w.cluster.Config(), w.driver)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// live is one process, whose effects are writes of the API and of the store.
func (w *world) live(ctx context.Context, p *backuptest.Process, args ...string) (result, int, error) {
	w.t.Helper()
	opts, err := parseOptions(append([]string{"-o", "json", "-store", "memory"}, args...), &bytes.Buffer{})
	if err != nil {
		w.t.Fatal(err)
	}
	config := w.cluster.Config()
	config.QPS = -1
	env, err := connect(p.Config(config))
	if err != nil {
		w.t.Fatal(err)
	}
	var stdout bytes.Buffer
	code, err := restoreIn(ctx, opts, env, backuptest.NewStore(w.store).In(p), &stdout)
	var r result
	if err == nil {
		if jsonErr := json.Unmarshal(stdout.Bytes(), &r); jsonErr != nil {
			w.t.Fatalf("output is not one JSON object: %v\n%s", jsonErr, stdout.String())
		}
	}
	return r, code, err
}

// check holds what must be true after a restore has ended Completed, whatever happened on the way.
func (w *world) check() {
	w.t.Helper()
	client, err := dynamic.NewForConfig(w.cluster.Config())
	if err != nil {
		w.t.Fatal(err)
	}
	count := func(group, resource string) int {
		list, err := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		return len(list.Items)
	}
	if claims, volumes := count("", "persistentvolumeclaims"), count("", "persistentvolumes"); claims != 7 || volumes != 7 {
		w.t.Errorf("%d claims and %d volumes, want 7 of each", claims, volumes)
	}
	if left := count("snapshot.storage.k8s.io", "volumesnapshots") + count("snapshot.storage.k8s.io", "volumesnapshotcontents"); left != 0 {
		w.t.Errorf("%d snapshot objects are left in the cluster", left)
	}
	if got := len(w.driver.Snapshots()); got != 7 {
		w.t.Errorf("the storage has %d snapshots, want the backup's 7", got)
	}
}

// F2, F6, P4, P6, X7: a process that ends after any single write is followed by one that completes the restore; nothing is
// made twice, and the backup's physical snapshots stay.
func TestCrashAfterEveryWrite(t *testing.T) {
	t.Parallel()
	writes := 0
	t.Run("none", func(t *testing.T) { writes = crashAt(t, 0) })
	if writes < 40 {
		t.Fatalf("a whole run makes %d writes, want at least 40: are they effects of the process?", writes)
	}
	for k := 1; k <= writes; k += race.Scaled(1, 3) {
		t.Run(fmt.Sprintf("write %d", k), func(t *testing.T) {
			t.Parallel()
			crashAt(t, k)
		})
	}
}

// crashAt restores with a first process that ends after its kth write, and returns how many writes that began. No process
// ends before its time if k is 0.
func crashAt(t *testing.T, k int) (first int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var r result
		var code, processes int
		first, processes = programtest.CrashAt(t, k, func(ctx context.Context, p *backuptest.Process) (err error) {
			r, code, err = w.live(ctx, p, "-map", "shop=market")
			return err
		})
		if code != program.ExitCompleted {
			t.Fatalf("process %d: exit %d, phase %s, want 0 and Completed", processes, code, r.Phase)
		}
		checkVolumes(t, r, "market", 7)
		w.check()
		if err := w.cluster.Log().None(backuptest.Request{Namespace: "shop"}); err != nil { // fin-12
			t.Error(err)
		}
	})
	return first
}
