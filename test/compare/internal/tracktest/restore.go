package tracktest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/controller"
	"github.com/vmware-tanzu/velero/pkg/metrics"
	"github.com/vmware-tanzu/velero/pkg/persistence"
	"github.com/vmware-tanzu/velero/pkg/util/encode"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

const (
	zoneLabel = "topology.kubernetes.io/zone"
	teamLabel = "example.io/team"
)

// restored is a claim that a restore made, and the volume that the provisioner made for it.
func restored() []backuptest.Builder {
	return []backuptest.Builder{backuptest.StorageClass{}, backuptest.Claim{
		Namespace: "app", Name: "data", VolumeLabels: map[string]string{zoneLabel: "here"},
	}}
}

// saved is what the backup kept of the volume.
func saved() *volumeinfo.PVInfo {
	return &volumeinfo.PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{teamLabel: "blue"}}
}

// prepare puts a restore that is being finalized, of one CSI volume, into the cluster and the store.
func prepare(ctx context.Context, c client.Client, objects *velerotest.Objects) error {
	records, err := volumeinfo.Encode([]volumeinfo.BackupRecord{{
		PVCNamespace: "app", PVCName: "data", PVName: "old", BackupMethod: volumeinfo.CSISnapshot, Result: volumeinfo.Succeeded, PVInfo: saved(),
	}})
	if err != nil {
		return err
	}
	list, errs := encode.ToJSONGzip(map[string][]string{"v1/PersistentVolumeClaim": {"app/data(created)"}}, "list")
	store, err := objects.Store()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	restore := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: velerotest.Namespace, Name: backupName}}
	restore.Spec.BackupName = backupName
	restore.Status.Phase = velerov1.RestorePhaseFinalizing
	return errors.Join(
		store.PutBackupVolumeInfos(backupName, bytes.NewReader(records)), store.PutRestoredResourceList(backupName, bytes.NewReader(list.Bytes())),
		c.Create(ctx, velerotest.NewBackup(backupName)), c.Create(ctx, velerotest.Location()), c.Create(ctx, restore),
	)
}

// finalizeRestore is one pass of Velero's restore finalizer up to and with the step that patches volumes. Its next step needs
// a tracker of hooks of an internal package, which nobody else can make: it panics there, and so ends the pass.
func finalizeRestore(ctx context.Context, c client.Client, objects *velerotest.Objects) {
	r := controller.NewRestoreFinalizerReconciler(velerotest.Logger(), velerotest.Namespace, c, velerotest.Manager{Objects: objects}.New,
		persistence.NewObjectBackupStoreGetter(nil), metrics.NewServerMetrics(), c, nil, time.Minute)
	silent(func() { caught(func() { _, _ = r.Reconcile(ctx, request()) }) })
}

func veleroH(t *testing.T) ending {
	t.Helper()
	labels := func(uid string) (map[string]string, string) {
		cluster := backuptest.New(t, backuptest.Options{Resources: velerotest.Kinds, Objects: append(namespaces(), backuptest.Objects(restored()...)...)})
		c, err := velerotest.NewClient(cluster.Config())
		must(t, err)
		pv := volume(t, c)
		if uid != "" {
			pv.Spec.ClaimRef.UID = "of-a-claim-that-is-gone"
			must(t, c.Update(t.Context(), pv))
		}
		objects := &velerotest.Objects{}
		must(t, prepare(t.Context(), c, objects))
		finalizeRestore(t.Context(), c, objects)
		pv = volume(t, c)
		return pv.Labels, string(pv.Spec.PersistentVolumeReclaimPolicy)
	}
	after, _ := labels("")
	_, policy := labels("other")
	_, kept := after[zoneLabel]
	return ended(kept && policy == "Delete", "topology label kept: %v; with a claimRef of another UID the volume is patched: %v", kept, policy == "Retain")
}

func volume(t *testing.T, c client.Client) *corev1.PersistentVolume {
	t.Helper()
	var list corev1.PersistentVolumeList
	must(t, c.List(t.Context(), &list))
	if len(list.Items) != 1 {
		t.Fatalf("%d volumes, want 1", len(list.Items))
	}
	return &list.Items[0]
}

// anchorRestore runs our hook for the restored volume and returns its report, and what became of the volume.
func anchorRestore(t *testing.T, cluster *backuptest.Cluster) (finalize.Report, finalize.VolumeOutcome) {
	t.Helper()
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	var outcome finalize.VolumeOutcome
	hook := finalize.RestorePVs(core, []finalize.RestoredVolume{{Namespace: "app", Claim: "data", Saved: saved()}}, finalize.RestorePVOptions{
		Ended: func(_ context.Context, o finalize.VolumeOutcome) { outcome = o },
	})
	runner, err := finalize.New([]finalize.Hook{hook}, finalize.Options{})
	must(t, err)
	report, err := runner.Run(t.Context())
	must(t, err)
	return report, outcome
}

func oursH(t *testing.T) ending {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{Objects: append(namespaces(), backuptest.Objects(restored()...)...)})
	c, err := velerotest.NewClient(cluster.Config())
	must(t, err)
	report, _ := anchorRestore(t, cluster)
	pv := volume(t, c)
	whole := report.Errors() == 0 && pv.Labels[zoneLabel] == "here" && pv.Labels[teamLabel] == "blue" && pv.Spec.PersistentVolumeReclaimPolicy == "Retain"
	other := backuptest.New(t, backuptest.Options{Objects: append(namespaces(), backuptest.Objects(restored()...)...)})
	c, err = velerotest.NewClient(other.Config())
	must(t, err)
	pv = volume(t, c)
	pv.Spec.ClaimRef.UID = "of-a-claim-that-is-gone"
	must(t, c.Update(t.Context(), pv))
	report, _ = anchorRestore(t, other)
	pv = volume(t, c)
	refused := report.Errors() == 1 && pv.Spec.PersistentVolumeReclaimPolicy == "Delete" && pv.Labels[teamLabel] == ""
	return ended(whole && refused, "topology label kept: %v; with a claimRef of another UID: an error, no patch: %v", whole, refused)
}

// pending is a claim that waits and names no class.
func pending() *corev1.PersistentVolumeClaim {
	claim := backuptest.Claim{Namespace: "app", Name: "data", Unbound: true}.PVC()
	claim.Spec.StorageClassName = nil
	return claim
}

// veleroI starts this program again, since Velero's panic is in a goroutine of its own and ends the process.
func veleroI(t *testing.T) ending {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childVariable+"=I")
	out, err := cmd.CombinedOutput()
	exit, died := errors.AsType[*exec.ExitError](err)
	text := string(out)
	switch {
	case died && strings.Contains(text, "nil pointer dereference") && strings.Contains(text, "patchDynamicPVWithVolumeInfo"):
		return ended(false, "the process dies: nil pointer dereference in a goroutine (exit code %d)", exit.ExitCode())
	case strings.Contains(text, survived):
		return ended(true, "the process goes on")
	}
	t.Fatalf("the child ended with %v:\n%s", err, text)
	return ending{}
}

const survived = "the finalizer returned"

// childI is scenario I in a process of its own, which does not end well.
func childI(ctx context.Context) error {
	cluster, err := backuptest.Start(backuptest.Options{Resources: velerotest.Kinds, Objects: append(namespaces(), pending())})
	if err != nil {
		return err
	}
	c, err := velerotest.NewClient(cluster.Config())
	if err != nil {
		return err
	}
	objects := &velerotest.Objects{}
	if err := prepare(ctx, c, objects); err != nil {
		return err
	}
	finalizeRestore(ctx, c, objects)
	return errors.New(survived)
}

func oursI(t *testing.T) ending {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{Objects: namespaces()})
	must(t, cluster.Add(pending()))
	report, outcome := anchorRestore(t, cluster)
	return ended(report.Done() && outcome.Skipped == finalize.SkipStatic && outcome.Err == nil, "left alone, without a class and a default nothing provisions it: %s", outcome.Skipped)
}
