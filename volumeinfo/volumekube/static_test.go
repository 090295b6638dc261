package volumekube_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/volumeinfo/volumekube"
)

// V3: a content that two snapshots name is read once, and one that was made by hand has its handle before it has a status.
func TestCollectStaticContent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := backedUp("data", "owner")
		content := objects[3].(*unstructured.Unstructured)
		unstructured.RemoveNestedField(content.Object, "status")
		content.Object["spec"].(map[string]any)["source"] = map[string]any{"snapshotHandle": "h-static"}
		second := objects[2].(*unstructured.Unstructured).DeepCopy()
		second.SetName("second")
		second.SetUID("uid-second")
		cluster := backuptest.New(t, backuptest.Options{Objects: append(objects, second)})
		got, err := collect(t.Context(), t, cluster.Config(), volumekube.Options{})
		if err != nil || len(got.Inputs.Snapshots) != 2 || len(got.Inputs.Contents) != 1 {
			t.Fatalf("Collect() = %+v, %v, want two snapshots and one content", got.Inputs, err)
		}
		if h := got.Inputs.Contents[0].Handle; h == nil || *h != "h-static" {
			t.Errorf("handle %v, want that of the source", h)
		}
		if n := cluster.Requests()["get volumesnapshotcontents"]; n != 1 {
			t.Errorf("the content was read %d times, want once", n)
		}
	})
}
