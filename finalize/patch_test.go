package finalize_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
)

// bodies keeps what was sent with a method.
type bodies struct {
	http.RoundTripper

	method string
	sent   [][]byte
}

func (b *bodies) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == b.method {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		b.sent, req.Body = append(b.sent, data), io.NopCloser(bytes.NewReader(data))
	}
	return b.RoundTripper.RoundTrip(req)
}

// F6: a patch carries the UID and the resourceVersion of the volume that was judged, each a guard of its own: a server that
// checks one of them alone refuses what was overtaken.
func TestPatchIsConditional(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t, backuptest.Options{Objects: volume("data", nil)})
		before, err := coreOf(t, cluster).CoreV1().PersistentVolumes().Get(t.Context(), "pv-data", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patches := &bodies{method: http.MethodPatch}
		config := cluster.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			patches.RoundTripper = next
			return patches
		})
		core, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		runOnce(t, finalize.RestorePVs(core, []finalize.RestoredVolume{restored("data")}, finalize.RestorePVOptions{}))
		if len(patches.sent) != 1 {
			t.Fatalf("%d patches, want 1", len(patches.sent))
		}
		var got struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(patches.sent[0], &got); err != nil {
			t.Fatal(err)
		}
		if got.Metadata.UID != before.UID || got.Metadata.ResourceVersion != before.ResourceVersion || before.UID == "" || before.ResourceVersion == "" {
			t.Errorf("the patch %s is not for UID %q and resourceVersion %q alone", patches.sent[0], before.UID, before.ResourceVersion)
		}
	})
}
