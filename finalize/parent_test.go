package finalize_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
)

// parent keeps the checkpoint in an annotation of the object whose work it is.
type parent struct{ core kubernetes.Interface }

func (p parent) Load(ctx context.Context) ([]byte, error) {
	cm, err := p.core.CoreV1().ConfigMaps("ops").Get(ctx, "nightly", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return []byte(cm.Data["checkpoint"]), nil
}

func (p parent) Save(ctx context.Context, data []byte) error {
	patch := []byte(`{"data":{"checkpoint":` + quoted(string(data)) + `}}`)
	_, err := p.core.CoreV1().ConfigMaps("ops").Patch(ctx, "nightly", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// fin-21, F7: the parent is deleted while a hook runs: the worker comes to its end by the bound, the hooks have run, and the
// report says that the checkpoint is lost.
func TestParentDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t, backuptest.Options{Objects: []runtime.Object{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "nightly"}, Data: map[string]string{"phase": "Finalizing"}},
		}})
		core := coreOf(t, cluster)
		ran := &log{}
		hooks := []finalize.Hook{
			{Name: "first", Run: func(ctx context.Context) error {
				ran.add("first")
				return core.CoreV1().ConfigMaps("ops").Delete(ctx, "nightly", metav1.DeleteOptions{})
			}},
			{Name: "second", After: []string{"first"}, Run: func(context.Context) error { ran.add("second"); return nil }},
		}
		start := time.Now()
		report, err := mustNew(t, hooks, finalize.Options{Checkpoint: parent{core}, MaxTotal: 20 * time.Minute}).Run(t.Context())
		if took := time.Since(start); err != nil || took < 20*time.Minute || took > 21*time.Minute {
			t.Errorf("Run() = %v after %v, want no error within the bound, 20m", err, took)
		}
		if got := strings.Join(ran.all(), " "); got != "first second" {
			t.Errorf("hooks ran: %s, want each once, in order", got)
		}
		if !errors.Is(report.CheckpointErr, finalize.ErrCheckpoint) || !strings.Contains(report.CheckpointErr.Error(), "not found") {
			t.Errorf("CheckpointErr = %v, want that the object is not found", report.CheckpointErr)
		}
	})
}

// effects makes the writes of a document effects of a process.
type effects struct {
	p   *backuptest.Process
	doc finalize.Document
}

func (e effects) Load(ctx context.Context) ([]byte, error) {
	if e.p.Crashed() {
		return nil, backuptest.ErrCrashed
	}
	return e.doc.Load(ctx)
}

func (e effects) Save(ctx context.Context, data []byte) error {
	return e.p.Do(ctx, "save", func(ctx context.Context) error { return e.doc.Save(ctx, data) })
}

// finishRestore runs the last steps of a restore of three volumes and one that is gone, in as many lives as it takes, and
// returns everything that is true after them, and how many writes the first life began.
func finishRestore(t *testing.T, trouble map[int]backuptest.Trouble) (end []string, writes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		volumes := []finalize.RestoredVolume{restored("gone")}
		temporary := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "mover", Labels: map[string]string{"example.dev/owner": "u"}}}
		objects := []runtime.Object{temporary}
		for _, name := range []string{"a", "b", "c"} {
			objects = append(objects, volume(name, nil)...)
			volumes = append(volumes, restored(name))
		}
		cluster := backuptest.New(t, backuptest.Options{Objects: objects})
		checkpoint, results := &memory{}, &memory{}
		var report finalize.Report
		err := backuptest.NewCrash(trouble).Run(t.Context(), func(ctx context.Context, p *backuptest.Process) (err error) {
			config := p.Config(cluster.Config())
			core := kubernetes.NewForConfigOrDie(config)
			pvs := finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{Concurrency: 1})
			validate := finalize.ValidateVolumes(core, volumes, pvs.Name)
			pods := finalize.RemoveTemporary(dynamic.NewForConfigOrDie(config), finalize.Temporary{
				Label: "example.dev/owner", Owner: "u", Namespaces: []string{"app"}, Resources: []schema.GroupVersionResource{{Version: "v1", Resource: "pods"}},
			}, validate.Name)
			write := finalize.MergeResults(effects{p, results}, nil, pods.Name)
			r := mustNew(t, []finalize.Hook{pvs, validate, pods, write}, finalize.Options{Checkpoint: effects{p, checkpoint}, UID: "u"})
			report, err = r.Run(ctx)
			if writes == 0 {
				writes = len(p.Effects())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		file, err := finalize.DecodeResults(results.data, 0)
		if err != nil {
			t.Fatal(err)
		}
		end = append(end, fmt.Sprintf("%d errors, %d warnings", report.Errors(), report.Warnings()))
		end = append(append(end, file.Errors.Namespaces["app"]...), file.Warnings.Namespaces["app"]...)
		for _, h := range report.Hooks {
			end = append(end, fmt.Sprint(h.Name, " ", h.State, " ", h.Attempts))
		}
		core := coreOf(t, cluster)
		list, err := core.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, pv := range list.Items {
			end = append(end, fmt.Sprint(pv.Name, " ", pv.Spec.PersistentVolumeReclaimPolicy, " ", pv.Labels))
		}
		left, err := core.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		end = append(end, fmt.Sprint(len(left.Items), " pods, ", cluster.Log().Counts()["patch persistentvolumes"], " patches"))
	})
	return end, writes
}

// F2, F6, fin-18: a process that dies after any write of the last steps of a restore, to the API or to a document, is
// followed by one that comes to the same end: the same objects, results, states, and no patch of a volume twice.
func TestRestoreEndsTheSame(t *testing.T) {
	t.Parallel()
	want, writes := finishRestore(t, nil)
	if writes < 9 || want[0] != "1 errors, 1 warnings" {
		t.Fatalf("%d writes, end %q", writes, want)
	}
	for k := 1; k <= writes; k++ {
		got, _ := finishRestore(t, map[int]backuptest.Trouble{k: backuptest.CrashAfter})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("crash after write %d (-want +got):\n%s", k, diff)
		}
	}
}
