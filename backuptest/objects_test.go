package backuptest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func unstructuredObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// B1: Add keeps what the objects say and makes what is missing, whatever Go type they have.
func TestAdd(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		ready := snapshot("ready")
		ready.Namespace, ready.UID = "elsewhere", "uid-1"
		ready.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true)}
		list := &corev1.PodList{Items: []corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "app"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
			{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		}}
		named := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", UID: "uid-2"}}
		volume := unstructuredObject("v1", "PersistentVolume", "", "pv-1")
		volume.Object["spec"] = map[string]any{"mountOptions": []string{"a"}, "csi": map[string]any{"driver": "d", "volumeHandle": "v"}}
		odd := unstructuredObject("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "", "odd")
		odd.Object["parameters"] = map[string]any{"plain": 3} // an int is no JSON value of apimachinery's
		if err := c.cluster.Add(ready, list, named, volume, odd); err != nil {
			t.Fatal(err)
		}
		got, err := c.snaps.SnapshotV1().VolumeSnapshots("elsewhere").Get(t.Context(), "ready", metav1.GetOptions{})
		if err != nil || got.UID != "uid-1" || got.Status == nil || !*got.Status.ReadyToUse || got.ResourceVersion == "" {
			t.Errorf("snapshot = %+v, %v, want its UID and status, and a version", got, err)
		}
		pod, err := c.core.CoreV1().Pods("app").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodRunning || pod.UID == "" {
			t.Errorf("pod = %+v, %v, want it Running with a UID", pod, err)
		}
		if _, err := c.core.CoreV1().Pods("default").Get(t.Context(), "plain", metav1.GetOptions{}); err != nil {
			t.Errorf("pod without a namespace = %v, want it in default", err)
		}
		ns, err := c.core.CoreV1().Namespaces().Get(t.Context(), "elsewhere", metav1.GetOptions{})
		if err != nil || ns.UID != "uid-2" || ns.Status.Phase != corev1.NamespaceActive {
			t.Errorf("namespace = %+v, %v, want the one added, active", ns, err)
		}
		ready.Labels = map[string]string{"changed": "after"}
		if got, _ := c.snaps.SnapshotV1().VolumeSnapshots("elsewhere").Get(t.Context(), "ready", metav1.GetOptions{}); len(got.Labels) != 0 {
			t.Error("a change of the added object is seen in the cluster")
		}
	})
}

// B1: Add stores all or nothing, and says why not.
func TestAddRefuses(t *testing.T) {
	t.Parallel()
	invalid := configMap("Bad_Name", nil)
	wrong := unstructuredObject("v1", "Pod", "app", "wrong")
	wrong.Object["spec"] = "not an object"
	tests := map[string]struct {
		obj  runtime.Object
		want string
	}{
		"unknown kind":   {unstructuredObject("gateway.example/v1", "Gateway", "app", "front"), "Gateway app/front: unknown kind"},
		"invalid name":   {invalid, "metadata.name"},
		"wrong type":     {wrong, "Pod app/wrong"},
		"exists already": {configMap("there", nil), `"there" already exists`},
		"nil":            {nil, "nil"},
		"no kind":        {&metav1.PartialObjectMetadata{}, "kind is unknown"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{Objects: []runtime.Object{configMap("there", nil)}}, func(c clients) {
				t := c.t
				err := c.cluster.Add(configMap("good", nil), tc.obj)
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("Add = %v, want an error with %q", err, tc.want)
				}
				if _, err := c.core.CoreV1().ConfigMaps("app").Get(t.Context(), "good", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("the other object = %v, want it not stored", err)
				}
			})
		})
	}
}

const dump = `
apiVersion: v1
kind: PodList
items:
- metadata: {name: web, namespace: shop, uid: u-1, resourceVersion: "77", ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: u-9}]}
  status: {phase: Running}
---
# an empty document

---
apiVersion: gateway.example/v1
kind: Gateway
metadata: {name: front, namespace: shop}
---
apiVersion: example.dev/v1
kind: Everything
metadata: {name: all}
---
{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"}}]}
`

// B1: Load takes what kubectl writes and names what it skips; a second time it changes nothing.
func TestLoad(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		var versions []string
		for range 2 {
			skipped, err := c.cluster.Load(strings.NewReader(dump))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"gateway.example/v1 Gateway shop/front", "example.dev/v1 Everything all"}
			if diff := cmp.Diff(want, skipped); diff != "" {
				t.Errorf("skipped -want +got:\n%s", diff)
			}
			pod, err := c.core.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || pod.UID != "u-1" || pod.Status.Phase != corev1.PodRunning || len(pod.OwnerReferences) != 1 {
				t.Fatalf("pod = %+v, %v, want UID, phase and owner of the dump", pod, err)
			}
			if _, err := c.core.CoreV1().PersistentVolumes().Get(t.Context(), "pv-1", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
			versions = append(versions, pod.ResourceVersion)
		}
		if versions[0] != versions[1] {
			t.Errorf("versions = %v, want the second load to change nothing", versions)
		}
	})
}

// B1: a dump that cannot be read is an error that says where, and nothing of it is stored.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	good := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good, namespace: app}\n---\n"
	for name, tc := range map[string]struct{ dump, want string }{
		"broken YAML":       {good + "a: [", "document 2"},
		"broken JSON":       {`{"kind": `, "document 1"},
		"no kind":           {good + "metadata: {name: x}", "document 2: apiVersion or kind is missing"},
		"item without kind": {`{"apiVersion":"v1","kind":"List","items":[{"metadata":{"name":"x"}}]}`, "items[0]"},
		"item not object":   {`{"apiVersion":"v1","kind":"List","items":[1]}`, "items[0]"},
		"items not list":    {`{"apiVersion":"v1","kind":"List","items":{}}`, "items is not a list"},
		"invalid object":    {good + "apiVersion: v1\nkind: Pod\nmetadata: {name: Bad}", "metadata.name"},
		"text":              {"hello", "document 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				_, err := c.cluster.Load(strings.NewReader(tc.dump))
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("Load = %v, want an error with %q", err, tc.want)
				}
				if _, err := c.core.CoreV1().ConfigMaps("app").Get(t.Context(), "good", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("get of the good one = %v, want NotFound", err)
				}
			})
		})
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(dump)
	f.Add(`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a","labels":{"b":null}},"spec":{"containers":[{}]}}]}`)
	f.Add("apiVersion: v1\nkind: Namespace\nmetadata: {name: x, namespace: y}")
	f.Fuzz(func(t *testing.T, text string) {
		cluster := backuptest.New(t)
		if _, err := cluster.Load(strings.NewReader(text)); err != nil {
			return
		}
		if _, err := cluster.Load(strings.NewReader(text)); err != nil {
			t.Errorf("loading the same dump again: %v", err)
		}
	})
}

// B1: a dump of a real API server loads whole.
func TestLoadRealDump(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/cluster-dump.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	c := newClients(t)
	skipped, err := c.cluster.Load(file)
	if err != nil || len(skipped) > 0 {
		t.Fatalf("Load = %v, %v, want all loaded", skipped, err)
	}
	pods, err := c.core.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		t.Errorf("pods = %d, %v, want some", len(pods.Items), err)
	}
}
