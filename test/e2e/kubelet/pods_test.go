package kubelet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

func (s *stub) get(t *testing.T, key string) *corev1.Pod {
	t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	pod, err := s.core.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// await waits until a pod is as wanted. A pod that is gone is nil.
func (s *stub) await(t *testing.T, key string, enough func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	var last *corev1.Pod
	err := wait.PollUntilContextCancel(within(t), 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := s.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return false, nil //nolint:nilerr // some tests take the server away
		}
		last = nil
		if len(list.Items) > 0 {
			last = &list.Items[0]
		}
		return enough(last), nil
	})
	if err != nil {
		t.Fatalf("pod %s: %v; last seen %+v", key, err, last)
	}
	return last
}

// phaseIs waits for a phase.
func phaseIs(phase corev1.PodPhase) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == phase }
}

func TestPodStatus(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason     string
		annotation string
		want       corev1.PodPhase
		ready      bool
	}{
		"running":         {reason: "a pod runs unless it is told otherwise", want: corev1.PodRunning, ready: true},
		"running as said": {reason: "the annotation may say Running", annotation: "Running", want: corev1.PodRunning, ready: true},
		"pending":         {reason: "the annotation's phase", annotation: "Pending", want: corev1.PodPending},
		"succeeded":       {reason: "the annotation's phase", annotation: "Succeeded", want: corev1.PodSucceeded},
		"failed":          {reason: "the annotation's phase", annotation: "Failed", want: corev1.PodFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startStub(t)
			pod := newPod("app/db")
			pod.Spec.InitContainers = []corev1.Container{
				{Name: "setup", Image: "x"}, {Name: "side", Image: "x", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
			}
			if tc.annotation != "" {
				pod.Annotations = map[string]string{kubelet.PhaseAnnotation: tc.annotation}
			}
			s.create(t, pod)
			settled := func(pod *corev1.Pod) bool { return pod != nil && pod.Status.StartTime != nil }
			status := s.await(t, "app/db", settled).Status
			if status.Phase != tc.want {
				t.Errorf("%s: phase %s, want %s", tc.reason, status.Phase, tc.want)
			}
			if status.PodIP != "127.0.0.1" || status.HostIP != "127.0.0.1" || len(status.PodIPs) != 1 || len(status.HostIPs) != 1 {
				t.Errorf("addresses %q %q %v %v, want 127.0.0.1 everywhere", status.PodIP, status.HostIP, status.PodIPs, status.HostIPs)
			}
			for _, c := range status.Conditions {
				if want := c.Type == corev1.PodScheduled || c.Type == corev1.PodInitialized || tc.ready; (c.Status == corev1.ConditionTrue) != want {
					t.Errorf("condition %s is %s", c.Type, c.Status)
				}
			}
			if len(status.Conditions) != 4 || len(status.ContainerStatuses) != 2 || len(status.InitContainerStatuses) != 2 {
				t.Fatalf("status %+v, want 4 conditions, 2 containers, 2 init containers", status)
			}
			for i, c := range append(status.ContainerStatuses, status.InitContainerStatuses[1]) {
				if (c.State.Running != nil) != tc.ready || c.Ready != tc.ready || *c.Started != tc.ready || c.Name != []string{"main", "proxy", "side"}[i] {
					t.Errorf("container status %+v, want running and ready: %t", c, tc.ready)
				}
			}
			if c := status.InitContainerStatuses[0]; c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
				t.Errorf("init container status %+v, want it completed", c)
			}
		})
	}
}

// A status is patched once, pods of other nodes and pods with a phase that does not exist are left alone, and nothing is
// asked for beyond what the package comment says.
func TestPodRequests(t *testing.T) {
	t.Parallel()
	other, odd := newPod("app/other"), newPod("app/odd")
	other.Spec.NodeName = "another-node"
	odd.Annotations = map[string]string{kubelet.PhaseAnnotation: "running"}
	s := startStub(t, newPod("app/early"), other, odd)
	s.create(t, newPod("app/late"))
	s.await(t, "app/early", phaseIs(corev1.PodRunning))
	late := s.await(t, "app/late", phaseIs(corev1.PodRunning))
	late.Labels = map[string]string{"changed": "yes"}
	if _, err := s.core.CoreV1().Pods("app").Update(t.Context(), late, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.create(t, newPod("app/last"))
	s.await(t, "app/last", phaseIs(corev1.PodRunning))
	for _, key := range []string{"app/other", "app/odd"} {
		if pod := s.get(t, key); pod.Status.StartTime != nil {
			t.Errorf("pod %s has status %+v, want it left alone", key, pod.Status)
		}
	}
	got := s.cluster.RequestsBy("kubelet")
	delete(got, "list pods") // an older server is asked for a list first
	if diff := cmp.Diff(map[string]int{"watch pods": 1, "patch pods/status": 3}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A pod that changes its mind gets the new phase, until one that is for good.
func TestPodPhaseChanges(t *testing.T) {
	t.Parallel()
	pod := newPod("app/job")
	pod.Annotations = map[string]string{kubelet.PhaseAnnotation: "Pending"}
	s := startStub(t, pod)
	started := s.await(t, "app/job", func(pod *corev1.Pod) bool { return pod.Status.StartTime != nil }).Status.StartTime
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
		pod := s.get(t, "app/job")
		pod.Annotations[kubelet.PhaseAnnotation] = string(phase)
		if _, err := s.core.CoreV1().Pods("app").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod = s.await(t, "app/job", phaseIs(phase))
		if !pod.Status.StartTime.Equal(started) {
			t.Errorf("start time %v in phase %s, want %v", pod.Status.StartTime, phase, started)
		}
	}
}

// A pod that is being deleted is deleted for good, without grace and this very one.
func TestPodDeletion(t *testing.T) {
	t.Parallel()
	s := &stub{}
	pod := newPod("app/db")
	pod.Finalizers = []string{"e2e.sheetanchor.io/hold"} // the server keeps it, as a real one does for its grace period
	s.start(t, pod)
	bodies := make(chan string, 10)
	s.opts.Config.ContentType = runtime.ContentTypeJSON
	s.opts.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return deletes{next, bodies} })
	s.run(t)
	pods := s.core.CoreV1().Pods("app")
	if err := pods.Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got metav1.DeleteOptions
	if err := json.Unmarshal([]byte(<-bodies), &got); err != nil {
		t.Fatal(err)
	}
	uid := s.get(t, "app/db").UID
	if got.GracePeriodSeconds == nil || *got.GracePeriodSeconds != 0 || got.Preconditions == nil || *got.Preconditions.UID != uid {
		t.Errorf("delete options %+v, want grace 0 and UID %s", got, uid)
	}
	if _, err := pods.Patch(t.Context(), "db", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await(t, "app/db", func(pod *corev1.Pod) bool { return pod == nil })
	_, _, err := run(within(t), t, s.config(), s.execURL("app/db/main", "x"), transports["spdy"])
	if err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("exec in a deleted pod: %v, want that it does not exist", err)
	}
}

// deletes sends the bodies of deletions to a channel.
type deletes struct {
	next   http.RoundTripper
	bodies chan<- string
}

func (d deletes) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodDelete {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		d.bodies <- string(data)
		req.Body = io.NopCloser(bytes.NewReader(data))
	}
	return d.next.RoundTrip(req)
}

// The API server may go away and come back, and refuse what it does not understand yet.
func TestPodsSurviveTheServer(t *testing.T) {
	t.Parallel()
	cases := map[string]backuptest.Fault{
		"a restart":            {Action: backuptest.FaultRefuse, For: 200 * time.Millisecond},
		"patches that fail":    {Verb: "patch", Code: http.StatusInternalServerError, Times: 3},
		"roles not loaded yet": {Code: http.StatusForbidden, For: 200 * time.Millisecond},
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startStub(t)
			s.create(t, newPod("app/first"))
			s.await(t, "app/first", phaseIs(corev1.PodRunning))
			s.cluster.EndWatches("")
			defer s.cluster.Fault(fault)()
			err := wait.PollUntilContextCancel(within(t), 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				_, err := s.core.CoreV1().Pods("app").Create(ctx, newPod("app/second"), metav1.CreateOptions{})
				return err == nil, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			s.await(t, "app/second", phaseIs(corev1.PodRunning))
		})
	}
}

// refuse is an API server that is down.
var refuse = backuptest.Fault{Action: backuptest.FaultRefuse}
