package backuptest_test

import (
	"testing"
	"testing/synctest"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

var snapshotGVR = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}

// clients are the real clients on one cluster.
type clients struct {
	t       *testing.T // of the bubble
	cluster *backuptest.Cluster
	core    kubernetes.Interface
	snaps   snapshots.Interface
	dynamic dynamic.Interface
}

func newClients(t *testing.T, opts ...backuptest.Options) clients {
	t.Helper()
	cluster := backuptest.New(t, opts...)
	return clients{
		t:       t,
		cluster: cluster,
		core:    kubernetes.NewForConfigOrDie(cluster.Config()),
		snaps:   snapshots.NewForConfigOrDie(cluster.Config()),
		dynamic: dynamic.NewForConfigOrDie(cluster.Config()),
	}
}

// inBubble runs a test in virtual time on a cluster that has the namespace app.
func inBubble(t *testing.T, opts backuptest.Options, run func(c clients)) {
	t.Helper()
	opts.Objects = append(opts.Objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "app"}})
	synctest.Test(t, func(t *testing.T) { run(newClients(t, opts)) })
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name, Labels: labels}, Data: map[string]string{"key": "value"}}
}

func snapshot(name string) *snapshotv1.VolumeSnapshot {
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("data")}},
	}
}

// B1: the real core, snapshot, dynamic and discovery clients work on the cluster's Config.
// B3: and they do so in virtual time.
func TestRealClients(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		ctx := t.Context()
		made, err := c.snaps.SnapshotV1().VolumeSnapshots("app").Create(ctx, snapshot("one"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.UID == "" || made.ResourceVersion == "" || made.Generation != 1 || made.CreationTimestamp.IsZero() {
			t.Errorf("created = %+v, want UID, resourceVersion, generation and creation time", made.ObjectMeta)
		}
		w, err := c.dynamic.Resource(snapshotGVR).Namespace("app").Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		made.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true)}
		if _, err := c.snaps.SnapshotV1().VolumeSnapshots("app").UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); e.Type != watch.Modified {
			t.Errorf("event = %v, want MODIFIED", e.Type)
		}
		if _, err := c.core.CoreV1().ConfigMaps("app").Patch(ctx, "none", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("patch of nothing = %v, want NotFound", err)
		}
		groups, err := restmapper.GetAPIGroupResources(c.core.Discovery())
		if err != nil {
			t.Fatal(err)
		}
		mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(schema.GroupKind{Group: snapshotGVR.Group, Kind: "VolumeSnapshot"})
		if err != nil || mapping.Resource != snapshotGVR {
			t.Errorf("RESTMapping = %v, %v, want %v", mapping, err, snapshotGVR)
		}
	})
}
