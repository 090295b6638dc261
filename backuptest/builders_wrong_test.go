package backuptest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: what a builder cannot build, and what is nil, is an error that names it and its field, and nothing is stored.
func TestMisbuilt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"no builder":      {backuptest.Objects(backuptest.StorageClass{}, nil), []string{"builder 2 is nil"}},
		"nil pod":         {[]runtime.Object{(*corev1.Pod)(nil)}, []string{"nil", "*v1.Pod"}},
		"nil list":        {[]runtime.Object{(*corev1.PodList)(nil)}, []string{"nil", "*v1.PodList"}},
		"nil custom":      {[]runtime.Object{(*unstructured.Unstructured)(nil)}, []string{"nil", "Unstructured"}},
		"size of a claim": {backuptest.Claim{Namespace: "app", Name: "a", Size: "lots"}.Objects(), []string{"Claim app/a", `Size: "lots"`}},
		"no size":         {backuptest.Claim{Namespace: "app", Name: "a", Size: "0"}.Objects(), []string{"Claim app/a", `Size: "0"`}},
		"two states":      {backuptest.Claim{Namespace: "app", Name: "a", Unbound: true, Released: true}.Objects(), []string{"Unbound, Lost, Released"}},
		"no container":    {backuptest.Pod{Namespace: "app", Name: "p", NotRunning: []string{"sidecar"}}.Objects(), []string{"Pod app/p", `NotRunning: there is no container "sidecar"`}},
		"all of a snapshot": {
			backuptest.Snapshot{Namespace: "app", Name: "s", State: 99, Size: "-1", Policy: "Keep"}.Objects(),
			[]string{"Snapshot app/s", "Claim", "State: 99", `Size: "-1"`, `Policy: "Keep"`},
		},
		"nothing left": {backuptest.Snapshot{Namespace: "app", Name: "s", Claim: "a", State: backuptest.SnapshotCreated, Leftover: true}.Objects(), []string{"Leftover"}},
		"policy":       {backuptest.SnapshotClass{Name: "c", Policy: "Keep"}.Objects(), []string{"SnapshotClass c", `Policy: "Keep"`}},
		"all of a set": {
			backuptest.StatefulSet{Namespace: "app", Name: "db", Replicas: -1, Claim: backuptest.Claim{Size: "x"}}.Objects(),
			[]string{"StatefulSet app/db", "Replicas: -1", `Size: "x"`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := backuptest.New(t)
			wantError(t, "Add", cluster.Add(tc.objects...), tc.want...)
			_, err := backuptest.Start(backuptest.Options{Objects: tc.objects})
			wantError(t, "Start", err, tc.want...)
		})
	}
	set := backuptest.StatefulSet{Name: "db", Claim: backuptest.Claim{Size: "x"}}
	if size := set.Object().Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]; !size.IsZero() {
		t.Errorf("size %v of no quantity", size)
	}
}

// B2: what a builder returns shares nothing, so that a test may change one thing of it.
func TestClaimsShareNothing(t *testing.T) {
	t.Parallel()
	claim := backuptest.Claim{Namespace: "app", Name: "a", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
	pvc, pv := claim.PVC(), claim.PV()
	pvc.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("5Gi")
	pvc.Spec.AccessModes[0] = corev1.ReadWriteMany
	if size := pvc.Status.Capacity[corev1.ResourceStorage]; size.String() != "1Gi" {
		t.Errorf("capacity %v changes with the request", &size)
	}
	for what, modes := range map[string][]corev1.PersistentVolumeAccessMode{
		"the status": pvc.Status.AccessModes, "the volume": pv.Spec.AccessModes, "the builder": claim.AccessModes,
	} {
		if modes[0] != corev1.ReadWriteOnce {
			t.Errorf("the modes of %s change with the claim's", what)
		}
	}
}
