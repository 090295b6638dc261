package backuptest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func podOn(node string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "web", Generation: 1}, Spec: corev1.PodSpec{NodeName: node}}
	if change != nil {
		change(pod)
	}
	return pod
}

func graceOf(seconds int64) metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: &seconds}
}

// B1, all-6: a pod on a node lives on after its deletion for as long as its grace period and its node let it.
func TestPodGrace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		pod    *corev1.Pod
		opts   []metav1.DeleteOptions // a delete each, a second apart
		left   bool
		grace  int64         // deletionGracePeriodSeconds if it is left
		ends   time.Duration // deletionTimestamp after the first delete
	}{
		"on a node":         {"the default is 30 seconds", podOn("n", nil), []metav1.DeleteOptions{{}}, true, 30, 30 * time.Second},
		"its own grace":     {"the spec says how long", podOn("n", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(5)) }), []metav1.DeleteOptions{{}}, true, 5, 5 * time.Second},
		"the request's":     {"a delete may say how long", podOn("n", nil), []metav1.DeleteOptions{graceOf(100)}, true, 100, 100 * time.Second},
		"negative":          {"a negative grace is one second", podOn("n", nil), []metav1.DeleteOptions{graceOf(-7)}, true, 1, time.Second},
		"at once":           {"no grace is no delay", podOn("n", nil), []metav1.DeleteOptions{graceOf(0)}, false, 0, 0},
		"on no node":        {"nobody runs it", podOn("", nil), []metav1.DeleteOptions{graceOf(100)}, false, 0, 0},
		"succeeded":         {"it runs no more", podOn("n", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), []metav1.DeleteOptions{{}}, false, 0, 0},
		"failed":            {"it runs no more", podOn("n", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), []metav1.DeleteOptions{{}}, false, 0, 0},
		"deleted again":     {"a second delete changes nothing", podOn("n", nil), []metav1.DeleteOptions{{}, {}}, true, 30, 30 * time.Second},
		"made longer":       {"grace is never made longer", podOn("n", nil), []metav1.DeleteOptions{{}, graceOf(60)}, true, 30, 30 * time.Second},
		"made shorter":      {"counted from the first delete", podOn("n", nil), []metav1.DeleteOptions{{}, graceOf(10)}, true, 10, 10 * time.Second},
		"shorter than past": {"a deletion time is never moved into the past", podOn("n", nil), []metav1.DeleteOptions{graceOf(9), graceOf(8), graceOf(7), graceOf(1)}, true, 1, 3 * time.Second},
		"then at once":      {"as the node ends it", podOn("n", nil), []metav1.DeleteOptions{{}, graceOf(0)}, false, 0, 0},
		"held at once":      {"a finalizer holds it without grace", podOn("n", func(p *corev1.Pod) { p.Finalizers = []string{"example.dev/hold"} }), []metav1.DeleteOptions{{}, graceOf(0)}, true, 0, time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{Objects: backuptest.Objects()}, func(c clients) {
				t := c.t
				if err := c.cluster.Add(tc.pod.DeepCopy()); err != nil {
					t.Fatal(err)
				}
				pods := c.core.CoreV1().Pods("app")
				start := time.Now()
				for i, opts := range tc.opts {
					if i > 0 {
						<-time.After(time.Second)
					}
					if err := pods.Delete(t.Context(), "web", opts); err != nil {
						t.Fatal(err)
					}
				}
				left, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
				if !tc.left {
					if !apierrors.IsNotFound(err) {
						t.Errorf("%s: got %v, %v, want NotFound", tc.reason, left, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := left.DeletionTimestamp.Sub(start); *left.DeletionGracePeriodSeconds != tc.grace || got != tc.ends || left.Generation != 2 {
					t.Errorf("%s: grace %d, ends after %v, generation %d, want %d, %v, 2", tc.reason, *left.DeletionGracePeriodSeconds, got, left.Generation, tc.grace, tc.ends)
				}
			})
		})
	}
}

// B1: while a pod's grace lasts, taking its last finalizer away does not end it.
func TestPodGraceOutlastsFinalizers(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		if err := c.cluster.Add(podOn("n", func(p *corev1.Pod) { p.Finalizers = []string{"example.dev/hold"} })); err != nil {
			t.Fatal(err)
		}
		pods := c.core.CoreV1().Pods("app")
		steps := []func() error{
			func() error { return pods.Delete(t.Context(), "web", metav1.DeleteOptions{}) },
			func() error {
				_, err := pods.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				return err
			},
			func() error {
				_, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
				return err
			},
			func() error { return pods.Delete(t.Context(), "web", graceOf(0)) },
		}
		for i, step := range steps {
			if err := step(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		if _, err := pods.Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get = %v, want NotFound", err)
		}
	})
}

// B1: what a delete asks of the dependents becomes a finalizer for the garbage collector; a dry run changes nothing.
func TestPropagationFinalizers(t *testing.T) {
	t.Parallel()
	orphan, foreground, background := metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground
	tests := map[string]struct {
		before []string
		opts   metav1.DeleteOptions
		want   []string // nil: gone
	}{
		"by default":       {nil, metav1.DeleteOptions{}, nil},
		"background":       {nil, metav1.DeleteOptions{PropagationPolicy: &background}, nil},
		"foreground":       {nil, metav1.DeleteOptions{PropagationPolicy: &foreground}, []string{"foregroundDeletion"}},
		"orphan":           {nil, metav1.DeleteOptions{PropagationPolicy: &orphan}, []string{"orphan"}},
		"old field":        {nil, metav1.DeleteOptions{OrphanDependents: new(true)}, []string{"orphan"}},  //nolint:staticcheck // deprecated, not gone
		"not orphaned":     {[]string{"orphan"}, metav1.DeleteOptions{OrphanDependents: new(false)}, nil}, //nolint:staticcheck // deprecated, not gone
		"asked for before": {[]string{"foregroundDeletion"}, metav1.DeleteOptions{}, []string{"foregroundDeletion"}},
		"changed mind":     {[]string{"foregroundDeletion", "example.dev/hold"}, metav1.DeleteOptions{PropagationPolicy: &orphan}, []string{"example.dev/hold", "orphan"}},
		"dry":              {[]string{"example.dev/hold"}, metav1.DeleteOptions{PropagationPolicy: &orphan, DryRun: []string{metav1.DryRunAll}}, []string{"example.dev/hold"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				m := configMap("one", nil)
				m.Finalizers = tc.before
				if err := c.cluster.Add(m); err != nil {
					t.Fatal(err)
				}
				maps := c.core.CoreV1().ConfigMaps("app")
				if err := maps.Delete(t.Context(), "one", tc.opts); err != nil {
					t.Fatal(err)
				}
				left, err := maps.Get(t.Context(), "one", metav1.GetOptions{})
				if tc.want == nil {
					if !apierrors.IsNotFound(err) {
						t.Errorf("get = %v, %v, want NotFound", left, err)
					}
					return
				}
				if err != nil || (left.DeletionTimestamp == nil) != (len(tc.opts.DryRun) > 0) {
					t.Fatalf("left = %+v, %v", left, err)
				}
				if diff := cmp.Diff(tc.want, left.Finalizers); diff != "" {
					t.Errorf("finalizers -want +got:\n%s", diff)
				}
			})
		})
	}
}

// B1: options that contradict each other, or name no policy, are refused.
func TestDeleteOptionsRefused(t *testing.T) {
	t.Parallel()
	unknown := metav1.DeletionPropagation("Sideways")
	orphan := metav1.DeletePropagationOrphan
	for name, opts := range map[string]metav1.DeleteOptions{
		"unknown policy": {PropagationPolicy: &unknown},
		"both":           {PropagationPolicy: &orphan, OrphanDependents: new(true)},
		"unknown dryRun": {DryRun: []string{"Some"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				created(c.t, c, "one")
				if err := c.core.CoreV1().ConfigMaps("app").Delete(c.t.Context(), "one", opts); !apierrors.IsInvalid(err) {
					c.t.Errorf("delete = %v, want Invalid", err)
				}
			})
		})
	}
}

// B1: a namespace that is being deleted tells what is left in it, and its own finalizers, of both kinds, hold it.
func TestNamespaceContentAndFinalizers(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		namespaces := c.core.CoreV1().Namespaces()
		made, err := namespaces.Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Finalizers: []string{"example.dev/last"}},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.dev/content"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]corev1.FinalizerName{"example.dev/content", "kubernetes"}, made.Spec.Finalizers); diff != "" {
			t.Errorf("spec.finalizers -want +got:\n%s", diff)
		}
		pod := podOn("n", func(p *corev1.Pod) { p.Namespace, p.Finalizers = "shop", []string{"example.dev/hold"} })
		if err := c.cluster.Add(pod); err != nil {
			t.Fatal(err)
		}
		w, err := namespaces.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=shop", ResourceVersion: made.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if err := namespaces.Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ns, err := namespaces.Get(t.Context(), "shop", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conditions := map[corev1.NamespaceConditionType]string{}
		for _, cond := range ns.Status.Conditions {
			if cond.Status == corev1.ConditionTrue {
				conditions[cond.Type] = cond.Message
			}
		}
		want := map[corev1.NamespaceConditionType]string{
			"NamespaceContentRemaining":    "Some resources are remaining: pods. has 1 resource instances",
			"NamespaceFinalizersRemaining": "Some content in the namespace has finalizers remaining: example.dev/hold in 1 resource instances",
		}
		if diff := cmp.Diff(want, conditions); diff != "" || len(ns.Status.Conditions) != 5 {
			t.Errorf("%d conditions, those that hold -want +got:\n%s", len(ns.Status.Conditions), diff)
		}
		if err := namespaces.Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
			t.Errorf("second delete = %v", err)
		}
		if err := c.core.CoreV1().Pods("shop").Delete(t.Context(), "web", graceOf(0)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.core.CoreV1().Pods("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if ns, err = namespaces.Get(t.Context(), "shop", metav1.GetOptions{}); err != nil {
			t.Fatalf("namespace with finalizers = %v, want it held", err)
		}
		if diff := cmp.Diff([]corev1.FinalizerName{"example.dev/content"}, ns.Spec.Finalizers); diff != "" {
			t.Errorf("spec.finalizers -want +got:\n%s", diff)
		}
		ns.Spec.Finalizers = nil
		if ns, err = namespaces.Finalize(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		ns.Finalizers = nil
		if _, err = namespaces.Update(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		last := watch.EventType("")
		for last != watch.Deleted {
			e := <-w.ResultChan()
			last = e.Type
		}
		if _, err = namespaces.Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get = %v, want NotFound", err)
		}
		if err := namespaces.Delete(t.Context(), "default", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "this namespace may not be deleted") {
			t.Errorf("delete of default = %v, want Forbidden", err)
		}
	})
}
