package finalize_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
)

// fin-7: the user's rules are applied before the patch; what they make equal to what is there is not written, and their
// error or panic is an error of the volume, which is not patched.
func TestAdjust(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		adjust func(pv *corev1.PersistentVolume, change *finalize.PVChange) error
		policy corev1.PersistentVolumeReclaimPolicy
		labels map[string]string
		writes int
		err    string
	}{
		"changed": {
			reason: "a label and another policy", policy: "Delete", labels: map[string]string{"team": "web", "site": "b"}, writes: 1,
			adjust: func(pv *corev1.PersistentVolume, c *finalize.PVChange) error {
				pv.Labels = map[string]string{"lost": "this is a copy"}
				c.ReclaimPolicy, c.Labels["team"], c.Labels["site"] = "Delete", "web", "b"
				return nil
			},
		},
		"nothing left": {
			reason: "no write", policy: "Delete",
			adjust: func(pv *corev1.PersistentVolume, c *finalize.PVChange) error {
				c.ReclaimPolicy, c.Labels = pv.Spec.PersistentVolumeReclaimPolicy, nil
				return nil
			},
		},
		"error": {
			reason: "its error is the volume's", policy: "Delete", err: "adjust persistent volume pv-data: no rule",
			adjust: func(*corev1.PersistentVolume, *finalize.PVChange) error { return errors.New("no rule") },
		},
		"panic": {
			reason: "X1", policy: "Delete", err: "panic: nil map",
			adjust: func(*corev1.PersistentVolume, *finalize.PVChange) error { panic("nil map") },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster := backuptest.New(t, backuptest.Options{Objects: volume("data", nil)})
				core := coreOf(t, cluster)
				adjust := func(_ context.Context, pv *corev1.PersistentVolume, c *finalize.PVChange) error {
					return tc.adjust(pv, c)
				}
				h := runOnce(t, finalize.RestorePVs(core, []finalize.RestoredVolume{restored("data")}, finalize.RestorePVOptions{Adjust: adjust})).Hooks[0]
				if !strings.Contains(h.Error, tc.err) || (h.Error == "") != (tc.err == "") {
					t.Errorf("hook = %+v, want the error %q (%s)", h, tc.err, tc.reason)
				}
				if got := cluster.Requests()["patch persistentvolumes"]; got != tc.writes {
					t.Errorf("%d patches, want %d (%s)", got, tc.writes, tc.reason)
				}
				pv, err := core.CoreV1().PersistentVolumes().Get(t.Context(), "pv-data", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if pv.Spec.PersistentVolumeReclaimPolicy != tc.policy || !cmp.Equal(tc.labels, pv.Labels) {
					t.Errorf("policy %s, labels %v, want %s, %v (%s)", pv.Spec.PersistentVolumeReclaimPolicy, pv.Labels, tc.policy, tc.labels, tc.reason)
				}
			})
		})
	}
}
