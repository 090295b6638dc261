package backuptest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func created(t *testing.T, c clients, name string) *corev1.ConfigMap {
	t.Helper()
	made, err := c.core.CoreV1().ConfigMaps("app").Create(t.Context(), configMap(name, nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// B1, all-6: what a create answers is what a real server answers.
func TestCreate(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		maps := c.core.CoreV1().ConfigMaps("app")
		first := created(t, c, "one")
		if got, want := first.CreationTimestamp.Time, time.Now(); !got.Equal(want) {
			t.Errorf("creationTimestamp = %v, want the virtual %v", got, want)
		}
		if _, err := maps.Create(t.Context(), first.DeepCopy(), metav1.CreateOptions{}); err == nil || apierrors.IsAlreadyExists(err) {
			t.Errorf("create with a resourceVersion = %v, want an error about it", err)
		}
		if _, err := maps.Create(t.Context(), configMap("one", nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("second create = %v, want AlreadyExists", err)
		}
		generated := configMap("", nil)
		generated.GenerateName = "copy-"
		generated.UID = "mine"
		second, err := maps.Create(t.Context(), generated, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if suffix, ok := strings.CutPrefix(second.Name, "copy-"); !ok || len(suffix) != 5 {
			t.Errorf("generated name = %q, want copy- and five characters", second.Name)
		}
		if second.UID == "" || second.UID == "mine" || second.UID == first.UID {
			t.Errorf("UID = %q, want a new one", second.UID)
		}
		if _, err := c.core.CoreV1().ConfigMaps("nowhere").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "nowhere"`) {
			t.Errorf("create in an unknown namespace = %v, want NotFound naming it", err)
		}
		if _, err := maps.Create(t.Context(), configMap("dry", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("dry run = %v", err)
		}
		if _, err := maps.Get(t.Context(), "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get after a dry run = %v, want NotFound", err)
		}
		pod, err := c.core.CoreV1().Pods("app").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}, metav1.CreateOptions{})
		if err != nil || pod.Status.Phase != corev1.PodPending {
			t.Errorf("created pod has phase %q, %v, want Pending whatever the client sends", pod.Status.Phase, err)
		}
	})
}

// B1: illegal metadata is refused with 422 and the field's name.
func TestInvalidMetadata(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*corev1.ConfigMap)
		field  string
	}{
		"no name":         {func(m *corev1.ConfigMap) { m.Name = "" }, "metadata.name"},
		"upper-case name": {func(m *corev1.ConfigMap) { m.Name = "Upper" }, "metadata.name"},
		"long name":       {func(m *corev1.ConfigMap) { m.Name = strings.Repeat("a", 254) }, "metadata.name"},
		"long label":      {func(m *corev1.ConfigMap) { m.Labels = map[string]string{"owner": strings.Repeat("a", 64)} }, "metadata.labels"},
		"bad label key":   {func(m *corev1.ConfigMap) { m.Labels = map[string]string{"a b": "c"} }, "metadata.labels"},
		"bad finalizer":   {func(m *corev1.ConfigMap) { m.Finalizers = []string{"a b"} }, "metadata.finalizers"},
		"owner without UID": {func(m *corev1.ConfigMap) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web"}}
		}, "metadata.ownerReferences.uid"}, // newer libraries name its index too: metadata.ownerReferences[0].uid
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				m := configMap("one", nil)
				tc.change(m)
				_, err := c.core.CoreV1().ConfigMaps("app").Create(t.Context(), m, metav1.CreateOptions{})
				if !apierrors.IsInvalid(err) || !strings.Contains(strings.ReplaceAll(err.Error(), "[0]", ""), tc.field) {
					t.Errorf("create = %v, want Invalid naming %s", err, tc.field)
				}
			})
		})
	}
}

// B1, all-6: a stale update is a Conflict, and what a write may not change stays.
func TestUpdate(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		maps := c.core.CoreV1().ConfigMaps("app")
		old := created(t, c, "one")
		next := old.DeepCopy()
		next.Data["key"] = "new"
		next.CreationTimestamp = metav1.Time{}
		updated, err := maps.Update(t.Context(), next, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if updated.ResourceVersion == old.ResourceVersion || !updated.CreationTimestamp.Equal(&old.CreationTimestamp) || updated.Data["key"] != "new" {
			t.Errorf("updated = %+v, want new data and version, old creation time", updated)
		}
		_, err = maps.Update(t.Context(), next, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) || apierrors.ReasonForError(err) != metav1.StatusReasonConflict {
			t.Errorf("stale update = %v, want Conflict", err)
		}
		same, err := maps.Update(t.Context(), updated.DeepCopy(), metav1.UpdateOptions{})
		if err != nil || same.ResourceVersion != updated.ResourceVersion {
			t.Errorf("update without a change = version %s, %v, want %s still", same.ResourceVersion, err, updated.ResourceVersion)
		}
		blind := configMap("one", map[string]string{"a": "b"})
		if _, err := maps.Update(t.Context(), blind, metav1.UpdateOptions{}); err != nil {
			t.Errorf("update without a version = %v, want what config maps allow", err)
		}
		blind.UID = "other"
		if _, err := maps.Update(t.Context(), blind, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("update of another UID = %v, want Conflict", err)
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}
		if _, err := c.core.CoordinationV1().Leases("app").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.core.CoordinationV1().Leases("app").Update(t.Context(), lease, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("update of a lease without a version = %v, want Invalid", err)
		}
		if _, err := maps.Update(t.Context(), configMap("absent", nil), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("update of nothing = %v, want NotFound", err)
		}
	})
}

// B1, all-6: status is a subresource, and the generation counts changes of the rest.
func TestStatusSubresource(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		snaps := c.snaps.SnapshotV1().VolumeSnapshots("app")
		sent := snapshot("one")
		sent.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true)}
		made, err := snaps.Create(t.Context(), sent, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.Status != nil {
			t.Errorf("status after create = %+v, want none", made.Status)
		}
		made.Status = sent.Status
		made.Labels = map[string]string{"a": "b"}
		made.Spec.VolumeSnapshotClassName = new("other")
		done, err := snaps.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if done.Status == nil || len(done.Labels) != 0 || done.Spec.VolumeSnapshotClassName != nil || done.Generation != 1 {
			t.Errorf("after a status update: %+v, want only the status changed", done)
		}
		done.Status = nil
		done.Spec.VolumeSnapshotClassName = new("fast")
		moved, err := snaps.Update(t.Context(), done, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if moved.Status == nil || moved.Generation != 2 {
			t.Errorf("after an update: status %v, generation %d, want the status kept and generation 2", moved.Status, moved.Generation)
		}
		labelled, err := snaps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}},"status":null}`), metav1.PatchOptions{})
		if err != nil || labelled.Generation != 2 || labelled.Labels["a"] != "b" || labelled.Status == nil {
			t.Errorf("after a metadata patch: %+v, %v, want the label, generation 2 and the status", labelled, err)
		}
		cleared, err := snaps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"status":null}`), metav1.PatchOptions{}, "status")
		if err != nil || cleared.Status != nil {
			t.Errorf("after a status patch: %+v, %v, want no status", cleared.Status, err)
		}
		_, err = c.core.CoreV1().ConfigMaps("app").Patch(t.Context(), "one", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
		if !apierrors.IsNotFound(err) {
			t.Errorf("status of a kind without it = %v, want NotFound", err)
		}
	})
}

// B1: each patch type does what it does on a real server.
func TestPatch(t *testing.T) {
	t.Parallel()
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "web"},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "main", Image: "one"}, {Name: "side", Image: "two"},
		}}}},
	}
	const containers = `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"three"}]}}}}`
	tests := map[string]struct {
		kind   types.PatchType
		patch  string
		images string
		failed func(error) bool
	}{
		"strategic merges lists by their key": {kind: types.StrategicMergePatchType, patch: containers, images: "main=one side=three"},
		"merge replaces lists":                {kind: types.MergePatchType, patch: containers, images: "side=three"},
		"json edits one place": {
			kind: types.JSONPatchType, images: "main=one side=four",
			patch: `[{"op":"test","path":"/spec/template/spec/containers/1/image","value":"two"},{"op":"replace","path":"/spec/template/spec/containers/1/image","value":"four"}]`,
		},
		"json test that fails": {
			kind: types.JSONPatchType, patch: `[{"op":"test","path":"/metadata/name","value":"other"}]`, failed: apierrors.IsInvalid,
		},
		"json path that is not there": {
			kind: types.JSONPatchType, patch: `[{"op":"remove","path":"/spec/nothing"}]`, failed: apierrors.IsInvalid,
		},
		"not a patch":         {kind: types.MergePatchType, patch: `[1]`, failed: apierrors.IsBadRequest},
		"wrong type":          {kind: types.MergePatchType, patch: `{"spec":{"replicas":"many"}}`, failed: apierrors.IsInvalid},
		"another UID":         {kind: types.MergePatchType, patch: `{"metadata":{"uid":"other"}}`, failed: apierrors.IsInvalid},
		"another name":        {kind: types.MergePatchType, patch: `{"metadata":{"name":"other"}}`, failed: apierrors.IsInvalid},
		"stale version":       {kind: types.MergePatchType, patch: `{"metadata":{"resourceVersion":"1"}}`, failed: apierrors.IsConflict},
		"another kind":        {kind: types.MergePatchType, patch: `{"kind":"Pod"}`, failed: apierrors.IsInvalid},
		"server-side apply":   {kind: types.ApplyPatchType, patch: `{}`, failed: apierrors.IsUnsupportedMediaType},
		"an unknown encoding": {kind: "application/x-mystery", patch: `{}`, failed: apierrors.IsUnsupportedMediaType},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				if err := c.cluster.Add(deployment); err != nil {
					t.Fatal(err)
				}
				deployments := c.core.AppsV1().Deployments("app")
				got, err := deployments.Patch(t.Context(), "web", tc.kind, []byte(tc.patch), metav1.PatchOptions{})
				if tc.failed != nil {
					if !tc.failed(err) {
						t.Fatalf("Patch = %v, want another error", err)
					}
					if kept, err := deployments.Get(t.Context(), "web", metav1.GetOptions{}); err != nil || kept.Generation != 1 || len(kept.Spec.Template.Spec.Containers) != 2 {
						t.Errorf("after a refused patch: %+v, %v, want nothing changed", kept, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				var images []string
				for _, container := range got.Spec.Template.Spec.Containers {
					images = append(images, container.Name+"="+container.Image)
				}
				if strings.Join(images, " ") != tc.images || got.Generation != 2 {
					t.Errorf("images = %v, generation %d, want %s and 2", images, got.Generation, tc.images)
				}
			})
		})
	}
}

// B1: custom resources know no strategic merge patch; server-side apply is refused by the typed client's call too.
func TestPatchTypesOfCustomResources(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		snaps := c.snaps.SnapshotV1().VolumeSnapshots("app")
		if _, err := snaps.Create(t.Context(), snapshot("one"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := snaps.Patch(t.Context(), "one", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
			t.Errorf("strategic merge patch = %v, want UnsupportedMediaType", err)
		}
		if _, err := snaps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"fromTheFuture":{"n":1}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		kept, err := c.dynamic.Resource(snapshotGVR).Namespace("app").Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n, found, err := unstructured.NestedInt64(kept.Object, "spec", "fromTheFuture", "n"); n != 1 || !found || err != nil {
			t.Errorf("a newer field = %d, %v, %v, want it kept", n, found, err)
		}
		apply := applycorev1.ConfigMap("one", "app")
		if _, err := c.core.CoreV1().ConfigMaps("app").Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test"}); !apierrors.IsUnsupportedMediaType(err) {
			t.Errorf("Apply = %v, want UnsupportedMediaType", err)
		}
	})
}

// B1: deletion honours preconditions and finalizers.
func TestDelete(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		maps := c.core.CoreV1().ConfigMaps("app")
		held := configMap("held", nil)
		held.Finalizers = []string{"example.dev/hold"}
		old, err := maps.Create(t.Context(), held, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wrong := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}
		if err := maps.Delete(t.Context(), "held", wrong); !apierrors.IsConflict(err) {
			t.Errorf("delete of another UID = %v, want Conflict", err)
		}
		stale := metav1.DeleteOptions{Preconditions: metav1.NewRVDeletionPrecondition("1").Preconditions}
		if err := maps.Delete(t.Context(), "held", stale); !apierrors.IsConflict(err) {
			t.Errorf("delete of a stale version = %v, want Conflict", err)
		}
		right := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))}
		for range 2 {
			if err := maps.Delete(t.Context(), "held", right); err != nil {
				t.Fatal(err)
			}
		}
		dying, err := maps.Get(t.Context(), "held", metav1.GetOptions{})
		if err != nil || dying.DeletionTimestamp == nil {
			t.Fatalf("held = %+v, %v, want a deletionTimestamp", dying, err)
		}
		dying.Finalizers = append(dying.Finalizers, "example.dev/late")
		if _, err := maps.Update(t.Context(), dying, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a finalizer added while deleting = %v, want Invalid", err)
		}
		if _, err := maps.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("taking the last finalizer = %v", err)
		}
		if _, err := maps.Get(t.Context(), "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get = %v, want NotFound", err)
		}
		if err := maps.Delete(t.Context(), "held", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("delete of nothing = %v, want NotFound", err)
		}
		for _, name := range []string{"a", "b", "c"} {
			m := configMap(name, map[string]string{"keep": "no"})
			if name == "c" {
				m.Labels["keep"] = "yes"
			}
			if _, err := maps.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "keep=no"}); err != nil {
			t.Fatal(err)
		}
		left, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(left.Items) != 1 || left.Items[0].Name != "c" {
			t.Errorf("left = %+v, %v, want c", left, err)
		}
	})
}

// B1: a namespace ends with all that is in it, waits for finalizers and takes nothing new meanwhile.
func TestNamespaceTermination(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		created(t, c, "plain")
		held := snapshot("held")
		held.Finalizers = []string{"example.dev/hold"}
		if _, err := c.snaps.SnapshotV1().VolumeSnapshots("app").Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		namespaces := c.core.CoreV1().Namespaces()
		if err := namespaces.Delete(t.Context(), "app", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ns, err := namespaces.Get(t.Context(), "app", metav1.GetOptions{})
		if err != nil || ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil {
			t.Fatalf("namespace = %+v, %v, want it Terminating", ns, err)
		}
		if _, err := c.core.CoreV1().ConfigMaps("app").Get(t.Context(), "plain", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get of its config map = %v, want NotFound", err)
		}
		_, err = c.core.CoreV1().ConfigMaps("app").Create(t.Context(), configMap("late", nil), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("create in it = %v, want Forbidden with cause NamespaceTerminating", err)
		}
		if _, err := c.snaps.SnapshotV1().VolumeSnapshots("app").Patch(t.Context(), "held", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers/0"}]`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := namespaces.Get(t.Context(), "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get of the namespace = %v, want NotFound once it is empty", err)
		}
	})
}

// B1, B3: many clients at once lose no update: each conflict is seen, and the final count is exact.
func TestParallelWriters(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{Latency: time.Millisecond}, func(c clients) {
		t := c.t
		created(t, c, "counter")
		const writers, each = 8, 5
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if err := increment(t.Context(), c); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		got, err := c.core.CoreV1().ConfigMaps("app").Get(t.Context(), "counter", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Data["key"]) != len("value")+writers*each {
			t.Errorf("%d increments kept, want %d", len(got.Data["key"])-len("value"), writers*each)
		}
	})
}

func increment(ctx context.Context, c clients) error {
	for {
		m, err := c.core.CoreV1().ConfigMaps("app").Get(ctx, "counter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		m.Data["key"] += "+"
		if _, err = c.core.CoreV1().ConfigMaps("app").Update(ctx, m, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}
