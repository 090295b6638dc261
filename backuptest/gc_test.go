package backuptest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// running starts a Run function and returns what ends it and waits for that.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err == nil {
			t.Error("Run = nil, want the cause of its end")
		}
	}
}

func collector(t *testing.T, c clients) *backuptest.GarbageCollector {
	t.Helper()
	g, err := backuptest.NewGarbageCollector(metadata.NewForConfigOrDie(c.cluster.Config()), c.core.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// child is a config map with owners, "block" before a name meaning blockOwnerDeletion.
func child(name string, owners ...string) *corev1.ConfigMap {
	m := configMap(name, nil)
	m.UID = types.UID("uid-" + name)
	for _, owner := range owners {
		plain, blocks := strings.CutPrefix(owner, "block ")
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: plain, UID: types.UID("uid-" + plain), BlockOwnerDeletion: &blocks,
		})
	}
	return m
}

// B1, all-6: what an owner's end means to its dependents, by how it was deleted.
func TestGarbageCollector(t *testing.T) {
	t.Parallel()
	orphan, foreground, background := metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground
	tests := map[string]struct {
		reason  string
		objects []*corev1.ConfigMap
		remove  string
		policy  *metav1.DeletionPropagation
		want    string // names left, with their owners and finalizers
	}{
		"background":         {"dependents follow their owner, and theirs them", []*corev1.ConfigMap{child("a"), child("b", "a"), child("c", "b")}, "a", &background, ""},
		"orphaned":           {"dependents stay without their owner", []*corev1.ConfigMap{child("a"), child("b", "a"), child("c", "b")}, "a", &orphan, "b c<b"},
		"foreground":         {"dependents go first", []*corev1.ConfigMap{child("a"), child("b", "block a"), child("c", "block b")}, "a", &foreground, ""},
		"two owners":         {"one is enough to stay", []*corev1.ConfigMap{child("a"), child("z"), child("b", "a", "z")}, "a", &background, "b<z z"},
		"absent from before": {"an owner that never was is absent", []*corev1.ConfigMap{child("b", "never")}, "", nil, ""},
		"one absent":         {"a reference to nothing is dropped", []*corev1.ConfigMap{child("z"), child("b", "never", "z")}, "", nil, "b<z z"},
		"unrelated":          {"nobody else is touched", []*corev1.ConfigMap{child("a"), child("y")}, "a", &background, "y"},
		"a cycle":            {"owners of each other keep each other", []*corev1.ConfigMap{child("a", "b"), child("b", "a")}, "", nil, "a<b b<a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				for _, m := range tc.objects {
					if err := c.cluster.Add(m); err != nil {
						t.Fatal(err)
					}
				}
				defer running(t, collector(t, c).Run)()
				synctest.Wait()
				maps := c.core.CoreV1().ConfigMaps("app")
				if tc.remove != "" {
					if err := maps.Delete(t.Context(), tc.remove, metav1.DeleteOptions{PropagationPolicy: tc.policy}); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				list, err := maps.List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				left := []string{}
				for i := range list.Items {
					var text strings.Builder
					text.WriteString(list.Items[i].Name)
					for _, ref := range list.Items[i].OwnerReferences {
						text.WriteString("<" + ref.Name)
					}
					left = append(left, text.String()+strings.Join(list.Items[i].Finalizers, "!"))
				}
				if diff := cmp.Diff(tc.want, strings.Join(left, " ")); diff != "" {
					t.Errorf("%s: left -want +got:\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// B1: an owner with another UID, or in another namespace, is absent; one of a kind nobody knows is not.
func TestGarbageCollectorLooksClosely(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		owner := child("owner")
		another := child("another-uid", "owner")
		another.OwnerReferences[0].UID = "uid-of-one-before"
		elsewhere := child("elsewhere", "owner")
		elsewhere.Namespace = "default"
		strange := child("strange", "owner")
		strange.OwnerReferences[0].Kind = "Mystery"
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: child("x", "owner").OwnerReferences}}
		good := child("good", "owner")
		if err := c.cluster.Add(owner, another, elsewhere, strange, node, good); err != nil {
			t.Fatal(err)
		}
		defer running(t, collector(t, c).Run)()
		synctest.Wait()
		list, err := c.core.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"good", "owner", "strange"}, names(list)); diff != "" {
			t.Errorf("left -want +got:\n%s", diff)
		}
		if _, err := c.core.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err != nil {
			t.Errorf("a node owned by a config map = %v, want it left", err)
		}
	})
}

// B1: with foreground deletion the owner waits for the dependents that block it; kinds that are defined later are collected,
// and requests that fail are repeated.
func TestGarbageCollectorWaitsAndRepeats(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		held := child("held", "block owner")
		held.Finalizers = []string{"example.dev/hold"}
		if err := c.cluster.Add(child("owner"), held); err != nil {
			t.Fatal(err)
		}
		c.cluster.Fault(backuptest.Fault{Verb: "patch", Times: 1, Action: backuptest.FaultStatus, Code: 500})
		defer running(t, collector(t, c).Run)()
		foreground := metav1.DeletePropagationForeground
		maps := c.core.CoreV1().ConfigMaps("app")
		if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := maps.Get(t.Context(), "owner", metav1.GetOptions{}); err != nil || got.DeletionTimestamp == nil {
			t.Errorf("owner = %v, %v, want it held by its dependent", got, err)
		}
		if got, err := maps.Get(t.Context(), "held", metav1.GetOptions{}); err != nil || got.DeletionTimestamp == nil {
			t.Errorf("dependent = %v, %v, want it deleted", got, err)
		}
		for { // the fault may hit either patch
			if _, err := maps.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err == nil {
				break
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if _, err := maps.Get(t.Context(), "owner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("owner = %v, want NotFound", err)
		}

		backups := define(t, c)
		synctest.Wait()
		b := backup(t, "{mode: full}")
		b.SetOwnerReferences(child("x", "never").OwnerReferences)
		if _, err := backups.Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := backups.Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("dependent of nothing = %v, want NotFound", err)
		}
	})
}

// B1, B3: a deleted pod lives until its kubelet has stopped it, and no longer than its grace period.
func TestKubelet(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		quick, slow, other := podOn("n", nil), podOn("n", nil), podOn("other", nil)
		quick.Name, slow.Name, other.Name = "quick", "slow", "other"
		if err := c.cluster.Add(quick, slow, other); err != nil {
			t.Fatal(err)
		}
		kubelet, err := backuptest.NewKubelet(c.core, backuptest.KubeletOptions{Node: "n", Stopping: func(pod *corev1.Pod) time.Duration {
			if pod.Name == "slow" {
				return time.Hour
			}
			return 2 * time.Second
		}})
		if err != nil {
			t.Fatal(err)
		}
		c.cluster.Fault(backuptest.Fault{Verb: "delete", Resource: "pods", Name: "quick", Nth: 2, Action: backuptest.FaultStatus, Code: 500})
		defer running(t, kubelet.Run)()
		synctest.Wait()
		pods := c.core.CoreV1().Pods("app")
		for _, name := range []string{"quick", "slow", "other"} {
			if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []struct {
			wait time.Duration
			want int
		}{{2500 * time.Millisecond, 3}, {time.Second, 2}, {25 * time.Second, 2}, {2 * time.Second, 1}} {
			time.Sleep(at.wait)
			list, err := pods.List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != at.want {
				t.Errorf("%d pods %v later, %v, want %d", len(list.Items), at.wait, err, at.want)
			}
		}
	})
}

func TestHelpersNeedClients(t *testing.T) {
	t.Parallel()
	if _, err := backuptest.NewGarbageCollector(nil, nil); err == nil || !strings.Contains(err.Error(), "metadata") || !strings.Contains(err.Error(), "discovery") {
		t.Errorf("NewGarbageCollector(nil, nil) = %v, want both named", err)
	}
	if _, err := backuptest.NewKubelet(nil, backuptest.KubeletOptions{}); err == nil {
		t.Error("NewKubelet(nil) = nil, want an error")
	}
}
