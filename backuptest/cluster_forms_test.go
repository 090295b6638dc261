package backuptest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// ask sends a GET as no client of Go does, and returns the answer and its body.
func ask(t *testing.T, c clients, path, accept string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://cluster.invalid"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := c.cluster.RoundTripper().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// B1: client-go's metadata client gets, lists, watches, patches and deletes metadata.
func TestMetadataClient(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{Objects: many(3)}, func(c clients) {
		t := c.t
		client, err := metadata.NewForConfig(c.cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("app")
		list, err := maps.List(t.Context(), metav1.ListOptions{Limit: 2})
		if err != nil || len(list.Items) != 2 || list.Continue == "" || list.Items[1].Name != "m-00001" || list.Items[1].UID == "" {
			t.Fatalf("list = %+v, %v, want two of three", list, err)
		}
		w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		patched, err := maps.Patch(t.Context(), "m-00001", types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{})
		if err != nil || patched.Labels["seen"] != "yes" {
			t.Errorf("patch = %+v, %v, want the label", patched, err)
		}
		if e := <-w.ResultChan(); e.Type != watch.Modified {
			t.Errorf("event = %v, want MODIFIED", e)
		} else if got, ok := e.Object.(*metav1.PartialObjectMetadata); !ok || got.ResourceVersion != patched.ResourceVersion {
			t.Errorf("event's object = %#v, want the metadata of what was patched", e.Object)
		}
		if err := maps.Delete(t.Context(), "m-00001", metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete = %v", err)
		}
		if _, err := maps.Get(t.Context(), "m-00001", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get = %v, want NotFound", err)
		}
	})
}

// B1: a list, an object and a watch are shown as tables to who asks for one.
func TestTables(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{Objects: many(2)}, func(c clients) {
		t := c.t
		const accept, path = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "/api/v1/namespaces/app/configmaps"
		for _, tc := range []struct {
			path   string
			rows   int
			object string // kind of what the first row holds
		}{
			{path, 2, "PartialObjectMetadata"},
			{path + "/m-00001", 1, "PartialObjectMetadata"},
			{path + "?includeObject=Object", 2, "ConfigMap"},
			{path + "?includeObject=None", 2, ""},
		} {
			_, body := ask(t, c, tc.path, accept)
			var table metav1.Table
			if err := json.Unmarshal(body, &table); err != nil || table.Kind != "Table" || len(table.Rows) != tc.rows {
				t.Errorf("GET %s = %s, %v, want a table of %d", tc.path, body, err, tc.rows)
				continue
			}
			row := table.Rows[tc.rows-1]
			if len(table.ColumnDefinitions) != len(row.Cells) || row.Cells[0] != "m-00001" {
				t.Errorf("GET %s: row %v with %d columns", tc.path, row.Cells, len(table.ColumnDefinitions))
			}
			var object metav1.TypeMeta
			if len(row.Object.Raw) > 0 {
				if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
					t.Error(err)
				}
			}
			if object.Kind != tc.object {
				t.Errorf("GET %s: row holds %q, want %q", tc.path, object.Kind, tc.object)
			}
		}
		_, body := ask(t, c, path+"?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", accept)
		kinds := []string{}
		for line := range strings.Lines(string(body)) {
			var event struct {
				Type   string
				Object metav1.TypeMeta
			}
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, event.Type+" "+event.Object.Kind)
		}
		if diff := cmp.Diff([]string{"ADDED Table", "ADDED Table", "BOOKMARK Table"}, kinds); diff != "" {
			t.Errorf("watch -want +got:\n%s", diff)
		}
	})
}

// B1: a client that takes nothing but protobuf is told so; one that only prefers it works on built-in kinds, and is told
// that custom ones cannot be sent in it.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	const protobuf = "application/vnd.kubernetes.protobuf"
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		client := func(accept, content string) (*kubernetes.Clientset, *snapshots.Clientset) {
			config := c.cluster.Config()
			config.ContentConfig = rest.ContentConfig{AcceptContentTypes: accept, ContentType: content}
			return kubernetes.NewForConfigOrDie(config), snapshots.NewForConfigOrDie(config)
		}
		prefers, snaps := client(protobuf+",application/json", protobuf)
		if _, err := prefers.CoreV1().ConfigMaps("app").Create(t.Context(), configMap("one", nil), metav1.CreateOptions{}); err != nil {
			t.Errorf("create by a client that prefers protobuf = %v", err)
		}
		if _, err := prefers.CoreV1().ConfigMaps("app").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
			t.Errorf("get by a client that prefers protobuf = %v", err)
		}
		if _, err := snaps.SnapshotV1().VolumeSnapshots("app").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("list of snapshots by a client that prefers protobuf = %v", err)
		}
		err := snaps.SnapshotV1().RESTClient().Post().Namespace("app").Resource("volumesnapshots").SetHeader("Content-Type", protobuf).Body([]byte("k8s\x00")).Do(t.Context()).Error()
		if !apierrors.IsUnsupportedMediaType(err) || !strings.Contains(err.Error(), "application/json") {
			t.Errorf("create of a snapshot in protobuf = %v, want 415 naming JSON", err)
		}
		insists, _ := client(protobuf, protobuf)
		_, err = insists.CoreV1().ConfigMaps("app").Get(t.Context(), "one", metav1.GetOptions{})
		if !apierrors.IsNotAcceptable(err) || !strings.Contains(err.Error(), "only the following media types are accepted: application/json") {
			t.Errorf("get by a client that insists on protobuf = %v, want 406 naming JSON", err)
		}
		resp, body := ask(t, c, "/api/v1/namespaces/app/configmaps", "application/cbor;q=0.9, application/json;q=0")
		if resp.StatusCode != http.StatusNotAcceptable {
			t.Errorf("list for a client that refuses JSON = %s: %s, want 406", resp.Status, body)
		}
		if resp, _ := ask(t, c, "/api/v1/namespaces/app/configmaps", "application/json;as=Sculpture;v=v1;g=meta.k8s.io"); resp.StatusCode != http.StatusNotAcceptable {
			t.Errorf("list as a sculpture = %s, want 406", resp.Status)
		}
	})
}

// B1: discovery in one piece and in many says the same, as a RESTMapper reads it.
func TestAggregatedDiscovery(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		seen := map[bool][]string{}
		for _, legacy := range []bool{false, true} {
			client := discovery.NewDiscoveryClientForConfigOrDie(c.cluster.Config())
			client.UseLegacyDiscovery = legacy
			c.cluster.ResetRequests()
			_, lists, err := client.ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range lists {
				for _, r := range list.APIResources {
					seen[legacy] = append(seen[legacy], list.GroupVersion+" "+r.Name+" "+r.Kind+" "+strings.Join(r.Verbs, ",")+" "+strings.Join(r.ShortNames, ","))
				}
			}
			slices.Sort(seen[legacy])
			if requests := c.cluster.Requests(); !legacy {
				if diff := cmp.Diff(map[string]int{"get /api": 1, "get /apis": 1}, requests); diff != "" {
					t.Errorf("requests -want +got:\n%s", diff)
				}
			} else if requests["get /apis/apps/v1"] != 1 {
				t.Errorf("requests = %v, want one for each version", requests)
			}
		}
		if diff := cmp.Diff(seen[true], seen[false]); diff != "" || len(seen[true]) < 40 {
			t.Errorf("%d resources, -in many +in one:\n%s", len(seen[true]), diff)
		}
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.core.Discovery()))
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
		if err != nil || mapping.Resource.Resource != "deployments" {
			t.Errorf("RESTMapping = %v, %v", mapping, err)
		}
		if v, err := c.core.Discovery().ServerVersion(); err != nil || v.Major != "1" || v.GoVersion == "" {
			t.Errorf("version = %+v, %v", v, err)
		}
	})
}

// B1: a command in a pod needs a connection that this server cannot have; it is refused, not lost.
func TestExecIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		if err := c.cluster.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "web"}}); err != nil {
			t.Fatal(err)
		}
		exec := func(core kubernetes.Interface, name string) error {
			return core.CoreV1().RESTClient().Post().Namespace("app").Resource("pods").Name(name).SubResource("exec").Param("command", "ls").Do(t.Context()).Error()
		}
		if err := exec(c.core, "web"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "Upgrade request required") {
			t.Errorf("exec = %v, want BadRequest", err)
		}
		if err := exec(c.core, "none"); !apierrors.IsNotFound(err) {
			t.Errorf("exec in no pod = %v, want NotFound", err)
		}
		if err := exec(kubernetes.NewForConfigOrDie(c.cluster.ConfigFor("x")), "web"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"pods/exec"`) {
			t.Errorf("exec by nobody = %v, want Forbidden", err)
		}
	})
}
