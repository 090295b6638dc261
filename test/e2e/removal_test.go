package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// resync is how often the sidecar looks at contents that nothing happens to: what is freed sooner was freed by someone.
const resync = 15 * time.Minute

// TestAfterCut removes snapshots that something stands against, and restores from others, on a stack of its own. The driver's list is the
// judge.
func TestAfterCut(t *testing.T) {
	t.Parallel()
	ownStack(t, hurried())
	t.Run("together", func(t *testing.T) {
		t.Run("during-create", func(t *testing.T) { t.Parallel(); testDestroyDuringCreate(t) })
		t.Run("refused", func(t *testing.T) { t.Parallel(); testDestroyRefused(t) })
		t.Run("namespace", func(t *testing.T) { t.Parallel(); testNamespaceDeleted(t) })
		t.Run("restore", func(t *testing.T) { t.Parallel(); testRestored(t) })
		t.Run("clone", func(t *testing.T) { t.Parallel(); testCloned(t) })
		t.Run("examples", func(t *testing.T) { t.Parallel(); testExamples(t) })
		t.Run("owners", func(t *testing.T) { t.Parallel(); testTwoOwners(t) })
	})
	t.Run("being-restored", testDestroyRestored)
	if !t.Failed() {
		t.Run("roles", testSnapshotRoles)
	}
}

// snapshotRoles are what package csisnapshot needs.
var snapshotRoles = filepath.Join(root, "docs", "rbac", "csisnapshot.yaml")

// X3: what the users with that role asked for is what it allows, and all that it allows is used by someone.
func testSnapshotRoles(t *testing.T) {
	t.Helper()
	elsewhere := []string{
		"get namespaces",        // Plan of a namespace that has no claims
		"get persistentvolumes", // csisnapshot.AfterVolumes
		"get pods",              // of a pod with hooks, before it is frozen
		"list events",           // csisnapshot.Explain
		"patch volumesnapshots.snapshot.storage.k8s.io", // csisnapshot.Action.Cancel
	}
	roles, err := app.ReadRoles(snapshotRoles)
	must(t, err)
	events, err := cluster(t).Stack.Audit().Events(audit.Mark{}, "", audit.NoDiscovery, func(e audit.Event) bool {
		name, ours := strings.CutPrefix(e.User, "backup:")
		return ours && !strings.HasPrefix(name, "target-") && !strings.HasPrefix(name, "example-")
	})
	must(t, err)
	unused, missing := audit.CompareRules(roles[0].Rules, audit.Rules(events))
	if diff := cmp.Diff(elsewhere, unused); diff != "" || len(missing) > 0 {
		t.Errorf("asked for and not allowed: %q; allowed and not used, expected (-) and found (+):\n%s", missing, diff)
	}
	for _, e := range events {
		if e.Code == http.StatusForbidden {
			t.Errorf("refused: %s", e)
		}
	}
	t.Logf("%d requests: %v", len(events), audit.Count(events))
}

// S10: snap-36: snap-21: snap-38: snap-40: snapshots are destroyed while CreateSnapshot runs and while it is tried again after errors.
// The sidecar then often leaves a content Terminating until its resync; the nudge frees it.
func testDestroyDuringCreate(t *testing.T) {
	t.Helper()
	c := cluster(t)
	slow, failing := app.Numbered("slow", 6), app.Numbered("failing", 6)
	a := applicationAs(t, "during", snapshotRoles, app.Spec{Claims: app.Named(slices.Concat(slow, failing)...)})
	must(t, c.Stack.Driver().SetScript(t.Context(), a.Namespace+"/slow-*", driver.Script{Script: backuptest.Script{CutAfter: 4 * time.Second}}))
	must(t, c.Stack.Driver().SetScript(t.Context(), a.Namespace+"/failing-*", driver.Script{Script: backuptest.Script{
		Errors: []backuptest.DriverError{{Code: "Unavailable", Text: "busy", Times: 3}},
	}}))
	snapshots := library(t, a, csisnapshot.Options{})
	owner := ownerOf(a, "nightly")
	plan, err := snapshots.Plan(t.Context(), a.Namespace)
	must(t, err)
	ctx, cancel := context.WithCancel(within(t, bound))
	ended := make(chan error, 1)
	go func() {
		_, err := snapshots.Cut(ctx, owner, plan)
		ended <- err
	}()
	_, err = c.Stack.Driver().WaitCalls(within(t, bound), driver.CallFilter{Method: "CreateSnapshot", Claim: a.Namespace + "/slow-*"}, len(slow))
	must(t, err)
	_, err = c.Stack.Driver().WaitCalls(within(t, bound), driver.CallFilter{Method: "CreateSnapshot", Claim: a.Namespace + "/failing-*", Code: "Unavailable"}, len(failing))
	must(t, err)
	cancel()
	t.Logf("Cut: %v", <-ended)

	mark, err := c.Stack.Audit().Mark()
	must(t, err)
	began := time.Now()
	report, err := snapshots.Destroy(within(t, bound), owner, planned(owner, plan)...)
	took := time.Since(began)
	must(t, err)
	must(t, report.Err())
	counts, err := c.Stack.Audit().Counts(mark, a.User)
	must(t, err)
	t.Logf("%d freed in %.1f s, with %d nudges", len(report.Items), took.Seconds(), counts["patch volumesnapshotcontents"])
	if counts["patch volumesnapshotcontents"] == 0 {
		t.Error("no content was nudged: nothing was in the trap")
	}
	if took > resync/10 {
		t.Errorf("it took %v", took)
	}
	clean(t, a)
	cuts, err := c.Stack.Driver().Cuts(t.Context(), a.Pattern())
	must(t, err)
	judge(t, a, len(cuts), 0)
}

// planned are the snapshots that a Cut of the plan makes.
func planned(owner csisnapshot.Owner, plan *csisnapshot.Plan) []csisnapshot.Ref {
	var all []csisnapshot.Ref
	for _, b := range plan.Batches {
		for _, v := range b.Volumes {
			all = append(all, csisnapshot.Ref{Namespace: v.Namespace, Name: csisnapshot.Names{}.Snapshot(owner.UID, v.ClaimUID)})
		}
	}
	return all
}

// S10: X2: snap-36: snap-41: a driver that refuses to delete: Destroy ends by its timeout, names what holds the objects and takes no
// finalizer away; once the driver deletes again, a second Destroy ends well.
func testDestroyRefused(t *testing.T) {
	t.Helper()
	c := cluster(t)
	a := applicationAs(t, "refused", snapshotRoles, app.Spec{Claims: app.Named("data", "wal")})
	owner := ownerOf(a, "nightly")
	snapshots := library(t, a, csisnapshot.Options{Wait: csisnapshot.WaitOptions{Timeout: 10 * time.Second}})
	report := cut(t, snapshots, a, owner)
	must(t, c.Stack.Driver().SetScript(t.Context(), a.Pattern(), driver.Refuse("FailedPrecondition", "it has clones")))
	began := time.Now()
	removed, err := snapshots.Destroy(within(t, bound), owner, refs(report.Volumes)...)
	t.Logf("after %.1f s: %v", time.Since(began).Seconds(), err)
	if !errors.Is(err, csisnapshot.ErrTimeout) {
		t.Errorf("Destroy = %v, want ErrTimeout", err)
	}
	for _, item := range removed.Items {
		e, typed := errors.AsType[*csisnapshot.RemovalError](item.Err)
		if !typed || item.Gone || len(e.Finalizers) == 0 || !strings.HasPrefix(e.Finalizers[0], "snapshot.storage.kubernetes.io/") {
			t.Errorf("%s: gone %t, %v, want what holds it", item.Ref, item.Gone, item.Err)
		}
	}
	judge(t, a, 2, 2)
	must(t, c.Stack.Driver().ClearScripts(t.Context(), a.Pattern()))
	removed, err = library(t, a, csisnapshot.Options{}).Destroy(within(t, bound), owner, refs(report.Volumes)...)
	must(t, err)
	must(t, removed.Err())
	clean(t, a)
	judge(t, a, 2, 0)
}

// S10: snap-45: a namespace is deleted while it holds snapshots: those of a class that says Delete go with it, those of one that says
// Retain stay; their contents are still the owner's, who can release one and destroy the other.
func testNamespaceDeleted(t *testing.T) {
	t.Helper()
	c := cluster(t)
	retain := map[string]string{"sheetanchor.io/csi-volumesnapshot-class": stack.RetainSnapshotClass}
	a := applicationAs(t, "leaving", snapshotRoles, app.Spec{Claims: []app.Claim{{Name: "goes"}, {Name: "kept", Annotations: retain}, {Name: "later", Annotations: retain}}})
	owner := ownerOf(a, "nightly")
	snapshots := library(t, a, csisnapshot.Options{})
	report := cut(t, snapshots, a, owner)
	must(t, c.Core.CoreV1().Namespaces().Delete(t.Context(), a.Namespace, metav1.DeleteOptions{}))
	must(t, wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, bound, true, func(ctx context.Context) (bool, error) {
		contents, err := a.Contents(ctx)
		left, errSnapshots := a.Snapshots(ctx)
		return len(contents) == 2 && len(left) == 0, errors.Join(err, errSnapshots)
	}))
	judge(t, a, 3, 2)
	for _, v := range report.Volumes {
		remove := snapshots.Destroy
		if v.Claim == "kept" {
			remove = snapshots.Release
		}
		removed, err := remove(within(t, bound), owner, refs([]csisnapshot.VolumeReport{v})...)
		if err != nil || removed.Err() != nil {
			t.Errorf("%s: %v, %v", v.Claim, err, removed.Err())
		}
	}
	clean(t, a)
	judge(t, a, 3, 1)
}

// S9: S10: snap-19: snap-20: two backups of one namespace at the same time: each volume is cut for each, neither can remove what is the
// other's, and what is swept of one (snap-22) the other still has.
func testTwoOwners(t *testing.T) {
	t.Helper()
	a := applicationAs(t, "owners", snapshotRoles, app.Spec{Claims: app.Named("data", "wal")})
	first, second := ownerOf(a, "first"), ownerOf(a, "second")
	one, two := library(t, a, csisnapshot.Options{}), library(t, a, csisnapshot.Options{})
	reports := make(chan *csisnapshot.Report, 1)
	plan, err := two.Plan(t.Context(), a.Namespace)
	must(t, err)
	go func() {
		report, err := two.Cut(within(t, bound), second, plan)
		if err != nil || report.Err() != nil {
			t.Errorf("Cut: %v", errors.Join(err, report.Err()))
		}
		reports <- report
	}()
	mine := cut(t, one, a, first)
	theirs := <-reports
	judge(t, a, 4, 4)
	removed, err := one.Destroy(within(t, bound), first, refs(theirs.Volumes)...)
	if !errors.Is(err, csisnapshot.ErrForeign) {
		t.Errorf("Destroy of the other's = %v, want ErrForeign", err)
	}
	for _, item := range removed.Items {
		if item.Gone {
			t.Errorf("%s of the other is gone", item.Ref)
		}
	}
	removed, err = one.Sweep(within(t, bound), first.UID, csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyDelete})
	must(t, err)
	if len(removed.Items) != len(mine.Volumes) {
		t.Errorf("Sweep removed %+v, want %d", removed.Items, len(mine.Volumes))
	}
	left, err := one.Leftovers(t.Context(), first.UID)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left by Sweep: %+v", left)
	}
	judge(t, a, 4, 2)
	outcomes, err := two.Wait(within(t, bound), second, csisnapshot.StageReady, refs(theirs.Volumes)...)
	must(t, err)
	for _, o := range outcomes {
		if o.Err != nil || !o.Result.Ready {
			t.Errorf("%s of the other: %+v, %v", o.Result.Ref, o.Result, o.Err)
		}
	}
	released, err := two.Release(within(t, bound), second, refs(theirs.Volumes)...)
	must(t, err)
	must(t, released.Err())
	clean(t, a)
	judge(t, a, 4, 2)
}

// S10: snap-41: snap-42: a snapshot is destroyed while a claim is being restored from it: nothing is lost, and what holds it is named. It
// would last for ever: csi-provisioner makes no volume of a snapshot that is being deleted, and keeps its finalizer when the claim goes, so
// that a person has to delete the claim and to take the finalizer away. Then Destroy ends what it began.
func testDestroyRestored(t *testing.T) {
	t.Helper()
	c := cluster(t)
	a := applicationAs(t, "restored", snapshotRoles, app.Spec{Claims: app.Named("data")})
	owner := ownerOf(a, "nightly")
	snapshots := library(t, a, csisnapshot.Options{})
	report := cut(t, snapshots, a, owner)
	outcomes, err := snapshots.Wait(within(t, bound), owner, csisnapshot.StageReady, refs(report.Volumes)...)
	must(t, errors.Join(err, outcomes[0].Err))
	// One call of two is let through: a claim waits.
	must(t, c.Stack.Driver().SetLimit(t.Context(), "CreateVolume", driver.Limit{PerSecond: 0.0001, Burst: 1}))
	other := map[string]string{"restored-1": "restored-2", "restored-2": "restored-1"}
	for name := range other {
		restore(t, a, name, report.Volumes[0].Snapshot)
	}
	refused, err := c.Stack.Driver().WaitCalls(within(t, bound), driver.CallFilter{Method: "CreateVolume", Code: "ResourceExhausted", Claim: a.Namespace + "/restored-*"}, 1)
	must(t, err)
	waiting := strings.TrimPrefix(refused[0].Claim, a.Namespace+"/")
	awaitBound(t, a, other[waiting])
	impatient := library(t, a, csisnapshot.Options{Wait: csisnapshot.WaitOptions{Timeout: 10 * time.Second}})
	removed, err := impatient.Destroy(within(t, bound), owner, refs(report.Volumes)...)
	// The snapshot controller has one such finalizer and the provisioner another, which it takes away when either claim is done and puts
	// back when it tries again.
	restoring := func(finalizer string) bool {
		return strings.HasSuffix(finalizer, "/volumesnapshot-as-source-protection")
	}
	held, typed := errors.AsType[*csisnapshot.RemovalError](removed.Items[0].Err)
	if !errors.Is(err, csisnapshot.ErrTimeout) || !typed || !slices.ContainsFunc(held.Finalizers, restoring) {
		t.Errorf("Destroy while a claim is being restored = %v, want ErrTimeout and a finalizer that protects the source of a restore", err)
	}
	t.Log(err)
	judge(t, a, 1, 1)
	must(t, c.Core.CoreV1().PersistentVolumeClaims(a.Namespace).Delete(t.Context(), waiting, metav1.DeleteOptions{}))
	free := []byte(`{"metadata":{"finalizers":null}}`)
	_, err = c.Snapshots.SnapshotV1().VolumeSnapshots(a.Namespace).Patch(t.Context(), report.Volumes[0].Snapshot, types.MergePatchType, free, metav1.PatchOptions{})
	must(t, ignoreNotFound(err))
	removed, err = snapshots.Destroy(within(t, bound), owner, refs(report.Volumes)...)
	must(t, err)
	must(t, removed.Err())
	judge(t, a, 1, 0)
	clean(t, a)
	must(t, c.Stack.Driver().ClearLimit(t.Context(), "CreateVolume"))
	made := 0
	volumes, err := c.Stack.Driver().Volumes(t.Context())
	must(t, err)
	for _, v := range volumes {
		if strings.HasPrefix(v.Claim, a.Namespace+"/restored-") && v.Source == *report.Volumes[0].Handle {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d volumes were made of the snapshot, want one", made)
	}
}

// restore makes a claim of a snapshot in the application's namespace.
func restore(t *testing.T, a *app.App, name, snapshot string) {
	t.Helper()
	createClaim(t, a, name, stack.StorageClass, &corev1.TypedLocalObjectReference{
		APIGroup: new("snapshot.storage.k8s.io"), Kind: csisnapshot.KindSnapshot, Name: snapshot,
	})
}

// createClaim makes a claim without waiting for it. Source may be nil.
func createClaim(t *testing.T, a *app.App, name, class string, source *corev1.TypedLocalObjectReference) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, DataSource: source, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	_, err := cluster(t).Core.CoreV1().PersistentVolumeClaims(a.Namespace).Create(t.Context(), claim, metav1.CreateOptions{})
	must(t, err)
}

// awaitBound waits until a claim is bound.
func awaitBound(t *testing.T, a *app.App, name string) {
	t.Helper()
	must(t, wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, bound, true, func(ctx context.Context) (bool, error) {
		claim, err := cluster(t).Core.CoreV1().PersistentVolumeClaims(a.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && claim.Status.Phase == corev1.ClaimBound, err
	}))
}
