package e2e_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
)

// F6: X3: the examples: what examples/backup wrote down, examples/restore brings back into another namespace, with the policy and labels
// of the volumes. A second run changes nothing; its user asks for nothing of the old namespace; the backup's snapshots are held at the end,
// and nothing of the way is left in the cluster.
func testExamples(t *testing.T) {
	t.Helper()
	c := cluster(t)
	origin := application(t, "example", app.Spec{Claims: app.Named("data", "wal")})
	labelVolumes(t, origin, `{"metadata":{"labels":{"team":"a"}},"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`, "data", "wal")
	b := backup(t, origin)
	exit, err := b.Run(within(t, bound))
	must(t, err)
	taken := completed(t, exit)
	released(t, origin, taken)

	roles := filepath.Join("testdata", "restoreexample.yaml")
	target := applicationAs(t, "example-restored", roles, app.Spec{})
	path, err := restoreProgram()
	must(t, err)
	mark, err := c.Stack.Audit().Mark()
	must(t, err)
	for range 2 { // the second finds that all is done
		run, err := target.Start(within(t, bound), path, "-o", "json", "-backup", b.Name, "-name", "again", "-store", b.Store, "-map", origin.Namespace+"="+target.Namespace)
		must(t, err)
		exit, err := run.Wait(within(t, bound))
		must(t, err)
		var got struct {
			Phase   string
			Volumes []struct{ PVC string }
		}
		if err := json.Unmarshal([]byte(exit.Stdout), &got); err != nil || exit.Code != app.CodeCompleted || got.Phase != phase.Completed || len(got.Volumes) != 2 {
			t.Fatalf("the restore ends with code %d, %v, output %q, standard error %q", exit.Code, err, exit.Stdout, exit.Stderr)
		}
	}
	volumes, err := c.Stack.Driver().Volumes(t.Context())
	must(t, err)
	sources := map[string]string{}
	for _, v := range volumes {
		sources[v.Claim] = v.Source
	}
	for claim, handle := range taken.Handles() {
		pv := volumeOf(t, target, claim)
		if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || pv.Labels["team"] != "a" {
			t.Errorf("%s: policy %s, labels %v, want Retain, team a", claim, pv.Spec.PersistentVolumeReclaimPolicy, pv.Labels)
		}
		if got := sources[target.Namespace+"/"+claim]; got != handle {
			t.Errorf("%s is made of %q, want %q", claim, got, handle)
		}
	}
	rights(t, target, origin.Namespace, roles, mark)
	clean(t, target)
	judge(t, origin, 2, 2)
}
