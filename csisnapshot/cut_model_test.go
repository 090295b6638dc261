package csisnapshot_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	fakev6 "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// fakeWorld is a cluster of the bare generated fakes in which one process at a time lives. Its storage cuts each snapshot
// after a while. What outlives a process are the snapshots, the intents and the pods.
type fakeWorld struct {
	core     *fake.Clientset
	plan     *csisnapshot.Plan
	snaps    *fakev6.Clientset
	intents  *memoryDoc
	quiescer *scriptedQuiescer
	foreign  *v1.VolumeSnapshot
	cutAfter func() time.Duration
	// trouble is what becomes of a create: done says whether it is carried out. Nil: no trouble.
	trouble func() (done bool, err error)

	mu      sync.Mutex
	life    *backuptest.Process // the one that lives
	created map[string]int      // snapshots made, by claim
}

// fakeCluster are two pods that share a volume, one by itself, an unhooked one and a volume of no pod. Nothing changes it.
func fakeCluster(t *testing.T) (*fake.Clientset, *csisnapshot.Plan) {
	t.Helper()
	builders := append(claims("c0", "c1", "c2", "c3", "c4", "c5"),
		hookedPod("p0", "c0", "c1"), hookedPod("p1", "c2"), hookedPod("p2", "c2", "c3"), plainPod("p3", "c4"))
	objects := backuptest.Objects(builders...)
	in := csisnapshot.Inputs{
		Namespace: "app", Classes: []csisnapshot.Class{{Meta: csisnapshot.Meta{Name: "c"}, Driver: backuptest.DefaultDriver}},
		Hooks: (&scriptedQuiescer{}).Hooks,
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Pod:
			in.Pods = append(in.Pods, *o)
		case *corev1.PersistentVolumeClaim:
			in.Claims = append(in.Claims, *o)
		case *corev1.PersistentVolume:
			in.Volumes = append(in.Volumes, *o)
		}
	}
	plan := csisnapshot.Group(in)
	if err := plan.Err(); err != nil || plan.Volumes() != 6 || len(plan.Batches) != 3 {
		t.Fatalf("plan: %v\n%s", err, plan)
	}
	return fake.NewClientset(objects...), plan
}

// newFakeWorld must be called inside a bubble.
func newFakeWorld(core *fake.Clientset, plan *csisnapshot.Plan) *fakeWorld {
	w := &fakeWorld{
		core: core, plan: plan, intents: &memoryDoc{}, quiescer: &scriptedQuiescer{start: time.Now()}, created: map[string]int{},
		cutAfter: func() time.Duration { return 0 },
		foreign: &v1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "theirs", Labels: map[string]string{"sheetanchor.io/owner": "another"}},
			Spec:       v1.VolumeSnapshotSpec{Source: v1.VolumeSnapshotSource{PersistentVolumeClaimName: new("c0")}},
		},
	}
	w.snaps = fakev6.NewSimpleClientset(w.foreign.DeepCopy())
	w.snaps.PrependReactor("create", "volumesnapshots", w.create)
	return w
}

// create is an effect of the process that lives.
func (w *fakeWorld) create(action clienttesting.Action) (bool, runtime.Object, error) {
	made := action.(clienttesting.CreateAction).GetObject().(*v1.VolumeSnapshot) //nolint:forcetypeassert // the fake's own action
	w.mu.Lock()
	life := w.life
	w.mu.Unlock()
	err := life.Do(context.Background(), "create "+*made.Spec.Source.PersistentVolumeClaimName, func(context.Context) error {
		var answer error
		if w.trouble != nil {
			var done bool
			if done, answer = w.trouble(); !done {
				return answer
			}
		}
		if err := w.snaps.Tracker().Create(action.GetResource(), made, made.Namespace); err != nil {
			return err
		}
		w.mu.Lock()
		w.created[*made.Spec.Source.PersistentVolumeClaimName]++
		w.mu.Unlock()
		time.AfterFunc(w.cutAfter(), func() { w.cut(made.Namespace, made.Name) })
		return answer
	})
	return true, made, err
}

// cut gives the snapshot a content with a handle.
func (w *fakeWorld) cut(namespace, name string) {
	content := &v1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content-of-" + name},
		Spec: v1.VolumeSnapshotContentSpec{
			Driver: backuptest.DefaultDriver, VolumeSnapshotRef: corev1.ObjectReference{Namespace: namespace, Name: name},
		},
		Status: &v1.VolumeSnapshotContentStatus{SnapshotHandle: new("handle-" + name)},
	}
	_ = w.snaps.Tracker().Add(content) // it can only be there already, which the count of creates shows
}

// live runs fn as a process that is killed after its effect of that number; 0: not at all.
func (w *fakeWorld) live(ctx context.Context, t *testing.T, kill int, opts csisnapshot.Options, fn func(context.Context, *csisnapshot.Snapshotter)) *process {
	t.Helper()
	ctx, life := backuptest.NewProcess(ctx, map[int]backuptest.Trouble{kill: backuptest.CrashAfter})
	p := &process{lab: &cutLab{intents: w.intents, quiescer: w.quiescer}, limit: kill, life: life}
	w.mu.Lock()
	w.life = life
	w.mu.Unlock()
	opts.Quiescer, opts.Intents = p, p
	s, err := csisnapshot.New(w.core, snapv6.New(w.snaps), opts)
	if err != nil {
		t.Fatal(err)
	}
	fn(ctx, s)
	p.effects = life.Effects()
	p.killed = kill > 0 && len(p.effects) >= kill // its death may still be under way, in a hook that does not end
	life.Kill()
	return p
}

// check fails unless each volume was snapshot at most once, no pod is frozen, every intent is thawed and what others made is as
// it was.
func (w *fakeWorld) check(t *testing.T, whole bool) {
	t.Helper()
	for _, c := range []string{"c0", "c1", "c2", "c3", "c4", "c5"} {
		if n := w.created[c]; n > 1 || whole && n != 1 {
			t.Errorf("claim %s has %d snapshots", c, n)
		}
	}
	if frozen := w.quiescer.frozen(); frozen != nil {
		t.Errorf("still frozen: %v, after %q", frozen, w.quiescer.order())
	}
	if text := w.intents.content(); strings.Count(text, "podUID") != strings.Count(text, "thawedAt") {
		t.Errorf("an intent has no thaw record:\n%s", text)
	}
	theirs, err := w.snaps.SnapshotV1().VolumeSnapshots("app").Get(t.Context(), "theirs", metav1.GetOptions{})
	if diff := cmp.Diff(w.foreign, theirs); err != nil || diff != "" {
		t.Errorf("another's snapshot: %v (-want +got):\n%s", err, diff)
	}
}

// S9, S5, B4: on the bare fake too, killed after each of its effects, creates among them, and run again, Cut takes one snapshot
// per volume, leaves no pod frozen and touches nothing of another's (snap-22, snap-23).
func TestCutSurvivesAKillOnTheBareFake(t *testing.T) {
	t.Parallel()
	core, plan := fakeCluster(t)
	for kill := 1; ; kill++ {
		killed, creates := false, 0
		synctest.Test(t, func(t *testing.T) {
			w := newFakeWorld(core, plan)
			w.cutAfter = func() time.Duration { return 2 * time.Second }
			cut := func(ctx context.Context, s *csisnapshot.Snapshotter) {
				report, err := s.Cut(ctx, cutOwner, plan)
				if err == nil {
					checkWhole(t, report)
				} else if kill == 0 {
					t.Errorf("Cut: %v", err)
				}
			}
			first := w.live(t.Context(), t, kill, csisnapshot.Options{}, cut)
			killed = first.killed
			for _, e := range first.effects {
				if strings.HasPrefix(e, "create") {
					creates++
				}
			}
			again := w.live(t.Context(), t, 0, csisnapshot.Options{}, cut)
			if !killed && len(again.effects) > 0 {
				t.Errorf("the second run did %v", again.effects)
			}
			w.check(t, true)
		})
		if t.Failed() {
			t.Fatalf("killed after effect %d", kill)
		}
		if !killed {
			if kill < 16 || creates != 6 {
				t.Errorf("%d effects, %d creates: the test lost its hold on them", kill-1, creates)
			}
			return
		}
	}
}

// modelSeeds is how many lives of the model a run of the tests sees.
func modelSeeds() int { return race.Scaled(2000, 60) }

// S5, as a model: with random latencies, errors, panics, deaf hooks, answers that get lost, limits, cancels, deadlines and
// kills, in a process that lives a post hook runs once for every pod whose pre hook was started, and after it;
// post.start - pre.return is at most MaxFreeze; and after any end a Thaw leaves no intent open.
func TestCutQuiesceModel(t *testing.T) {
	t.Parallel()
	core, plan := fakeCluster(t)
	for seed := range uint64(modelSeeds()) {
		synctest.Test(t, func(t *testing.T) { quiesceModel(t, newFakeWorld(core, plan), seed) })
		core.ClearActions()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func quiesceModel(t *testing.T, w *fakeWorld, seed uint64) {
	t.Helper()
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 11))
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }
	within := func(d time.Duration) time.Duration {
		return time.Duration(roll(int(d/time.Millisecond))) * time.Millisecond
	}
	w.cutAfter = func() time.Duration {
		if roll(12) == 0 {
			return time.Hour
		}
		return within(20 * time.Second)
	}
	w.trouble = func() (bool, error) {
		switch roll(10) {
		case 0:
			return false, apierrors.NewInternalError(errors.New("etcd"))
		case 1:
			return true, errors.New("unexpected EOF")
		case 2:
			return false, apierrors.NewTooManyRequests("slow", 1)
		}
		return true, nil
	}
	w.quiescer.timeout = 15 * time.Second
	w.quiescer.exec = func(ctx context.Context, _, _ string) error {
		time.Sleep(within(3 * time.Second))
		switch roll(14) {
		case 0:
			return errors.New("no")
		case 1:
			panic("no")
		case 2:
			<-ctx.Done()
			return ctx.Err()
		case 3:
			time.Sleep(time.Minute)
		}
		return nil
	}
	refused := map[string]bool{}
	w.quiescer.refuse = func(pod, stage string) error {
		if stage == "post" && roll(6) == 0 {
			mu.Lock()
			refused[pod] = true
			mu.Unlock()
			return csisnapshot.ErrNotRun
		}
		return nil
	}
	opts := csisnapshot.Options{
		MaxFreeze: time.Duration(roll(3)) * 6 * time.Second, MaxFrozenPods: roll(4), Concurrency: roll(4),
		Drivers: map[string]csisnapshot.DriverLimits{"": {InFlight: roll(4), Every: within(2 * time.Second)}},
		Wait:    csisnapshot.WaitOptions{Timeout: time.Minute},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kill := 0
	switch roll(4) {
	case 0:
		time.AfterFunc(within(time.Minute), cancel)
	case 1:
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, within(time.Minute))
		defer stop()
	case 2:
		kill = 1 + roll(16)
	}
	var report *csisnapshot.Report
	var err error
	first := w.live(ctx, t, kill, opts, func(ctx context.Context, s *csisnapshot.Snapshotter) { report, err = s.Cut(ctx, cutOwner, w.plan) })
	if err != nil && ctx.Err() == nil && !first.killed {
		t.Errorf("Cut: %v", err)
	}
	time.Sleep(5 * time.Minute) // abandoned callbacks end
	synctest.Wait()
	if !first.killed {
		w.checkHooks(t, report, opts.MaxFreeze, refused)
	}
	w.quiescer.exec, w.quiescer.refuse, w.trouble = nil, nil, nil
	w.live(t.Context(), t, 0, csisnapshot.Options{}, func(ctx context.Context, s *csisnapshot.Snapshotter) {
		if _, err := s.Thaw(ctx, cutOwner); err != nil {
			t.Errorf("Thaw: %v", err)
		}
	})
	w.check(t, false)
}

// checkHooks fails unless the hooks of a process that lived ran as they must.
func (w *fakeWorld) checkHooks(t *testing.T, report *csisnapshot.Report, most time.Duration, refused map[string]bool) {
	t.Helper()
	runs := map[string][]hookRun{}
	for _, r := range w.quiescer.runs() {
		runs[r.pod] = append(runs[r.pod], r)
	}
	for pod, hooks := range runs {
		got := podOf(t, report, pod)
		if len(hooks) == 1 && hooks[0].stage == "pre" && errors.Is(got.Err, csisnapshot.ErrNotRun) {
			continue // the API took the post hook not once before the Cut had to end
		}
		if len(hooks) != 2 || hooks[0].stage != "pre" || hooks[1].stage != "post" {
			t.Errorf("pod %s: hooks %+v, want one pre and then one post", pod, hooks)
			continue
		}
		if most > 0 && got.Frozen > most {
			t.Errorf("pod %s: frozen for %v, MaxFreeze %v", pod, got.Frozen, most)
		}
		if pre, post := hooks[0], hooks[1]; most > 0 && !refused[pod] && post.at-pre.end > most {
			t.Errorf("pod %s: post hook %v after the pre hook, MaxFreeze %v", pod, post.at-pre.end, most)
		}
	}
}
