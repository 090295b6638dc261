package finalize_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// F6: every restored volume is there, or is named.
func TestValidateVolumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type claim = *corev1.PersistentVolumeClaim
		type pv = *corev1.PersistentVolume
		objects := slices.Concat(
			volume("good", nil), volume("static", func(_ claim, v pv) { v.Annotations = nil }),
			volume("recreated", nil), volume("no-pv", nil)[:1], volume("lost", func(c claim, _ pv) { c.Status.Phase = corev1.ClaimLost }),
			volume("foreign", func(_ claim, v pv) { v.Spec.ClaimRef.UID = "before" }), volume("released", func(_ claim, v pv) { v.Status.Phase = corev1.VolumeReleased }),
			pending("unbound", func(claim) {}), volume("no-ref", func(_ claim, v pv) { v.Spec.ClaimRef = nil }),
			volume("going", func(_ claim, v pv) {
				v.DeletionTimestamp, v.Finalizers = new(metav1.Now()), []string{"kubernetes.io/pv-protection"}
			}),
		)
		var volumes []finalize.RestoredVolume
		for _, name := range []string{"good", "static", "recreated", "no-pv", "lost", "foreign", "released", "unbound", "none", "no-ref", "going"} {
			volumes = append(volumes, restored(name))
		}
		volumes[2].ClaimUID = "before"
		cluster := backuptest.New(t, backuptest.Options{Objects: objects})
		h := runOnce(t, finalize.ValidateVolumes(coreOf(t, cluster), volumes)).Hooks[0]
		got := map[string]string{}
		for _, e := range h.Items {
			got[e.Name], _, _ = strings.Cut(e.Message, ":")
			if e.Warning != slices.Contains([]string{"unbound", "no-ref", "going"}, e.Name) {
				t.Errorf("entry %+v, want warnings of unbound, no-ref and going alone", e)
			}
		}
		missing := finalize.ErrVolumeMissing.Error()
		want := map[string]string{
			"recreated": missing, "no-pv": missing, "none": missing, "lost": finalize.ErrLostClaim.Error(), "foreign": finalize.ErrForeignVolume.Error(),
			"released": finalize.ErrReleasedVolume.Error(), "unbound": "the claim is not bound",
			"no-ref": "persistent volume pv-no-ref names no claim yet", "going": "persistent volume pv-going is being deleted",
		}
		if diff := cmp.Diff(want, got); diff != "" || h.Attempts != 1 {
			t.Errorf("after %d attempts, entries (-want +got):\n%s", h.Attempts, diff)
		}
		if diff := cmp.Diff(map[string]int{"list persistentvolumeclaims": 1, "list persistentvolumes": 1}, cluster.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		// F7: an API server that is down ends in a named error.
		cluster.Fault(backuptest.Fault{Action: backuptest.FaultRefuse})
		if h := runOnce(t, finalize.ValidateVolumes(coreOf(t, cluster), volumes)).Hooks[0]; h.State != finalize.Failed || h.Attempts != 9 || !strings.Contains(h.Error, "list persistent volumes") {
			t.Errorf("with the API down: %+v", h)
		}
		if h := runOnce(t, finalize.ValidateVolumes(coreOf(t, cluster), nil)).Hooks[0]; h.State != finalize.Succeeded {
			t.Errorf("no volumes: %+v", h)
		}
	})
}

// fin-2: every tracked hook is recorded by the deadline, as what it was, and the first record stays.
func TestWaitExecHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hook := func(pod string) finalize.ExecHook {
			return finalize.ExecHook{Namespace: "app", Pod: pod, Container: "main", Name: "warm"}
		}
		var tracker finalize.ExecTracker
		tracker.Add(hook("ran"), hook("failed"), hook("skipped"), hook("gone"), hook("nobody"))
		tracker.Record(hook("ran"), finalize.ExecExecuted, nil)
		tracker.Record(hook("failed"), finalize.ExecExecuted, errors.New("exit code 1"))
		tracker.Record(hook("skipped"), finalize.ExecSkipped, errors.New("pod is completed"))
		tracker.Record(hook("gone"), finalize.ExecNotFound, errors.New("no container main"))
		if tracker.Record(hook("gone"), finalize.ExecExecuted, nil) || tracker.Record(hook("nobody"), finalize.ExecPending, nil) {
			t.Error("a second record, or none, was news")
		}
		tracker.Add(hook("gone"))
		start := time.Now()
		h := runOnce(t, finalize.WaitExecHooks(&tracker, 7*time.Minute)).Hooks[0]
		if took := time.Since(start); took != 7*time.Minute {
			t.Errorf("ended after %v, want the deadline, 7m", took)
		}
		want := []finalize.Entry{
			{Namespace: "app", Name: "failed", Message: "container main, hook warm: exit code 1"},
			{Namespace: "app", Name: "gone", Message: "container main, hook warm: no container main"},
			{Namespace: "app", Name: "nobody", Message: "container main, hook warm: nobody has told what became of it in 7m0s"},
			{Namespace: "app", Name: "skipped", Message: "container main, hook warm: skipped: pod is completed", Warning: true},
		}
		if diff := cmp.Diff(want, h.Items); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		for _, r := range tracker.Records() {
			if r.State == finalize.ExecPending {
				t.Errorf("%s is not recorded", r.Hook)
			}
		}
	})
}

// fin-1: restores share one worker; the one whose hooks hang delays no other.
func TestStuckRestoreDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stuck, quick finalize.ExecTracker
		stuck.Add(finalize.ExecHook{Namespace: "a", Pod: "p"})
		quick.Add(finalize.ExecHook{Namespace: "b", Pod: "p"})
		quick.Record(finalize.ExecHook{Namespace: "b", Pod: "p"}, finalize.ExecExecuted, nil)
		start := time.Now()
		first := mustNew(t, []finalize.Hook{finalize.WaitExecHooks(&stuck, 0)}, finalize.Options{})
		second := mustNew(t, []finalize.Hook{finalize.WaitExecHooks(&quick, 0)}, finalize.Options{})
		if res, err := first.Step(t.Context()); err != nil || res.Done {
			t.Fatalf("Step of the stuck one = %+v, %v", res, err)
		}
		if res, err := second.Step(t.Context()); err != nil || !res.Done || time.Since(start) != 0 {
			t.Errorf("Step of the other = %+v, %v after %v, want done at once", res, err, time.Since(start))
		}
	})
}

// F6: what the owner left is removed, by label and UID; what others have stays, what does not go is named (F7).
func TestRemoveTemporary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pod := func(namespace, name, owner string, finalizers ...string) runtime.Object {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"sheetanchor.io/owner": owner}, Finalizers: finalizers}}
		}
		cluster := backuptest.New(t, backuptest.Options{Objects: []runtime.Object{
			pod("app", "mine", "u1"), pod("app", "other", "u2"), pod("app", "held", "u1", "example.com/hold"), pod("elsewhere", "mine", "u1"),
		}})
		client, err := dynamic.NewForConfig(cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		what := finalize.Temporary{
			Label: "sheetanchor.io/owner", Owner: "u1", Namespaces: []string{"app"}, Timeout: time.Minute,
			Resources: []schema.GroupVersionResource{{Version: "v1", Resource: "pods"}, {Group: "example.com", Version: "v1", Resource: "nothings"}},
		}
		remove := cluster.Fault(backuptest.Fault{Verb: "list", Resource: "pods", Action: backuptest.FaultReset, Times: 2})
		start := time.Now()
		h := runOnce(t, finalize.RemoveTemporary(client, what)).Hooks[0]
		remove()
		if took := time.Since(start); took != time.Minute || h.State != finalize.Failed || len(h.Items) != 1 || !strings.Contains(h.Error, "app/held: Pod has not gone in 1m0s, finalizers [example.com/hold]") {
			t.Errorf("after %v: %+v, want the held pod named after 1m", took, h)
		}
		left, err := coreOf(t, cluster).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range left.Items {
			names = append(names, p.Namespace+"/"+p.Name)
		}
		if diff := cmp.Diff([]string{"app/held", "app/other", "elsewhere/mine"}, names); diff != "" {
			t.Errorf("pods left (-want +got):\n%s", diff)
		}
		for name, code := range map[string]int{"delete": http.StatusForbidden, "list": http.StatusForbidden} {
			what.Owner = "u2"
			remove := cluster.Fault(backuptest.Fault{Verb: name, Code: code})
			if h := runOnce(t, finalize.RemoveTemporary(client, what)).Hooks[0]; h.State != finalize.Failed || !strings.Contains(h.Error, "forbidden") {
				t.Errorf("%s forbidden: %+v", name, h)
			}
			remove()
		}
		if h := runOnce(t, finalize.RemoveTemporary(client, what)).Hooks[0]; h.State != finalize.Succeeded {
			t.Errorf("the end: %+v", h)
		}
	})
}

// fin-12, fin-17: the volumes of records are typed values that go to their new namespaces, and no request goes to an old one.
func TestRestoredVolumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := cutRecord("good")
		good.Result, good.PVInfo = volumeinfo.Succeeded, &volumeinfo.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"team": "shop"}}
		bare, failed := cutRecord("bare"), cutRecord("failed")
		bare.Result, failed.Result = volumeinfo.Succeeded, volumeinfo.Failed
		bare.PVCNamespace = "stays"
		records := []volumeinfo.BackupRecord{good, bare, failed, {PVCNamespace: "app", PVCName: "skipped", Skipped: true}}
		got, err := finalize.RestoredVolumes(records, map[string]string{"app": "new"})
		want := []finalize.RestoredVolume{
			{Namespace: "new", Claim: "claim-good", Saved: &volumeinfo.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"team": "shop"}}},
			{Namespace: "stays", Claim: "claim-bare"},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("volumes (-want +got), %v:\n%s", err, diff)
		}
		bare.PVCName = "claim-good"
		if _, err := finalize.RestoredVolumes([]volumeinfo.BackupRecord{good, bare}, map[string]string{"app": "stays"}); !errors.Is(err, finalize.ErrInvalid) || !strings.Contains(err.Error(), "stays/claim-good") {
			t.Errorf("two records for one claim: %v", err)
		}

		there := backuptest.Claim{Namespace: "new", Name: "claim-good", VolumeName: "pv-new"}
		before := backuptest.Claim{Namespace: "app", Name: "claim-good", VolumeName: "pv-old"}
		cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(there, before, backuptest.StorageClass{})})
		core := coreOf(t, cluster)
		runOnce(t, finalize.RestorePVs(core, got, finalize.RestorePVOptions{}), finalize.ValidateVolumes(core, got, "restore-pvs"))
		if err := cluster.Log().None(backuptest.Request{Namespace: "app"}); err != nil {
			t.Error(err)
		}
		for name, policy := range map[string]corev1.PersistentVolumeReclaimPolicy{"pv-new": "Retain", "pv-old": "Delete"} {
			pv, err := core.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || pv.Spec.PersistentVolumeReclaimPolicy != policy {
				t.Errorf("%s: policy %s, %v, want %s", name, pv.Spec.PersistentVolumeReclaimPolicy, err, policy)
			}
		}
	})
}
