package stack_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// cluster is the API of a stack as admin sees it.
type cluster struct {
	core kubernetes.Interface
	snap snapshots.Interface
}

func newCluster(t *testing.T, s *stack.Stack) cluster {
	t.Helper()
	cfg := s.Config(stack.Admin)
	client := httpClient(t, cfg)
	core, err := kubernetes.NewForConfigAndClient(cfg, client)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := snapshots.NewForConfigAndClient(cfg, client)
	if err != nil {
		t.Fatal(err)
	}
	return cluster{core: core, snap: snap}
}

// newCore is a client whose connections end with the test.
func newCore(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	core, err := kubernetes.NewForConfigAndClient(cfg, httpClient(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	return core
}

func httpClient(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(client.Transport) })
	return client
}

// claim makes a namespace with a claim "data".
func (c cluster) claim(t *testing.T, namespace string) {
	t.Helper()
	c.namespace(t, namespace)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if _, err := c.core.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the claim is bound", func(ctx context.Context) (bool, error) {
		claim, err := c.core.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "data", metav1.GetOptions{})
		return err == nil && claim.Status.Phase == corev1.ClaimBound, err
	})
}

func (c cluster) namespace(t *testing.T, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.core.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// snapshot makes a snapshot of the claim "data".
func (c cluster) snapshot(t *testing.T, namespace, name string) {
	t.Helper()
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("data")}},
	}
	if _, err := c.snap.SnapshotV1().VolumeSnapshots(namespace).Create(t.Context(), vs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c cluster) awaitReady(t *testing.T, namespace, name string) {
	t.Helper()
	await(t, "the snapshot is ready", func(ctx context.Context) (bool, error) {
		vs, err := c.snap.SnapshotV1().VolumeSnapshots(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && vs.Status != nil && vs.Status.ReadyToUse != nil && *vs.Status.ReadyToUse, err
	})
}

// await asks until yes; an error ends it.
func await(t *testing.T, what string, yes wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, bound, true, yes); err != nil {
		t.Fatalf("awaiting that %s: %v", what, err)
	}
}
