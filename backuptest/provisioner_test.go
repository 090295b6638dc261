package backuptest_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

const finRestore = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"

// provision starts a provisioner that runs until the lab ends.
func (l *lab) provision(latency time.Duration) {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.all.Go(func() {
		if err := backuptest.NewProvisioner(l.client, l.driver, backuptest.ProvisionerOptions{Latency: latency}).Run(ctx); err != nil {
			l.t.Errorf("Run = %v", err)
		}
	})
	l.t.Cleanup(cancel)
}

// claim makes an unbound claim, with changes to its spec.
func (l *lab) claim(name string, change map[string]any) {
	l.t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(backuptest.Claim{Namespace: "app", Name: name, Unbound: true}.PVC())
	if err != nil {
		l.t.Fatal(err)
	}
	claim := &unstructured.Unstructured{Object: fields}
	claim.SetUID("")
	claim.SetFinalizers(nil)
	for field, value := range change {
		if err := unstructured.SetNestedField(claim.Object, value, "spec", field); err != nil {
			l.t.Fatal(err)
		}
		if value == nil {
			unstructured.RemoveNestedField(claim.Object, "spec", field)
		}
	}
	if _, err := l.client.Resource(claimsGVR).Namespace("app").Create(l.t.Context(), claim, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) phase(claim string) string {
	phase, _, _ := unstructured.NestedString(l.get(claimsGVR, "app", claim).Object, "status", "phase")
	return phase
}

func dataSource(name string) map[string]any {
	return map[string]any{"dataSource": map[string]any{"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name}}
}

// B2: a claim gets its volume after the storage's time, can be snapshotted then, and goes when no pod uses it.
func TestProvisionerBinds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		class  backuptest.StorageClass
		change map[string]any
		bound  bool
	}{
		"named class":        {reason: "the class is of the driver", bound: true},
		"default class":      {reason: "no class is named", class: backuptest.StorageClass{Default: true}, change: map[string]any{"storageClassName": nil}, bound: true},
		"no default class":   {reason: "no class is named, and none is default", change: map[string]any{"storageClassName": nil}},
		"without class":      {reason: "the claim wants none", change: map[string]any{"storageClassName": ""}},
		"another driver":     {reason: "its provisioner is another", class: backuptest.StorageClass{Driver: "other.example"}},
		"no such class":      {reason: "the class is missing", change: map[string]any{"storageClassName": "gold"}},
		"volume not there":   {reason: "the volume that it names is missing", change: map[string]any{"volumeName": "nowhere"}},
		"volume of a friend": {reason: "the volume that it names is another claim's", change: map[string]any{"volumeName": backuptest.Claim{Namespace: "app", Name: "data"}.PV().Name}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, append(claimAndClass(), tc.class)...)
				l.run(backuptest.ControllerOptions{})
				l.provision(2 * time.Second)
				l.claim("new", tc.change)
				l.wait(1999 * time.Millisecond)
				if phase := l.phase("new"); phase != "Pending" {
					t.Errorf("%s: %s before the storage's time", tc.reason, phase)
				}
				l.wait(time.Minute)
				if got := l.phase("new") == "Bound"; got != tc.bound {
					t.Fatalf("%s: bound %t, want %t", tc.reason, got, tc.bound)
				}
				if tc.bound {
					l.take("snap", "new", backuptest.DefaultSnapshotClass)
					l.wait(time.Second)
					l.when("vs snap", "ready")
				}
				l.delete(claimsGVR, "app", "new")
				l.wait(time.Second)
				if _, err := l.client.Resource(claimsGVR).Namespace("app").Get(t.Context(), "new", metav1.GetOptions{}); err == nil {
					t.Errorf("%s: the deleted claim is still there", tc.reason)
				}
			})
		})
	}
}

// B2: a claim is kept while a pod uses it.
func TestProvisionerKeepsClaimOfPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, append(claimAndClass(), backuptest.StorageClass{}, backuptest.Pod{Namespace: "app", Name: "db", Claims: []string{"data"}})...)
		l.provision(0)
		l.wait(time.Second)
		l.delete(claimsGVR, "app", "data")
		l.wait(time.Minute)
		if l.get(claimsGVR, "app", "data").GetDeletionTimestamp() == nil {
			t.Error("the claim is not Terminating")
		}
		pods := l.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("app")
		if err := pods.Delete(t.Context(), "db", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
		l.wait(2 * time.Minute)
		if _, err := l.client.Resource(claimsGVR).Namespace("app").Get(t.Context(), "data", metav1.GetOptions{}); err == nil {
			t.Error("the claim is still there without its pod")
		}
	})
}

// B2: a restore waits until the snapshot is ready, holds it meanwhile, and keeps it from being deleted until the claim is bound.
func TestProvisionerRestores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, append(claimAndClass(), backuptest.StorageClass{})...)
		l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {CutAfter: 2 * time.Second}}})
		l.provision(10 * time.Second)
		l.claim("copy", dataSource("snap"))
		l.wait(time.Millisecond)
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(4 * time.Second) // tried at 0, 1 and 3
		if !slices.Contains(l.get(snapshotsGVR, "app", "snap").GetFinalizers(), finRestore) {
			t.Error("the snapshot is not held during the restore")
		}
		l.delete(snapshotsGVR, "app", "snap")
		l.wait(5 * time.Second)
		if phase := l.phase("copy"); phase != "Pending" {
			t.Errorf("the claim is %s at 9 s, want Pending: the storage needs 10", phase)
		}
		if got := l.reasons("app"); !slices.Contains(got, "Warning SnapshotDeletePending") || !slices.Contains(got, "Warning ProvisioningFailed") {
			t.Errorf("events %v, want SnapshotDeletePending and ProvisioningFailed", got)
		}
		l.wait(time.Minute)
		if phase := l.phase("copy"); phase != "Bound" {
			t.Errorf("the claim is %s, want Bound", phase)
		}
		if gone := l.when("vs snap", "gone"); gone < 13*time.Second {
			t.Errorf("snapshot gone after %v, before the claim was bound", gone)
		}
	})
}

// B2: what cannot be restored leaves the claim Pending, with the reason in an event.
func TestProvisionerRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, append(claimAndClass(), backuptest.StorageClass{}, backuptest.Snapshot{Namespace: "app", Name: "unready", Claim: "data", State: backuptest.SnapshotCut},
			backuptest.Snapshot{Namespace: "app", Name: "unbound", Claim: "data", State: backuptest.SnapshotCreated})...)
		l.provision(0)
		for claim, snapshot := range map[string]string{"a": "unready", "b": "unbound", "c": "nothing"} {
			l.claim(claim, dataSource(snapshot))
		}
		l.wait(time.Minute)
		for _, claim := range []string{"a", "b", "c"} {
			if phase := l.phase(claim); phase != "Pending" {
				t.Errorf("claim %s is %s, want Pending", claim, phase)
			}
		}
		list, err := l.client.Resource(eventsGVR).Namespace("app").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for i := range list.Items {
			if text, _, _ := unstructured.NestedString(list.Items[i].Object, "message"); text != "" {
				texts = append(texts, text)
			}
		}
		want := `failed to provision volume with StorageClass "fast": error getting handle for DataSource Type VolumeSnapshot by Name unready: snapshot unready is not Ready`
		if !slices.Contains(texts, want) {
			t.Errorf("events say %q, want %q", texts, want)
		}
	})
}

// B2: a class that waits for its first consumer, and a claim with a volume of its own.
func TestProvisionerWaitsForConsumer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		waits, err := runtime.DefaultUnstructuredConverter.ToUnstructured(backuptest.StorageClass{}.Object())
		if err != nil {
			t.Fatal(err)
		}
		waits["volumeBindingMode"] = "WaitForFirstConsumer"
		if err := l.cluster.Add(&unstructured.Unstructured{Object: waits}); err != nil {
			t.Fatal(err)
		}
		l.provision(0)
		l.claim("new", nil)
		l.wait(time.Hour)
		if phase := l.phase("new"); phase != "Pending" {
			t.Errorf("the claim is %s without a node", phase)
		}
		claim := l.get(claimsGVR, "app", "new")
		claim.SetAnnotations(map[string]string{"volume.kubernetes.io/selected-node": "node-1"})
		if _, err := l.client.Resource(claimsGVR).Namespace("app").Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.wait(time.Second)
		if phase := l.phase("new"); phase != "Bound" {
			t.Errorf("the claim is %s with a node", phase)
		}
	})
}

func TestProvisionerRefusesToRun(t *testing.T) {
	t.Parallel()
	if err := backuptest.NewProvisioner(nil, nil, backuptest.ProvisionerOptions{}).Run(t.Context()); err == nil {
		t.Error("Run without client and driver = nil, want an error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	if err := backuptest.NewProvisioner(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ProvisionerOptions{}).Run(ctx); err != nil {
		t.Errorf("Run with a ctx that is over = %v, want nil", err)
	}
}
