package csisnapshot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// cutLab is a cluster with a snapshot controller, a document of intents and a quiescer that remembers what it did. It
// outlives the Snapshotters made on it, as a cluster outlives processes.
type cutLab struct {
	t          *testing.T
	cluster    *backuptest.Cluster
	driver     *backuptest.Driver
	controller *backuptest.SnapshotController
	intents    *memoryDoc
	quiescer   *scriptedQuiescer
	stop       context.CancelFunc
	all        sync.WaitGroup
}

// secondDriver is served by the lab's storage beside the default one.
const secondDriver = "second.example.dev"

// newCutLab is newBareLab with a snapshot class.
func newCutLab(t *testing.T, opts backuptest.ControllerOptions, builders ...backuptest.Builder) *cutLab {
	t.Helper()
	return newBareLab(t, opts, append(builders, backuptest.SnapshotClass{Default: true})...)
}

// newBareLab must be called inside a bubble. It runs a controller.
func newBareLab(t *testing.T, opts backuptest.ControllerOptions, builders ...backuptest.Builder) *cutLab {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(builders...)})
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	l := &cutLab{
		t: t, cluster: cluster, driver: backuptest.NewDriver(backuptest.DriverOptions{Names: []string{backuptest.DefaultDriver, secondDriver}}),
		intents: &memoryDoc{}, quiescer: &scriptedQuiescer{start: time.Now()},
	}
	l.controller = backuptest.NewSnapshotController(client, l.driver, opts)
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	l.all.Go(func() {
		if err := l.controller.Run(ctx); err != nil {
			t.Errorf("controller: %v", err)
		}
	})
	t.Cleanup(func() { stop(); l.all.Wait() })
	return l
}

// snapshotter makes one on clients of its own, as a new process would.
func (l *cutLab) snapshotter(opts csisnapshot.Options) *csisnapshot.Snapshotter {
	l.t.Helper()
	if opts.Quiescer == nil {
		opts.Quiescer, opts.Intents = l.quiescer, l.intents
	}
	return l.bareSnapshotter(opts)
}

// cut plans and cuts namespace app.
func (l *cutLab) cut(ctx context.Context, opts csisnapshot.Options) (*csisnapshot.Report, error) {
	l.t.Helper()
	s := l.snapshotter(opts)
	plan, err := s.Plan(ctx, "app")
	if err != nil {
		return nil, err
	}
	return s.Cut(ctx, cutOwner, plan)
}

// mustCut is cut where no error is expected.
func (l *cutLab) mustCut(opts csisnapshot.Options) *csisnapshot.Report {
	l.t.Helper()
	report, err := l.cut(l.t.Context(), opts)
	if err != nil {
		l.t.Fatalf("Cut: %v", err)
	}
	return report
}

// stored are the claims that the storage holds a snapshot of, each as often as it does, sorted.
func (l *cutLab) stored() []string {
	var claims []string
	for _, s := range l.driver.Snapshots() {
		claims = append(claims, s.Claim.Name)
	}
	slices.Sort(claims)
	return claims
}

var cutOwner = csisnapshot.Owner{UID: "0c2e9e0a-5b2f-4d55-a1c8-7a2f8f1b7c11", Namespace: "backups", Name: "nightly"}

// hookedPod builds a pod with hooks that mounts claims.
func hookedPod(name string, claims ...string) backuptest.Pod {
	return backuptest.Pod{Namespace: "app", Name: name, Claims: claims, Annotations: map[string]string{"hooks": "yes"}}
}

// plainPod builds a pod without hooks.
func plainPod(name string, claims ...string) backuptest.Pod {
	return backuptest.Pod{Namespace: "app", Name: name, Claims: claims}
}

func claim(name string) backuptest.Claim { return backuptest.Claim{Namespace: "app", Name: name} }

// claims builds several claims.
func claims(names ...string) []backuptest.Builder {
	var out []backuptest.Builder
	for _, n := range names {
		out = append(out, claim(n))
	}
	return out
}

// scriptedQuiescer gives a pre and a post hook to the pods annotated "hooks" and logs what runs when.
type scriptedQuiescer struct {
	start   time.Time
	onError csisnapshot.OnError
	timeout time.Duration
	names   []string // of the hooks of each stage, behind "pre" and "post"; nil: one without more
	// exec is what a hook does; nil: nothing. stage is "pre" or "post".
	exec func(ctx context.Context, pod, stage string) error
	// refuse says that the hook is not run at all; nil: every hook is.
	refuse func(pod, stage string) error

	mu  sync.Mutex
	log []hookRun
}

// hookRun is one run of a hook.
type hookRun struct {
	pod, stage string
	uid        types.UID
	at, end    time.Duration
}

func (q *scriptedQuiescer) Hooks(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
	if pod.Annotations["hooks"] == "" {
		return csisnapshot.PodHooks{}, nil
	}
	names := q.names
	if names == nil {
		names = []string{""}
	}
	hook := func(stage string) []csisnapshot.Hook {
		var hooks []csisnapshot.Hook
		for _, n := range names {
			hooks = append(hooks, csisnapshot.Hook{Name: stage + n, Command: []string{stage}, OnError: q.onError, Timeout: q.timeout})
		}
		return hooks
	}
	return csisnapshot.PodHooks{Pre: hook("pre"), Post: hook("post")}, nil
}

func (q *scriptedQuiescer) Exec(ctx context.Context, pod csisnapshot.PodRef, hook csisnapshot.Hook) error {
	if q.refuse != nil {
		if err := q.refuse(pod.Name, hook.Name); err != nil {
			return err
		}
	}
	q.mu.Lock()
	n := len(q.log)
	q.log = append(q.log, hookRun{pod: pod.Name, stage: hook.Name, uid: pod.UID, at: time.Since(q.start), end: -1})
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.log[n].end = time.Since(q.start)
		q.mu.Unlock()
	}()
	if q.exec == nil {
		return nil
	}
	return q.exec(ctx, pod.Name, hook.Name)
}

// runs returns what ran, in the order of its starts.
func (q *scriptedQuiescer) runs() []hookRun {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.log)
}

// order is the runs as "pod/stage".
func (q *scriptedQuiescer) order() string {
	var out []string
	for _, r := range q.runs() {
		out = append(out, r.pod+"/"+r.stage)
	}
	return strings.Join(out, " ")
}

// find is the nth run of the pod's stage, from 0.
func (q *scriptedQuiescer) find(t *testing.T, pod, stage string, nth int) hookRun {
	t.Helper()
	for _, r := range q.runs() {
		if r.pod == pod && r.stage == stage {
			if nth == 0 {
				return r
			}
			nth--
		}
	}
	t.Fatalf("no such run of the %s hook of %s in %q", stage, pod, q.order())
	return hookRun{}
}

// frozen are the pods whose pre hook started and whose post hook did not run to its end after that.
func (q *scriptedQuiescer) frozen() []string {
	state := map[string]bool{}
	for _, r := range q.runs() {
		state[r.pod] = r.stage == "pre" || r.end < 0
	}
	var out []string
	for pod, frozen := range state {
		if frozen {
			out = append(out, pod)
		}
	}
	slices.Sort(out)
	return out
}

// memoryDoc is a Document in memory; save can fail.
type memoryDoc struct {
	mu    sync.Mutex
	data  []byte
	saves int
	// fail is asked before each save, which is counted from 1.
	fail func(ctx context.Context, save int) error
}

func (d *memoryDoc) Load(context.Context) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.data), nil
}

func (d *memoryDoc) Save(ctx context.Context, data []byte) error {
	d.mu.Lock()
	d.saves++
	n, fail := d.saves, d.fail
	d.mu.Unlock()
	if fail != nil {
		if err := fail(ctx, n); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.data = slices.Clone(data)
	return nil
}

// count is how many saves were begun.
func (d *memoryDoc) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saves
}

// content is the document as text.
func (d *memoryDoc) content() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.data)
}

// volumeOf finds a claim in the report.
func volumeOf(t *testing.T, r *csisnapshot.Report, claim string) csisnapshot.VolumeReport {
	t.Helper()
	for _, v := range r.Volumes {
		if v.Claim == claim {
			return v
		}
	}
	t.Fatalf("claim %s is not in the report", claim)
	return csisnapshot.VolumeReport{}
}

// podOf finds a pod in the report.
func podOf(t *testing.T, r *csisnapshot.Report, name string) csisnapshot.PodReport {
	t.Helper()
	for _, b := range r.Batches {
		for _, p := range b.Pods {
			if p.Name == name {
				return p
			}
		}
	}
	t.Fatalf("pod %s is not in the report", name)
	return csisnapshot.PodReport{}
}

// checkWhole fails unless every volume of the report is cut.
func checkWhole(t *testing.T, r *csisnapshot.Report) {
	t.Helper()
	for _, v := range r.Volumes {
		if v.Skipped == "" && !v.IsCut() {
			t.Errorf("claim %s is not cut: %v", v.Claim, v.Err)
		}
	}
	if err := r.Err(); err != nil {
		t.Errorf("report: %v", err)
	}
}

// names numbers n names.
func numbered(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%03d", prefix, i))
	}
	return out
}

// deletePod removes a pod at once.
func (l *cutLab) deletePod(name string) {
	l.t.Helper()
	core, err := kubernetes.NewForConfig(l.cluster.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	if err := core.CoreV1().Pods("app").Delete(l.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		l.t.Fatal(err)
	}
}

// bareSnapshotter is snapshotter without the lab's quiescer.
func (l *cutLab) bareSnapshotter(opts csisnapshot.Options) *csisnapshot.Snapshotter {
	l.t.Helper()
	core, err := kubernetes.NewForConfig(l.cluster.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(l.cluster.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	s, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), opts)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}
