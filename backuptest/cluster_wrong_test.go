package backuptest_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B1: a definition that no server would take is refused by its name and its fields, and nothing is stored.
func TestMalformedDefinitions(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things}\n"
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"a number for a group": {"spec: {group: 3}", []string{"CustomResourceDefinition", "things", "spec", "group"}},
		"nothing":              {"spec: {}", []string{"things", "spec.group", "spec.names.plural", "spec.scope", "spec.versions"}},
		"another name": {
			"spec: {group: a.b, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}",
			[]string{"metadata.name", "things"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := backuptest.New(t).Load(strings.NewReader(head + tc.spec))
			if err == nil {
				t.Fatal("Load = nil, want an error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Load = %v, want it to name %s", err, want)
				}
			}
		})
	}
}

// B1: any user can be bound, whatever the name of a binding may hold.
func TestBindAnyUser(t *testing.T) {
	t.Parallel()
	const roles = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: op}\nrules: [{apiGroups: [''], resources: [configmaps], verbs: [list]}]"
	cluster := backuptest.New(t)
	for _, user := range []string{"a/b c", "https://issuer.example#bob", "50%", "op"} {
		if err := cluster.Bind(user, strings.NewReader(roles)); err != nil {
			t.Errorf("Bind(%q) = %v", user, err)
			continue
		}
		core := kubernetes.NewForConfigOrDie(cluster.ConfigFor(user)).CoreV1()
		if _, err := core.ConfigMaps("app").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("List as %q = %v, want what the role allows", user, err)
		}
	}
}

// B1: the zero Cluster answers at once, and asks no network.
func TestZeroCluster(t *testing.T) {
	t.Parallel()
	cluster := &backuptest.Cluster{}
	core := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1()
	_, err := core.ConfigMaps("app").List(t.Context(), metav1.ListOptions{})
	if failed, ok := errors.AsType[*url.Error](err); !ok || !strings.Contains(failed.Error(), "Start or New") {
		t.Errorf("List = %v, want that nobody made the cluster", err)
	}
	_, loading := cluster.Load(strings.NewReader("{}"))
	for what, err := range map[string]error{"Add": cluster.Add(configMap("one", nil)), "Load": loading} {
		if err == nil || !strings.Contains(err.Error(), "Start or New") {
			t.Errorf("%s = %v, want that nobody made the cluster", what, err)
		}
	}
	cluster.Close()
}

// B1: a fault that could never act ends the test of New where it is set.
func TestWrongFaultEndsTest(t *testing.T) {
	t.Parallel()
	var tb recorder
	cluster := backuptest.New(&tb)
	defer func() {
		for _, cleanup := range slices.Backward(tb.cleanups) {
			cleanup()
		}
	}()
	cluster.Fault(backuptest.Fault{Code: 403})
	if tb.fatal != "" {
		t.Errorf("fatal %q after a good fault", tb.fatal)
	}
	cluster.Fault(backuptest.Fault{Nth: -1, Code: 500})
	if !strings.Contains(tb.fatal, "Nth: -1") {
		t.Errorf("fatal %q, want it to name Nth", tb.fatal)
	}
}
