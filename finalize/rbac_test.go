package finalize_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/volumeinfo/volumekube"
)

// X3: the hooks and the collector run with exactly the rights of docs/rbac/finalize.yaml, all of which they use.
func TestRoles(t *testing.T) {
	t.Parallel()
	roles, err := os.ReadFile("../docs/rbac/finalize.yaml")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c := csisnapshot.Names{}
		snapshot := backuptest.Snapshot{Namespace: "app", Name: "s", Claim: "data", Labels: map[string]string{c.OwnerLabel(): "u1"}}
		vsc := snapshot.VSC()
		vsc.SetLabels(snapshot.Labels)
		objects := append(volume("data", nil), snapshot.VS(), vsc, backuptest.StorageClass{}.Object())
		objects = append(objects, pending("waits", func(*corev1.PersistentVolumeClaim) {})...)
		cluster := backuptest.New(t, backuptest.Options{Objects: objects})
		const user = "system:serviceaccount:operator:operator"
		if err := cluster.Bind(user, bytes.NewReader(roles)); err != nil {
			t.Fatal(err)
		}
		config := cluster.ConfigFor(user)
		core, client := kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
		if _, err := volumekube.Collect(t.Context(), core, csisnapshot.NewDynamic(client), volumekube.Options{Namespaces: []string{"app"}}); err != nil {
			t.Error(err)
		}
		volumes := []finalize.RestoredVolume{restored("data"), restored("waits")}
		resource := func(name string) []schema.GroupVersionResource {
			return []schema.GroupVersionResource{snapshotResource(name)}
		}
		snapshots := finalize.RemoveTemporary(client, finalize.Temporary{Label: c.OwnerLabel(), Owner: "u1", Namespaces: []string{"app"}, Resources: resource("volumesnapshots")})
		contents := finalize.RemoveTemporary(client, finalize.Temporary{Label: c.OwnerLabel(), Owner: "u1", Namespaces: []string{""}, Resources: resource("volumesnapshotcontents")})
		contents.Name = "remove-contents"
		runOnce(t, finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{}), finalize.ValidateVolumes(core, volumes), snapshots, contents)
		used := map[string]bool{}
		for _, e := range cluster.Log().By(user) {
			used[e.Verb+" "+e.Resource] = true
			if e.Code == 403 {
				t.Errorf("%s: forbidden", e)
			}
		}
		if diff := cmp.Diff(allowed(t, roles), used); diff != "" {
			t.Errorf("rights that are given (-) and used (+):\n%s", diff)
		}
	})
}

// allowed returns what the roles of a file allow.
func allowed(t *testing.T, file []byte) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), 4096)
	for {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := dec.Decode(&role); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out[verb+" "+resource] = true
				}
			}
		}
	}
}
