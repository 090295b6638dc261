package backuptest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// podModel is what matters of a pod's end: nothing else decides whether it is there.
type podModel struct {
	exists, onNode, held, deleted bool
	grace                         int64 // left to it when it is deleted
}

// remove is a delete with a grace period, negative for none given.
func (p *podModel) remove(asked int64) {
	grace := int64(0)
	if p.onNode {
		if grace = asked; asked < 0 {
			grace = 30
		}
	}
	if p.deleted && p.grace == 0 {
		grace = 0 // which was its last word
	}
	switch {
	case p.deleted && p.grace > 0 && (asked < 0 || grace >= p.grace):
		return
	case grace == 0 && !p.held:
		*p = podModel{}
		return
	}
	p.deleted, p.grace = true, grace
}

func (p *podModel) free() {
	if p.held = false; p.deleted && p.grace == 0 {
		*p = podModel{}
	}
}

// B1: over random histories of deletes with and without grace and of finalizers a pod is there exactly as long as a plain
// account of both says, and its grace period is that of the account.
func TestPodModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				rng := rand.New(rand.NewPCG(seed, 2))
				pods := c.core.CoreV1().Pods("app")
				var m podModel
				for range 120 {
					var err error
					before, missing := m, !m.exists // before a create nothing is missed
					switch rng.IntN(6) {
					case 0, 1:
						pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
						fresh := podModel{exists: true, onNode: rng.IntN(4) > 0, held: rng.IntN(2) == 0}
						if fresh.onNode {
							pod.Spec.NodeName = "n"
						}
						if fresh.held {
							pod.Finalizers = []string{modelFinalizer}
						}
						_, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
						if m.exists {
							if !apierrors.IsAlreadyExists(err) {
								t.Fatalf("create = %v with %+v", err, m)
							}
							continue
						}
						m, missing = fresh, false
					case 2:
						_, err = pods.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
						if m.exists {
							m.free()
						}
					default:
						asked := rng.Int64N(4)*5 - 5
						opts := metav1.DeleteOptions{}
						if asked >= 0 {
							opts.GracePeriodSeconds = &asked
						}
						err = pods.Delete(t.Context(), "web", opts)
						if m.exists {
							m.remove(asked)
						}
					}
					if missing != apierrors.IsNotFound(err) || !missing && err != nil {
						t.Fatalf("%v, with %+v before", err, before)
					}
					checkPod(t, c, m)
				}
			})
		})
	}
}

func checkPod(t *testing.T, c clients, m podModel) {
	t.Helper()
	got, err := c.core.CoreV1().Pods("app").Get(t.Context(), "web", metav1.GetOptions{})
	if !m.exists {
		if !apierrors.IsNotFound(err) {
			t.Fatalf("pod = %v, %v, want NotFound", got, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("pod = %v, want %+v", err, m)
	}
	if deleted := got.DeletionTimestamp != nil; deleted != m.deleted || (len(got.Finalizers) > 0) != m.held {
		t.Fatalf("pod = %+v, want %+v", got.ObjectMeta, m)
	}
	if m.deleted && *got.DeletionGracePeriodSeconds != m.grace {
		t.Fatalf("grace %d, want %+v", *got.DeletionGracePeriodSeconds, m)
	}
	if m.deleted && m.grace > 0 && time.Until(got.DeletionTimestamp.Time) != time.Duration(m.grace)*time.Second {
		t.Fatalf("ends in %v, want %d s", time.Until(got.DeletionTimestamp.Time), m.grace)
	}
}
