package finalize_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
)

// before does something with each request before it is sent.
type before struct {
	http.RoundTripper

	do func(*http.Request)
}

func (b before) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	b.do(req)
	return b.RoundTripper.RoundTrip(req)
}

// F6: what is another's stays, also when a server does not look at the selector, and when another has made a thing of the
// same name between the list and the deletion.
func TestRemoveTemporaryOfAnother(t *testing.T) {
	t.Parallel()
	pod := func(name, owner string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name, Labels: map[string]string{"sheetanchor.io/owner": owner}}}
	}
	for name, tc := range map[string]struct {
		reason string
		meanly func(t *testing.T, cluster *backuptest.Cluster, req *http.Request)
		mine   bool // a pod of that name is there at the end
	}{
		"no selector": {"the label is read in the object", func(_ *testing.T, _ *backuptest.Cluster, req *http.Request) {
			query := req.URL.Query()
			query.Del("labelSelector")
			req.URL.RawQuery = query.Encode()
		}, false},
		"replaced": {"the UID that was read decides", func(t *testing.T, cluster *backuptest.Cluster, req *http.Request) {
			t.Helper()
			if req.Method != http.MethodDelete {
				return
			}
			pods := coreOf(t, cluster).CoreV1().Pods("app")
			err := pods.Delete(t.Context(), "mine", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			if err == nil {
				_, err = pods.Create(t.Context(), pod("mine", "u2"), metav1.CreateOptions{})
			}
			if err != nil {
				t.Error(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster := backuptest.New(t, backuptest.Options{Objects: []runtime.Object{pod("mine", "u1"), pod("other", "u2")}})
				config := cluster.Config()
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return before{next, func(req *http.Request) { tc.meanly(t, cluster, req) }}
				})
				client, err := dynamic.NewForConfig(config)
				if err != nil {
					t.Fatal(err)
				}
				h := runOnce(t, finalize.RemoveTemporary(client, finalize.Temporary{
					Label: "sheetanchor.io/owner", Owner: "u1", Namespaces: []string{"app"}, Timeout: time.Minute,
					Resources: []schema.GroupVersionResource{{Version: "v1", Resource: "pods"}},
				})).Hooks[0]
				if h.State != finalize.Succeeded {
					t.Errorf("hook = %+v, want success (%s)", h, tc.reason)
				}
				for pod, want := range map[string]bool{"mine": tc.mine, "other": true} {
					_, err := coreOf(t, cluster).CoreV1().Pods("app").Get(t.Context(), pod, metav1.GetOptions{})
					if (err == nil) != want || err != nil && !apierrors.IsNotFound(err) {
						t.Errorf("pod %s: %v, want it there: %t (%s)", pod, err, want, tc.reason)
					}
				}
			})
		})
	}
}
