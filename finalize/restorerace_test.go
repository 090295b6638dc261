package finalize_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// F6, fin-10, fin-16: what happens to a persistent volume between its read and its patch makes it be judged again, and one
// that has become another's is never written.
func TestRestorePVsOvertaken(t *testing.T) {
	t.Parallel()
	replaced := func(change func(*corev1.PersistentVolume)) func(t *testing.T, cluster *backuptest.Cluster) {
		return func(t *testing.T, cluster *backuptest.Cluster) {
			t.Helper()
			pvs := coreOf(t, cluster).CoreV1().PersistentVolumes()
			pv := volume("data", nil)[1].(*corev1.PersistentVolume)
			change(pv)
			_, err := pvs.Patch(t.Context(), pv.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err == nil {
				err = pvs.Delete(t.Context(), pv.Name, metav1.DeleteOptions{})
			}
			if err == nil {
				pv.UID, pv.ResourceVersion = "", ""
				status := pv.Status
				if pv, err = pvs.Create(t.Context(), pv, metav1.CreateOptions{}); err == nil {
					pv.Status = status
					_, err = pvs.UpdateStatus(t.Context(), pv, metav1.UpdateOptions{})
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		reason  string
		meanly  func(t *testing.T, cluster *backuptest.Cluster)
		err     error
		skip    finalize.SkipReason
		policy  corev1.PersistentVolumeReclaimPolicy
		adjusts int
	}{
		"replaced":         {"another object of the same claim", replaced(func(*corev1.PersistentVolume) {}), nil, "", "Retain", 2},
		"now of another":   {"F6: judged again", replaced(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.Name = "other" }), finalize.ErrForeignVolume, "", "Delete", 1},
		"now of a new one": {"F6: the UID decides", replaced(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "new" }), finalize.ErrForeignVolume, "", "Delete", 1},
		"now static":       {"F6: nothing was lost", replaced(func(pv *corev1.PersistentVolume) { pv.Annotations = nil }), nil, finalize.SkipStatic, "Delete", 1},
		"now released":     {"F6: judged again", replaced(func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased }), finalize.ErrReleasedVolume, "", "Delete", 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster := backuptest.New(t, backuptest.Options{Objects: volume("data", nil)})
				core, got, adjusts := coreOf(t, cluster), ends{}, 0
				adjust := func(_ context.Context, _ *corev1.PersistentVolume, _ *finalize.PVChange) error {
					if adjusts++; adjusts == 1 {
						tc.meanly(t, cluster)
					}
					return nil
				}
				runOnce(t, finalize.RestorePVs(core, []finalize.RestoredVolume{restored("data")}, finalize.RestorePVOptions{Adjust: adjust, Ended: got.add}))
				o := got.all["data"]
				if !errors.Is(o.Err, tc.err) || (o.Err == nil) != (tc.err == nil) || o.Skipped != tc.skip || adjusts != tc.adjusts {
					t.Errorf("skipped %q, error %v, %d calls of Adjust, want %q, %v, %d (%s)", o.Skipped, o.Err, adjusts, tc.skip, tc.err, tc.adjusts, tc.reason)
				}
				pv, err := core.CoreV1().PersistentVolumes().Get(t.Context(), "pv-data", metav1.GetOptions{})
				if err != nil || pv.Spec.PersistentVolumeReclaimPolicy != tc.policy {
					t.Errorf("policy %s, %v, want %s (%s)", pv.Spec.PersistentVolumeReclaimPolicy, err, tc.policy, tc.reason)
				}
			})
		})
	}
}

// F6, fin-12: a volume without a namespace would be looked for in all of them, and what is found there is another's. Records
// and maps that lead there are refused.
func TestNoNamespaceIsNotAll(t *testing.T) {
	t.Parallel()
	record := cutRecord("data")
	record.Result = volumeinfo.Succeeded
	for name, namespaces := range map[string]map[string]string{"mapped to none": {"app": ""}, "record of none": nil} {
		if namespaces == nil {
			record.PVCNamespace = ""
		}
		if got, err := finalize.RestoredVolumes([]volumeinfo.BackupRecord{record}, namespaces); !errors.Is(err, finalize.ErrInvalid) || got != nil {
			t.Errorf("%s: %+v, %v, want ErrInvalid", name, got, err)
		}
		record.PVCNamespace = "app"
	}
	if got, err := finalize.RestoredVolumes([]volumeinfo.BackupRecord{record}, map[string]string{"app": "app", "x": ""}); err != nil || len(got) != 1 || got[0].Namespace != "app" {
		t.Errorf("mapped to itself: %+v, %v", got, err)
	}
}
