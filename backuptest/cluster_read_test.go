package backuptest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

func many(n int) []runtime.Object {
	objs := make([]runtime.Object, 0, n)
	for i := range n {
		objs = append(objs, configMap(fmt.Sprintf("m-%05d", i), map[string]string{"parity": fmt.Sprint(i % 2)}))
	}
	return objs
}

func names(list *corev1.ConfigMapList) []string {
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}

// B1: lists are selected by labels and fields, in order of namespace and name.
func TestListSelectors(t *testing.T) {
	t.Parallel()
	other := configMap("elsewhere", map[string]string{"parity": "0"})
	other.Namespace = "app-2"
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	tests := map[string]struct {
		namespace string
		opts      metav1.ListOptions
		want      []string
	}{
		"all of a namespace":       {"app", metav1.ListOptions{}, []string{"m-00000", "m-00001", "m-00002"}},
		"all namespaces":           {"", metav1.ListOptions{}, []string{"elsewhere", "m-00000", "m-00001", "m-00002"}},
		"by label":                 {"", metav1.ListOptions{LabelSelector: "parity=0"}, []string{"elsewhere", "m-00000", "m-00002"}},
		"by label set":             {"app", metav1.ListOptions{LabelSelector: "parity notin (0)"}, []string{"m-00001"}},
		"by name":                  {"app", metav1.ListOptions{FieldSelector: "metadata.name=m-00001"}, []string{"m-00001"}},
		"by not this name":         {"app", metav1.ListOptions{FieldSelector: "metadata.name!=m-00001"}, []string{"m-00000", "m-00002"}},
		"by namespace":             {"", metav1.ListOptions{FieldSelector: "metadata.namespace=app-2"}, []string{"elsewhere"}},
		"by label and name":        {"app", metav1.ListOptions{LabelSelector: "parity=1", FieldSelector: "metadata.name=m-00000"}, nil},
		"of a namespace not there": {"nowhere", metav1.ListOptions{}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{Objects: append(many(3), other)}, func(c clients) {
				t := c.t
				list, err := c.core.CoreV1().ConfigMaps(tc.namespace).List(t.Context(), tc.opts)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, names(list)); diff != "" {
					t.Errorf("List -want +got:\n%s", diff)
				}
			})
		})
	}
	inBubble(t, backuptest.Options{Objects: []runtime.Object{running}}, func(c clients) {
		t := c.t
		for selector, want := range map[string]int{"status.phase=Running": 1, "status.phase=Failed": 0, "status.phase!=Failed": 1} {
			list, err := c.core.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: selector})
			if err != nil || len(list.Items) != want {
				t.Errorf("pods with %s = %d, %v, want %d", selector, len(list.Items), err, want)
			}
		}
		_, err := c.snaps.SnapshotV1().VolumeSnapshots("app").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.source=x"})
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "field label not supported: spec.source") {
			t.Errorf("list by a field that is not selectable = %v, want BadRequest naming it", err)
		}
		_, err = c.core.CoreV1().Pods("app").List(t.Context(), metav1.ListOptions{LabelSelector: "a in"})
		if !apierrors.IsBadRequest(err) {
			t.Errorf("list by a broken selector = %v, want BadRequest", err)
		}
	})
}

// B1: the pages of a list show one state, that of the first page, whatever is changed meanwhile; when that state is
// forgotten the answer is 410 Gone.
func TestPaging(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{Objects: many(10)}, func(c clients) {
		t := c.t
		maps := c.core.CoreV1().ConfigMaps("app")
		var got []string
		var version string
		opts := metav1.ListOptions{Limit: 3}
		for pages := 1; ; pages++ {
			list, err := maps.List(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			if version == "" {
				version = list.ResourceVersion
			}
			if list.ResourceVersion != version || len(list.Items) > 3 {
				t.Errorf("page %d: version %s, %d items, want %s and at most 3", pages, list.ResourceVersion, len(list.Items), version)
			}
			if list.RemainingItemCount != nil && int(*list.RemainingItemCount)+len(got)+len(list.Items) != 10 {
				t.Errorf("page %d: %d remaining after %d", pages, *list.RemainingItemCount, len(got)+len(list.Items))
			}
			got = append(got, names(list)...)
			if opts.Continue = list.Continue; opts.Continue == "" {
				break
			}
			switch pages {
			case 1: // behind and ahead of the reader: created, deleted, changed, and re-created
				created(t, c, "a-new")
				created(t, c, "m-00005-new")
				for _, name := range []string{"m-00000", "m-00007", "m-00008"} {
					if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				created(t, c, "m-00008")
			case 2:
				m := configMap("m-00009", map[string]string{"changed": "yes"})
				if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := make([]string, 0, 10)
		for i := range 10 {
			want = append(want, fmt.Sprintf("m-%05d", i))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages -want +got:\n%s", diff)
		}
		exact, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		if err != nil || !slices.Equal(names(exact), want) {
			t.Errorf("list at exactly %s = %v, %v, want the same", version, names(exact), err)
		}

		first, err := maps.List(t.Context(), metav1.ListOptions{Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		created(t, c, "later")
		c.cluster.Compact()
		_, err = maps.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("continue after compaction = %v, want 410 Expired", err)
		}
		if _, err := maps.List(t.Context(), metav1.ListOptions{Continue: "rubbish"}); !apierrors.IsBadRequest(err) {
			t.Errorf("continue with rubbish = %v, want BadRequest", err)
		}
	})
}

// B1: a resourceVersion the server has not reached is a timeout that says so, at any read.
func TestFutureResourceVersion(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		rt := c.cluster.RoundTripper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://cluster.invalid/api/v1/namespaces/app/configmaps?resourceVersion=99999", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusGatewayTimeout || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("answer = %s, Retry-After %q, want 504 and 1", resp.Status, resp.Header.Get("Retry-After"))
		}
	})
}

// B1: ten thousand objects are listed in well under a second.
func TestListTenThousand(t *testing.T) {
	t.Parallel()
	want := race.Scaled(10000, 2000)
	cluster := backuptest.New(t, backuptest.Options{Objects: many(want)})
	start := time.Now()
	var total int
	c, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.CoreV1().ConfigMaps("app").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	total = len(list.Items)
	t.Logf("listed %d in %v", total, time.Since(start))
	if total != want {
		t.Errorf("listed %d, want %d", total, want)
	}
}

func BenchmarkListTenThousand(b *testing.B) {
	cluster, err := backuptest.Start(backuptest.Options{Objects: many(10000)})
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://cluster.invalid/api/v1/configmaps?labelSelector=parity%3D1", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		resp, err := cluster.RoundTripper().RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp, err)
		}
	}
}

// B1: discovery names what the server serves, and only that.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	backups := backuptest.Resource{Group: "example.dev", Version: "v1", Kind: "Backup", Namespaced: true, Status: true}
	inBubble(t, backuptest.Options{Resources: []backuptest.Resource{backups}}, func(c clients) {
		t := c.t
		groups, err := restmapper.GetAPIGroupResources(c.core.Discovery())
		if err != nil {
			t.Fatal(err)
		}
		mapper := restmapper.NewDiscoveryRESTMapper(groups)
		for kind, want := range map[schema.GroupKind]string{
			{Kind: "PersistentVolumeClaim"}:                                           "persistentvolumeclaims",
			{Group: "apps", Kind: "StatefulSet"}:                                      "statefulsets",
			{Group: "storage.k8s.io", Kind: "StorageClass"}:                           "storageclasses",
			{Group: "coordination.k8s.io", Kind: "Lease"}:                             "leases",
			{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotContent"}:         "volumesnapshotcontents",
			{Group: "groupsnapshot.storage.k8s.io", Kind: "VolumeGroupSnapshotClass"}: "volumegroupsnapshotclasses",
			{Group: "example.dev", Kind: "Backup"}:                                    "backups",
		} {
			mapping, err := mapper.RESTMapping(kind)
			if err != nil || mapping.Resource.Resource != want {
				t.Errorf("RESTMapping(%v) = %v, %v, want %s", kind, mapping, err, want)
			}
		}
		if v, err := c.core.Discovery().ServerVersion(); err != nil || v.GitVersion == "" {
			t.Errorf("ServerVersion = %v, %v, want one", v, err)
		}
		if group, err := c.core.Discovery().ServerResourcesForGroupVersion("example.dev/v1"); err != nil || len(group.APIResources) != 2 {
			t.Errorf("resources of example.dev/v1 = %v, %v, want backups and its status", group, err)
		}
		if _, err := c.core.Discovery().ServerResourcesForGroupVersion("nothing.dev/v1"); !apierrors.IsNotFound(err) {
			t.Errorf("resources of an unknown group = %v, want NotFound", err)
		}
	})
}

// B1: group snapshots are served in two versions of the same objects.
func TestTwoVersionsOfOneResource(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		gvr := schema.GroupVersionResource{Group: "groupsnapshot.storage.k8s.io", Version: "v1beta1", Resource: "volumegroupsnapshots"}
		u := unstructuredObject("groupsnapshot.storage.k8s.io/v1beta1", "VolumeGroupSnapshot", "app", "pair")
		if _, err := c.dynamic.Resource(gvr).Namespace("app").Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{"v1beta1", "v1beta2"} {
			gvr.Version = version
			list, err := c.dynamic.Resource(gvr).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 || list.Items[0].GetAPIVersion() != gvr.GroupVersion().String() {
				t.Errorf("list in %s = %v, %v, want pair in it", version, list, err)
			}
		}
		gvr.Version = "v9"
		if _, err := c.dynamic.Resource(gvr).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("list in v9 = %v, want NotFound", err)
		}
	})
}

// B1: without the snapshot CRDs their groups are not discovered, and requests for them find nothing there.
func TestNoSnapshotCRDs(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{NoSnapshotCRDs: true}, func(c clients) {
		t := c.t
		groups, err := c.core.Discovery().ServerGroups()
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups.Groups {
			if strings.Contains(group.Name, "snapshot") {
				t.Errorf("group %s is discovered", group.Name)
			}
		}
		_, err = c.snaps.SnapshotV1().VolumeSnapshots("app").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "the server could not find the requested resource") {
			t.Errorf("list = %v, want what a server without the CRD says", err)
		}
		_, err = dynamic.NewForConfigOrDie(c.cluster.Config()).Resource(snapshotGVR).Namespace("app").Get(t.Context(), "x", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("get = %v, want NotFound", err)
		}
	})
}
