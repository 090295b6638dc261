package e2e_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

const zone = "topology.kubernetes.io/zone"

// F6: S10: X3: snap-43: volumes are restored from released snapshots into another namespace, by csi-provisioner. Their persistent volumes
// get back the policy and labels that were saved; where a volume is says the cluster, not the backup; a claim that waits for its first
// consumer is skipped with a reason. The old namespace is not asked, and the role is the least. The backup cannot expire while it is being
// restored, its snapshots outlive the restore's namespace, and go when it expires. snap-44.
func testRestored(t *testing.T) {
	t.Helper()
	c := cluster(t)
	origin := applicationAs(t, "origin", snapshotRoles, app.Spec{Claims: app.Named("data", "wal")})
	labelVolumes(t, origin, `{"metadata":{"labels":{"team":"a","`+zone+`":"old"}},"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`, "data", "wal")
	owner := ownerOf(origin, "nightly")
	snapshots := library(t, origin, csisnapshot.Options{})
	report := cut(t, snapshots, origin, owner)
	records, infos := saved(t, origin, report)
	released, err := snapshots.Release(within(t, bound), owner, refs(report.Volumes)...)
	must(t, err)
	must(t, released.Err())

	roles := filepath.Join("testdata", "restore.yaml")
	target := applicationAs(t, "target", roles, app.Spec{})
	mark, err := c.Stack.Audit().Mark()
	must(t, err)
	restoring := library(t, target, csisnapshot.Options{})
	restorer := ownerOf(target, "restore")
	_, err = restoring.Restore(within(t, bound), restorer, target.Namespace, records...)
	must(t, err)
	made, err := restoring.Restore(within(t, bound), restorer, target.Namespace, records...) // as after a crash: it adopts
	must(t, err)
	var pairs []csisnapshot.Ref
	for i, m := range made {
		pairs = append(pairs, m.Ref)
		restore(t, target, report.Volumes[i].Claim, m.Ref.Name)
	}
	outcomes, err := restoring.Wait(within(t, bound), restorer, csisnapshot.StageReady, pairs...)
	must(t, err)
	for i, o := range outcomes {
		if o.Err != nil || o.Result.Handle != *report.Volumes[i].Handle {
			t.Errorf("%s is restored from %q, %v, want %q", report.Volumes[i].Claim, o.Result.Handle, o.Err, *report.Volumes[i].Handle)
		}
		awaitBound(t, target, report.Volumes[i].Claim)
	}
	// The provisioner of this driver knows no topology: the cluster says where the new volumes are.
	labelVolumes(t, target, `{"metadata":{"labels":{"`+zone+`":"new"}}}`, "data", "wal")
	lateClaim(t, target, "late")
	infos = append(infos, info(origin.Namespace, "late", "snap-none", &volumeinfo.PVInfo{ReclaimPolicy: "Retain"}))
	volumes, err := finalize.RestoredVolumes(infos, map[string]string{origin.Namespace: target.Namespace})
	must(t, err)
	want := map[string]finalize.SkipReason{"data": "", "wal": "", "late": finalize.SkipNoConsumer}
	for range 2 { // the second run changes nothing
		if diff := cmp.Diff(want, finalized(t, target, volumes)); diff != "" {
			t.Errorf("skipped, expected (-) and told (+):\n%s", diff)
		}
	}
	for _, claim := range []string{"data", "wal"} {
		pv := volumeOf(t, target, claim)
		if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || pv.Labels["team"] != "a" || pv.Labels[zone] != "new" {
			t.Errorf("%s: policy %s, labels %v, want Retain, team a, zone new", claim, pv.Spec.PersistentVolumeReclaimPolicy, pv.Labels)
		}
	}
	if n := rights(t, target, origin.Namespace, roles, mark)["patch persistentvolumes"]; n != 2 {
		t.Errorf("%d patches of persistent volumes, want one for each of 2", n)
	}

	// The backup cannot expire while it is being restored, and outlives the end of the restore's namespace.
	remove := csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyDelete}
	if _, err := snapshots.Expire(within(t, bound), owner, remove, records...); !errors.Is(err, csisnapshot.ErrInUse) {
		t.Errorf("Expire while it is being restored = %v, want ErrInUse", err)
	}
	judge(t, origin, 2, 2)
	must(t, c.Core.CoreV1().Namespaces().Delete(t.Context(), target.Namespace, metav1.DeleteOptions{}))
	must(t, target.Remove(within(t, bound)))
	judge(t, origin, 2, 2)
	clean(t, origin)
	expired, err := snapshots.Expire(within(t, bound), owner, remove, records...)
	must(t, err)
	must(t, expired.Err())
	judge(t, origin, 2, 0)
	clean(t, origin)
}

// snap-43: S10: a snapshot that is still its backup's is cloned into another namespace and restored from there by csi-provisioner. The
// clone is released when the restore is over, without harm to the original.
func testCloned(t *testing.T) {
	t.Helper()
	a := applicationAs(t, "cloned", snapshotRoles, app.Spec{Claims: app.Named("data")})
	owner := ownerOf(a, "nightly")
	snapshots := library(t, a, csisnapshot.Options{})
	report := cut(t, snapshots, a, owner)
	original := refs(report.Volumes)[0]

	target := applicationAs(t, "clone", snapshotRoles, app.Spec{})
	restorer := ownerOf(target, "restore")
	cloning := library(t, target, csisnapshot.Options{})
	clone, err := cloning.Clone(within(t, bound), restorer, original, target.Namespace)
	must(t, err)
	again, err := cloning.Clone(within(t, bound), restorer, original, target.Namespace) // as after a crash: it adopts
	must(t, err)
	if again.Ref != clone.Ref || again.Content != clone.Content {
		t.Errorf("cloned again as %v, %s, want %v, %s", again.Ref, again.Content, clone.Ref, clone.Content)
	}
	restore(t, target, "data", clone.Ref.Name)
	outcomes, err := cloning.Wait(within(t, bound), restorer, csisnapshot.StageReady, clone.Ref)
	must(t, errors.Join(err, outcomes[0].Err))
	awaitBound(t, target, "data")
	volumes, err := cluster(t).Stack.Driver().Volumes(t.Context())
	must(t, err)
	of := func(v driver.Volume) bool {
		return v.Claim == target.Namespace+"/data" && v.Source == *report.Volumes[0].Handle
	}
	if !slices.ContainsFunc(volumes, of) {
		t.Errorf("no volume of %s was made of %s: %+v", target.Namespace, *report.Volumes[0].Handle, volumes)
	}

	released, err := cloning.Release(within(t, bound), restorer, clone.Ref)
	must(t, err)
	must(t, released.Err())
	judge(t, a, 1, 1)
	clean(t, target)
	destroyed, err := snapshots.Destroy(within(t, bound), owner, original)
	must(t, err)
	must(t, destroyed.Err())
	judge(t, a, 1, 0)
	clean(t, a)
}

// rights checks what a restore's user asked for, and counts it: nothing of the old namespace, and all that its roles allow.
func rights(t *testing.T, target *app.App, old, path string, since audit.Mark) map[string]int {
	t.Helper()
	events, err := cluster(t).Stack.Audit().Events(since, target.User, audit.NoDiscovery)
	must(t, err)
	for _, e := range events {
		if e.Namespace == old {
			t.Errorf("sent to the old namespace: %s", e)
		}
	}
	roles, err := app.ReadRoles(path)
	must(t, err)
	var granted []rbacv1.PolicyRule
	for _, role := range roles {
		granted = append(granted, role.Rules...)
	}
	unused, missing := audit.CompareRules(granted, audit.Rules(events))
	if len(unused)+len(missing) > 0 {
		t.Errorf("allowed and not used: %q; asked for and not allowed: %q", unused, missing)
	}
	counts := audit.Count(events)
	t.Logf("the restore's requests: %v", counts)
	return counts
}

// saved are the records of the cuts, as a backup keeps them: of the contents, and of the persistent volumes.
func saved(t *testing.T, a *app.App, report *csisnapshot.Report) ([]csisnapshot.VolumeRecord, []volumeinfo.BackupRecord) {
	t.Helper()
	objects, _ := clients(t, a.User)
	contents := csisnapshot.NewDynamic(objects).Contents()
	var records []csisnapshot.VolumeRecord
	var infos []volumeinfo.BackupRecord
	for _, v := range report.Volumes {
		content, err := contents.Get(t.Context(), "", v.Content)
		must(t, err)
		record, err := csisnapshot.RecordOf(content)
		must(t, err)
		records = append(records, record)
		infos = append(infos, info(a.Namespace, v.Claim, *v.Handle, &volumeinfo.PVInfo{ReclaimPolicy: v.PVReclaimPolicy, Labels: v.PVLabels}))
	}
	return records, infos
}

// info is the record of a volume that was backed up.
func info(namespace, claim, handle string, pv *volumeinfo.PVInfo) volumeinfo.BackupRecord {
	return volumeinfo.BackupRecord{
		PVCNamespace: namespace, PVCName: claim, BackupMethod: volumeinfo.CSISnapshot, Result: volumeinfo.Succeeded, PVInfo: pv,
		CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: handle, Driver: stack.DriverName},
	}
}

// finalized runs the last step of a restore, and returns why each claim was skipped.
func finalized(t *testing.T, a *app.App, volumes []finalize.RestoredVolume) map[string]finalize.SkipReason {
	t.Helper()
	_, core := clients(t, a.User)
	skipped := map[string]finalize.SkipReason{}
	hook := finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{Ended: func(_ context.Context, o finalize.VolumeOutcome) {
		skipped[o.Volume.Claim] = o.Skipped
	}})
	runner, err := finalize.New([]finalize.Hook{hook}, finalize.Options{})
	must(t, err)
	report, err := runner.Run(within(t, bound))
	must(t, err)
	if report.Errors() > 0 {
		t.Errorf("the report has errors: %+v", report)
	}
	return skipped
}

// labelVolumes patches the persistent volumes of claims.
func labelVolumes(t *testing.T, a *app.App, patch string, claims ...string) {
	t.Helper()
	for _, claim := range claims {
		_, err := cluster(t).Core.CoreV1().PersistentVolumes().Patch(t.Context(), volumeOf(t, a, claim).Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
	}
}

// volumeOf is the persistent volume of a claim.
func volumeOf(t *testing.T, a *app.App, claim string) *corev1.PersistentVolume {
	t.Helper()
	core := cluster(t).Core.CoreV1()
	pvc, err := core.PersistentVolumeClaims(a.Namespace).Get(t.Context(), claim, metav1.GetOptions{})
	must(t, err)
	pv, err := core.PersistentVolumes().Get(t.Context(), pvc.Spec.VolumeName, metav1.GetOptions{})
	must(t, err)
	return pv
}

// lateClaim makes a claim of a class that binds for the first consumer, of which there is none.
func lateClaim(t *testing.T, a *app.App, name string) {
	t.Helper()
	c := cluster(t)
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: a.Namespace}, Provisioner: stack.DriverName, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	_, err := c.Core.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), bound)
		defer cancel()
		must(t, ignoreNotFound(c.Core.StorageV1().StorageClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})))
	})
	createClaim(t, a, name, class.Name, nil)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
