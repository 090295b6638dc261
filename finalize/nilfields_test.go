package finalize_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
	"github.com/sheetanchor/sheetanchor/volumeinfo/volumekube"
)

// subset is which fields the objects of one volume have.
type subset uint16

func (s subset) has(bit int) bool { return s&(1<<bit) != 0 }

const subsets = 1 << 11

// objects are those of the volume: claim (0) with volume name (1), class (2) and phase (3), persistent volume (4) with
// reference (5) and source (6), snapshot status (7) with content (8), content status with handle (9) and readiness (10).
func (s subset) objects(name string) (out []runtime.Object) {
	c := backuptest.Claim{Namespace: "app", Name: name, VolumeName: "pv-" + name}
	pvc, pv := c.PVC(), c.PV()
	if !s.has(1) {
		pvc.Spec.VolumeName = ""
	}
	if !s.has(2) {
		pvc.Spec.StorageClassName = nil
	}
	if !s.has(3) {
		pvc.Status = corev1.PersistentVolumeClaimStatus{}
	}
	if !s.has(5) {
		pv.Spec.ClaimRef = nil
	}
	if !s.has(6) {
		pv.Spec.CSI, pv.Annotations, pv.Labels = nil, nil, nil
		pv.Spec.PersistentVolumeReclaimPolicy, pv.Status = "", corev1.PersistentVolumeStatus{}
	}
	if s.has(0) {
		out = append(out, pvc)
	}
	if s.has(4) {
		out = append(out, pv)
	}
	snapshot := backuptest.Snapshot{Namespace: "app", Name: "s-" + name, Claim: name}
	vs, vsc := snapshot.VS(), snapshot.VSC()
	if !s.has(7) {
		unstructured.RemoveNestedField(vs.Object, "status")
	}
	if !s.has(9) {
		unstructured.RemoveNestedField(vsc.Object, "status")
	}
	if !s.has(10) {
		for _, field := range []string{"readyToUse", "restoreSize", "creationTime"} {
			unstructured.RemoveNestedField(vsc.Object, "status", field)
			unstructured.RemoveNestedField(vs.Object, "status", field)
		}
	}
	if !s.has(8) {
		unstructured.RemoveNestedField(vs.Object, "status", "boundVolumeSnapshotContentName")
		return append(out, vs)
	}
	return append(out, vs, vsc)
}

// V2, vol-1, vol-2, vol-3, vol-10, fin-5: every combination of absent fields of claim, volume, class, snapshot and content
// goes through collector, builder and hooks without a panic, and each volume has a record or a named gap, and an outcome.
func TestAbsentFields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := []runtime.Object{&storagev1.StorageClass{ // no binding mode, no policy
			ObjectMeta:  metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: "csi.example.dev",
		}}
		var volumes []finalize.RestoredVolume
		for s := subset(0); s < subsets; s += share { //nolint:modernize // share is odd, so each field is absent and there; it is 1 without the race detector
			name := fmt.Sprintf("v%04d", s)
			objects = append(objects, s.objects(name)...)
			v := restored(name)
			if s.has(10) {
				v.Saved = &volumeinfo.PVInfo{}
			}
			volumes = append(volumes, v)
		}
		cluster := backuptest.New(t, backuptest.Options{Objects: objects})
		client, err := dynamic.NewForConfig(cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		core := coreOf(t, cluster)
		found, err := volumekube.Collect(t.Context(), core, csisnapshot.NewDynamic(client), volumekube.Options{})
		if err != nil {
			t.Fatal(err)
		}
		records, gaps := volumeinfo.Build(found.Inputs)
		told := map[string]bool{}
		for _, r := range records {
			told[r.PVCName] = true
			if !r.Final() && r.Result != volumeinfo.NotFinal {
				t.Errorf("record of %s has the result %q", r.PVCName, r.Result)
			}
		}
		for _, g := range gaps {
			if g.Volume.Claim != "" && g.Reason != "" {
				told[g.Volume.Claim] = true
			}
		}
		got := ends{}
		hook := finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{Ended: got.add, ItemTimeout: time.Minute})
		report := runOnce(t, hook, finalize.ValidateVolumes(core, volumes, hook.Name))
		for s := subset(0); s < subsets; s += share { //nolint:modernize // share is odd, so each field is absent and there; it is 1 without the race detector
			name := fmt.Sprintf("v%04d", s)
			if !told[name] {
				t.Errorf("volume %s (%011b) has neither a record nor a gap", name, s)
			}
			if o, ok := got.all[name]; !ok || o.Err == nil && o.Skipped == "" && o.PV == "" {
				t.Errorf("volume %s (%011b) has no outcome: %+v", name, s, o)
			}
		}
		for _, h := range report.Hooks {
			for _, e := range h.Items {
				if e.Name == "" {
					t.Errorf("%s: a fault of no volume: %+v", h.Name, e)
				}
			}
		}
	})
}
