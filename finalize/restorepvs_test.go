package finalize_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/internal/race"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

const zone = "topology.kubernetes.io/zone"

func coreOf(tb testing.TB, cluster *backuptest.Cluster) kubernetes.Interface {
	tb.Helper()
	config := cluster.Config()
	config.QPS = -1
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return core
}

// restored is a restored volume of namespace app of which a policy and labels were saved.
func restored(claim string, labels ...string) finalize.RestoredVolume {
	saved := &volumeinfo.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"team": "shop"}}
	for i := 0; i+1 < len(labels); i += 2 {
		saved.Labels[labels[i]] = labels[i+1]
	}
	return finalize.RestoredVolume{Namespace: "app", Claim: claim, Saved: saved}
}

// ends collects the outcomes of volumes.
type ends struct {
	mu  sync.Mutex // protects all
	all map[string]finalize.VolumeOutcome
}

func (e *ends) add(_ context.Context, o finalize.VolumeOutcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[string]finalize.VolumeOutcome{}
	}
	if _, twice := e.all[o.Volume.Claim]; twice {
		o.Err = errors.New("ended twice")
	}
	e.all[o.Volume.Claim] = o
}

// volume is a bound claim and its volume, changed.
func volume(name string, change func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume)) []runtime.Object {
	c := backuptest.Claim{Namespace: "app", Name: name, VolumeName: "pv-" + name}
	pvc, pv := c.PVC(), c.PV()
	if change != nil {
		change(pvc, pv)
	}
	return []runtime.Object{pvc, pv}
}

// pending is a claim that is not bound, changed.
func pending(name string, change func(*corev1.PersistentVolumeClaim)) []runtime.Object {
	pvc := backuptest.Claim{Namespace: "app", Name: name, Unbound: true}.PVC()
	change(pvc)
	return []runtime.Object{pvc}
}

// judgements are the cases of F6: what a volume looks like and what becomes of it.
func judgements() map[string]struct {
	reason  string
	objects []runtime.Object
	volume  func(*finalize.RestoredVolume)
	skip    finalize.SkipReason
	err     error
	notes   int
	policy  corev1.PersistentVolumeReclaimPolicy // of the volume at the end; empty: there is none
	labels  map[string]string
} {
	type claim = *corev1.PersistentVolumeClaim
	type pv = *corev1.PersistentVolume
	class := func(name *string) func(claim) {
		return func(c claim) { c.Spec.StorageClassName = name }
	}
	type row = struct {
		reason  string
		objects []runtime.Object
		volume  func(*finalize.RestoredVolume)
		skip    finalize.SkipReason
		err     error
		notes   int
		policy  corev1.PersistentVolumeReclaimPolicy
		labels  map[string]string
	}
	team := map[string]string{"team": "shop"}
	return map[string]row{
		"plain": {reason: "fin-8: policy and labels are given back", objects: volume("plain", nil), policy: "Retain", labels: team},
		"merged": {
			reason: "fin-7: what the volume has stays, a system's label with its own value too",
			objects: volume("merged", func(_ claim, v pv) {
				v.Labels = map[string]string{zone: "b", "example.com/rack": "r1", "team": "new", "own": "x"}
				v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: "example.com/rack", Operator: corev1.NodeSelectorOpIn, Values: []string{"r1"}},
						{Key: "example.com/row", Operator: corev1.NodeSelectorOpIn, Values: []string{"7", "8"}},
						{Key: "example.com/hall", Operator: corev1.NodeSelectorOpIn, Values: []string{"3"}},
					},
				}}}}
			}),
			volume: func(v *finalize.RestoredVolume) {
				v.Saved.Labels[zone], v.Saved.Labels["example.com/rack"] = "a", "r9"
				v.Saved.Labels["example.com/row"], v.Saved.Labels["example.com/hall"], v.Saved.Labels["kubernetes.iox/a"] = "8", "1", "b"
			},
			notes: 3, policy: "Retain",
			labels: map[string]string{zone: "b", "example.com/rack": "r1", "team": "shop", "own": "x", "example.com/row": "8", "kubernetes.iox/a": "b"},
		},
		"affinity": {
			reason: "fin-7: a rule that a saved label breaks keeps it away, and no other rule does",
			objects: volume("affinity", func(_ claim, v pv) {
				rule := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
					return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "example.com/" + key, Operator: op, Values: values}}}
				}
				v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					rule("not", corev1.NodeSelectorOpNotIn, "a"), rule("free", corev1.NodeSelectorOpNotIn, "b"), rule("there", corev1.NodeSelectorOpExists),
					rule("away", corev1.NodeSelectorOpDoesNotExist), rule("more", corev1.NodeSelectorOpGt, "1"),
					rule("two", corev1.NodeSelectorOpIn, "b"), rule("two", corev1.NodeSelectorOpIn, "a"),
				}}}
			}),
			volume: func(v *finalize.RestoredVolume) {
				for _, key := range []string{"not", "free", "there", "away", "more", "two"} {
					v.Saved.Labels["example.com/"+key] = "a"
				}
			},
			notes: 2, policy: "Retain",
			labels: map[string]string{"team": "shop", "example.com/free": "a", "example.com/there": "a", "example.com/more": "a", "example.com/two": "a"},
		},
		"consumer": {reason: "fin-3: nobody waits for a pod", objects: pending("consumer", class(new("wait"))), skip: finalize.SkipNoConsumer},
		"default": {
			reason: "fin-4: no class is the default class", objects: pending("default", class(nil)), skip: finalize.SkipNoConsumer,
		},
		"empty class": {reason: "fin-4: the empty class is static binding", objects: pending("empty class", class(new(""))), skip: finalize.SkipStatic},
		"beta class": {
			reason:  "the annotation that came before the field",
			objects: pending("beta class", func(c claim) { c.Annotations = map[string]string{"volume.beta.kubernetes.io/storage-class": "wait"} }),
			skip:    finalize.SkipNoConsumer,
		},
		"consumer there": {
			reason: "a pod has asked: it will be bound",
			objects: pending("consumer there", func(c claim) {
				c.Spec.StorageClassName, c.Annotations = new("wait"), map[string]string{"volume.kubernetes.io/selected-node": "n"}
			}),
			err: finalize.ErrNotBound,
		},
		"immediate": {reason: "fin-5: a class without a binding mode binds at once", objects: pending("immediate", class(new("bare"))), err: finalize.ErrNotBound},
		"no class":  {reason: "the class is not there", objects: pending("no class", class(new("nowhere"))), err: finalize.ErrNotBound},
		"static": {
			reason:  "fin-14: nothing made it, nothing was lost",
			objects: volume("static", func(_ claim, v pv) { v.Annotations = nil }), skip: finalize.SkipStatic, policy: "Delete",
		},
		"recreated": {
			reason: "fin-15", objects: volume("recreated", nil), volume: func(v *finalize.RestoredVolume) { v.ClaimUID = "before" },
			skip: finalize.SkipRecreated, policy: "Delete",
		},
		"same": {
			reason: "the UID that the restore saw", objects: volume("same", nil),
			volume: func(v *finalize.RestoredVolume) {
				v.ClaimUID = backuptest.UIDOf("PersistentVolumeClaim", "app", "same")
			}, policy: "Retain", labels: team,
		},
		"released": {
			reason: "fin-10", objects: volume("released", func(_ claim, v pv) { v.Status.Phase = corev1.VolumeReleased }),
			err: finalize.ErrReleasedVolume, policy: "Delete",
		},
		"foreign": {
			reason: "fin-10, fin-11: of another claim", objects: volume("foreign", func(_ claim, v pv) { v.Spec.ClaimRef.Name = "other" }),
			err: finalize.ErrForeignVolume, policy: "Delete",
		},
		"foreign namespace": {
			reason: "fin-11", objects: volume("foreign namespace", func(_ claim, v pv) { v.Spec.ClaimRef.Namespace = "other" }),
			err: finalize.ErrForeignVolume, policy: "Delete",
		},
		"foreign uid": {
			reason: "fin-11: of a claim that had its name", objects: volume("foreign uid", func(_ claim, v pv) { v.Spec.ClaimRef.UID = "before" }),
			err: finalize.ErrForeignVolume, policy: "Delete",
		},
		"no uid": {
			reason: "fin-11: a reference without UID is judged by its name", objects: volume("no uid", func(_ claim, v pv) { v.Spec.ClaimRef.UID = "" }),
			policy: "Retain", labels: team,
		},
		"no ref": {
			reason: "fin-5: the reference is not there yet", objects: volume("no ref", func(_ claim, v pv) { v.Spec.ClaimRef = nil }),
			err: finalize.ErrNotBound, policy: "Delete",
		},
		"no pv": {reason: "the volume is not there", objects: volume("no pv", nil)[:1], err: finalize.ErrNotBound},
		"lost":  {reason: "the claim says so", objects: volume("lost", func(c claim, _ pv) { c.Status.Phase = corev1.ClaimLost })[:1], err: finalize.ErrLostClaim},
		"gone":  {reason: "fin-16: deleted since", skip: finalize.SkipGone},
		"going": {
			reason: "fin-16: the claim is being deleted, and its volume with it", skip: finalize.SkipGone, policy: "Delete",
			objects: volume("going", func(c claim, _ pv) {
				c.DeletionTimestamp, c.Finalizers = new(metav1.Now()), []string{"kubernetes.io/pvc-protection"}
			}),
		},
		"failed": {
			reason: "fin-10: it was let go of and could not be deleted", objects: volume("failed", func(_ claim, v pv) { v.Status.Phase = corev1.VolumeFailed }),
			err: finalize.ErrReleasedVolume, policy: "Delete",
		},
		"bad policy": {
			reason: "a record that no cluster can have", objects: volume("bad policy", nil), volume: func(v *finalize.RestoredVolume) { v.Saved.ReclaimPolicy = "Keep" },
			err: finalize.ErrInvalid, policy: "Delete",
		},
		"no policy": {
			reason: "fin-5: a policy that was not saved stays as it is", objects: volume("no policy", nil),
			volume: func(v *finalize.RestoredVolume) { v.Saved.ReclaimPolicy = "" }, policy: "Delete", labels: team,
		},
		"nothing saved": {
			reason: "fin-5", objects: volume("nothing saved", nil), volume: func(v *finalize.RestoredVolume) { v.Saved = nil },
			skip: finalize.SkipNothingSaved, policy: "Delete",
		},
		"op failed": {
			reason: "fin-9: its error is told already", objects: volume("op failed", nil), volume: func(v *finalize.RestoredVolume) { v.OperationID = "failed" },
			skip: finalize.SkipOperation, policy: "Delete",
		},
		"op canceled": {
			reason: "fin-9", objects: volume("op canceled", nil), volume: func(v *finalize.RestoredVolume) { v.OperationID = "canceled" },
			skip: finalize.SkipOperation, policy: "Delete",
		},
		"op runs": {
			reason: "not before the data is there", objects: volume("op runs", nil), volume: func(v *finalize.RestoredVolume) { v.OperationID = "runs" },
			err: finalize.ErrNotBound, policy: "Delete",
		},
		"op done": {
			reason: "the data is there", objects: volume("op done", nil), volume: func(v *finalize.RestoredVolume) { v.OperationID = "done" }, policy: "Retain", labels: team,
		},
	}
}

// F6, with every typed skip and error: one table of what volumes look like. All of them end, each once, at the deadline of
// those that wait (F7).
func TestRestorePVsJudges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := backuptest.Objects(
			backuptest.StorageClass{Name: "wait", Default: true, WaitForFirstConsumer: true}, backuptest.StorageClass{},
		)
		objects = append(objects, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Provisioner: "csi.example.dev"})
		var volumes []finalize.RestoredVolume
		rows := judgements()
		name := func(key string) string { return strings.ReplaceAll(key, " ", "-") }
		for key, row := range rows {
			v := restored(name(key))
			if row.volume != nil {
				row.volume(&v)
			}
			volumes = append(volumes, v)
			for _, o := range row.objects {
				rename(o, key, name(key))
				objects = append(objects, o)
			}
		}
		cluster := backuptest.New(t, backuptest.Options{Objects: objects})
		ops := opsMap(
			t, operations.Operation{ID: "failed", Action: "a", Status: operations.Status{Phase: operations.PhaseFailed}},
			operations.Operation{ID: "canceled", Action: "a", Status: operations.Status{Phase: operations.PhaseCanceled}},
			operations.Operation{ID: "runs", Action: "a", Status: operations.Status{Phase: operations.PhaseInProgress}},
			operations.Operation{ID: "done", Action: "a", Status: operations.Status{Phase: operations.PhaseCompleted}},
		)
		core, got, start := coreOf(t, cluster), ends{}, time.Now()
		report := runOnce(t, finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{Operations: ops, Key: key, Ended: got.add}))
		if took := time.Since(start); took != 10*time.Minute {
			t.Errorf("the last volume ended after %v, want the item's deadline, 10m", took)
		}
		for key, row := range rows {
			o := got.all[name(key)]
			if o.Skipped != row.skip || !errors.Is(o.Err, row.err) || (o.Err == nil) != (row.err == nil) || len(o.Notes) != row.notes {
				t.Errorf("%s: skipped %q, error %v, notes %q (%s)", key, o.Skipped, o.Err, o.Notes, row.reason)
			}
			pv, err := core.CoreV1().PersistentVolumes().Get(t.Context(), "pv-"+name(key), metav1.GetOptions{})
			if (err == nil) != (row.policy != "") {
				t.Fatalf("%s: %v", key, err)
			}
			if err == nil && (pv.Spec.PersistentVolumeReclaimPolicy != row.policy || !cmp.Equal(pv.Labels, row.labels)) {
				t.Errorf("%s: policy %s, labels %v, want %s, %v (%s)", key, pv.Spec.PersistentVolumeReclaimPolicy, pv.Labels, row.policy, row.labels, row.reason)
			}
			told := slices.ContainsFunc(report.Hooks[0].Items, func(e finalize.Entry) bool { return e.Name == name(key) && e.Warning == (row.err == nil) })
			silent := row.err == nil && row.notes == 0 && (row.skip == "" || row.skip == finalize.SkipStatic || row.skip == finalize.SkipNothingSaved)
			if told == silent {
				t.Errorf("%s: in the report: %v (%s)", key, told, row.reason)
			}
		}
		// fin-18, F2: a second finalize of what is restored writes nothing.
		cluster.Mark("again")
		runOnce(t, finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{Operations: ops, Key: key}))
		if err := cluster.Log().After("again").NoWrites(); err != nil {
			t.Error(err)
		}
	})
}

// rename gives the objects of a case names that an API server takes.
func rename(o runtime.Object, from, to string) {
	change := func(s *string) { *s = strings.ReplaceAll(*s, from, to) }
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		change(&o.Name)
		change(&o.Spec.VolumeName)
	case *corev1.PersistentVolume:
		change(&o.Name)
		if o.Spec.ClaimRef != nil {
			change(&o.Spec.ClaimRef.Name)
		}
		o.UID = types.UID("uid-" + o.Name)
	}
}

// fin-16, fin-13, F7: conflicts are read again, what is refused twice or does not work in time is an error of the volume,
// and an API server that is down for a while does not matter.
func TestRestorePVsTrouble(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fault  backuptest.Fault
		err    string // in the volume's error; empty: it is restored
		took   time.Duration
	}{
		"conflicts":       {"fin-16", backuptest.Fault{Verb: "patch", Code: http.StatusConflict, Times: 3}, "", 0},
		"lost answer":     {"the patch was done", backuptest.Fault{Verb: "patch", Action: backuptest.FaultLostAnswer, Times: 1}, "", time.Second},
		"forbidden once":  {"a server that was restarted", backuptest.Fault{Verb: "get", Code: http.StatusForbidden, Times: 1}, "", time.Second},
		"forbidden":       {"fin-13", backuptest.Fault{Verb: "patch", Code: http.StatusForbidden}, "forbidden", 2 * time.Second},
		"list forbidden":  {"no right", backuptest.Fault{Verb: "list", Resource: "persistentvolumeclaims", Code: http.StatusForbidden}, "forbidden", 2 * time.Second},
		"down":            {"F7: the API is down for good", backuptest.Fault{Action: backuptest.FaultRefuse}, "gave up after 10m0s", 10 * time.Minute},
		"down for a time": {"F7", backuptest.Fault{Action: backuptest.FaultRefuse, For: time.Minute}, "", -1},
		"hangs":           {"F7: no answer at all", backuptest.Fault{Verb: "patch", Action: backuptest.FaultHang}, "gave up after 10m0s", -1},
		"pv not found":    {"fin-16: gone under our hands", backuptest.Fault{Verb: "patch", Code: http.StatusNotFound, Times: 1}, "", time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster := backuptest.New(t, backuptest.Options{Objects: volume("data", nil)})
				core := coreOf(t, cluster)
				remove := cluster.Fault(tc.fault)
				start, got := time.Now(), ends{}
				report := runOnce(t, finalize.RestorePVs(core, []finalize.RestoredVolume{restored("data")}, finalize.RestorePVOptions{Ended: got.add}))
				if took := time.Since(start); tc.took >= 0 && took != tc.took || took > 12*time.Minute {
					t.Errorf("ended after %v, want %v (%s)", took, tc.took, tc.reason)
				}
				remove()
				pv, err := core.CoreV1().PersistentVolumes().Get(t.Context(), "pv-data", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if restored := pv.Spec.PersistentVolumeReclaimPolicy == "Retain" && pv.Labels["team"] == "shop"; restored != (tc.err == "") {
					t.Errorf("restored: %v (%s)", restored, tc.reason)
				}
				if h := report.Hooks[0]; (h.State == finalize.Succeeded) != (tc.err == "") || !strings.Contains(h.Error, tc.err) {
					t.Errorf("hook = %+v, want error %q (%s)", h, tc.err, tc.reason)
				}
			})
		})
	}
}

// fin-6, F6: a thousand claims that are bound one by one over 20 minutes: no volume times out because it queued, with few
// workers or many.
func TestThousandClaims(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{3, 50} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := race.Scaled(1000, 200)
				var objects []runtime.Object
				var volumes []finalize.RestoredVolume
				for i := range n {
					name := fmt.Sprintf("c%03d", i)
					pair := volume(name, func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
						c.Spec.VolumeName, c.Status.Phase = "", corev1.ClaimPending
						c.Annotations = nil
					})
					objects = append(objects, pair...)
					volumes = append(volumes, restored(name))
				}
				cluster := backuptest.New(t, backuptest.Options{Objects: append(objects, backuptest.StorageClass{}.Object()), Latency: 20 * time.Millisecond})
				core := coreOf(t, cluster)
				var binder sync.WaitGroup
				binder.Go(func() {
					for i := range n {
						time.Sleep(20*time.Minute/time.Duration(n) - 40*time.Millisecond)
						name := fmt.Sprintf("c%03d", (i*7)%n)
						bind(t, core, name)
					}
				})
				start := time.Now()
				report := runOnce(t, finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{Concurrency: workers, ItemTimeout: time.Minute}))
				binder.Wait()
				if report.Errors()+report.Warnings() != 0 || time.Since(start) > 21*time.Minute {
					t.Errorf("after %v: %d errors, %d warnings, %s", time.Since(start), report.Errors(), report.Warnings(), report.Hooks[0].Error)
				}
				if got := cluster.Requests()["patch persistentvolumes"]; got != n {
					t.Errorf("%d patches of volumes, want one for each", got)
				}
			})
		})
	}
}

// bind binds the claim to its volume, as the volume binder does.
func bind(t *testing.T, core kubernetes.Interface, name string) {
	t.Helper()
	claims := core.CoreV1().PersistentVolumeClaims("app")
	if _, err := claims.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"volumeName":"pv-`+name+`"}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("bind %s: %v", name, err)
	}
	if _, err := claims.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"Bound"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("bind %s: %v", name, err)
	}
}
