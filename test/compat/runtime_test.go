package compat_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func allow(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, snapshotv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// B1, all-6: controller-runtime's client finds its kinds by discovery and does everything but server-side apply.
func TestControllerRuntimeClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster(t, backuptest.Options{})
		ctx := t.Context()
		c, err := client.New(cluster.Config(), client.Options{Scheme: newScheme(t)})
		if err != nil {
			t.Fatal(err)
		}
		vs := &snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "app", GenerateName: "snap-", Labels: map[string]string{"run": "1"}},
			Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("data")}},
			Status:     &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true)},
		}
		if err := c.Create(ctx, vs); err != nil || vs.UID == "" || vs.Status != nil {
			t.Fatalf("created %+v, %v, want a UID and no status", vs, err)
		}
		vs.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true)}
		if err := c.Status().Update(ctx, vs); err != nil {
			t.Fatal(err)
		}
		stale := vs.DeepCopy()
		before := vs.DeepCopy()
		controllerutil.AddFinalizer(vs, "example.dev/hold")
		if err := c.Patch(ctx, vs, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			t.Fatal(err)
		}
		if err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
			t.Errorf("stale update = %v, want Conflict", err)
		}
		var list snapshotv1.VolumeSnapshotList
		if err := c.List(ctx, &list, client.InNamespace("app"), client.MatchingLabels{"run": "1"}, client.Limit(1)); err != nil || len(list.Items) != 1 || !*list.Items[0].Status.ReadyToUse {
			t.Errorf("list = %+v, %v", list, err)
		}
		var meta metav1.PartialObjectMetadata
		meta.SetGroupVersionKind(snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshot"))
		if err := c.Get(ctx, client.ObjectKeyFromObject(vs), &meta); err != nil || meta.UID != vs.UID {
			t.Errorf("metadata = %+v, %v", meta, err)
		}
		if err := c.Delete(ctx, vs, client.Preconditions{UID: &stale.UID}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(vs), vs); err != nil || vs.DeletionTimestamp == nil {
			t.Errorf("deleted = %+v, %v, want it held", vs, err)
		}
		controllerutil.RemoveFinalizer(vs, "example.dev/hold")
		if err := c.Update(ctx, vs); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(vs), vs); !apierrors.IsNotFound(err) {
			t.Errorf("get = %v, want NotFound", err)
		}
		if err := c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("app")); err != nil {
			t.Errorf("DeleteAllOf = %v", err)
		}
		dry := client.NewDryRunClient(c)
		if err := dry.Create(ctx, configMap("dry")); err != nil {
			t.Errorf("dry create = %v", err)
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "app", Name: "dry"}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			t.Errorf("get after a dry run = %v, want NotFound", err)
		}
		strict := client.WithFieldValidation(c, "Strict")
		if err := strict.Create(ctx, configMap("strict")); err != nil {
			t.Errorf("strict create = %v", err)
		}
	})
}

// B1, B3, all-10: a controller on controller-runtime's cache, without a manager, is told of each object, writes with its own
// rights only, and gets over conflicts and a compaction.
func TestControllerRuntimeController(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster(t, backuptest.Options{})
		config := cluster.ConfigFor("system:serviceaccount:app:controller", allow("", "configmaps", "get", "list", "watch", "update"))
		s := newScheme(t)
		objects, err := cache.New(config, cache.Options{Scheme: s, DefaultNamespaces: map[string]cache.Config{"app": {}}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(config, client.Options{Scheme: s, Cache: &client.CacheOptions{Reader: objects}})
		if err != nil {
			t.Fatal(err)
		}
		ctrlr, err := controller.NewUnmanaged("copier", controller.Options{
			SkipNameValidation: new(true), UsePriorityQueue: new(false), Logger: ctrl.LoggerFrom(t.Context()),
			Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				var m corev1.ConfigMap
				if err := c.Get(ctx, req.NamespacedName, &m); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				if m.Data["copy"] == m.Data["key"] {
					return reconcile.Result{}, nil
				}
				m.Data["copy"] = m.Data["key"]
				return reconcile.Result{}, c.Update(ctx, &m)
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := ctrlr.Watch(source.Kind(objects, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- objects.Start(ctx) }()
		go func() { done <- ctrlr.Start(ctx) }()
		admin, err := client.New(cluster.Config(), client.Options{Scheme: s})
		if err != nil {
			t.Fatal(err)
		}
		cluster.Fault(backuptest.Fault{Verb: "update", Times: 2, Action: backuptest.FaultStatus, Code: 409})
		for _, name := range []string{"one", "two"} {
			if err := admin.Create(ctx, configMap(name)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			cluster.Compact()
			cluster.EndWatches("")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, name := range []string{"one", "two"} {
			var m corev1.ConfigMap
			if err := admin.Get(ctx, client.ObjectKey{Namespace: "app", Name: name}, &m); err != nil || m.Data["copy"] != "value" {
				t.Errorf("%s = %v, %v, want the copy", name, m.Data, err)
			}
		}
		stop()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("Start = %v", err)
			}
		}
		requests := cluster.RequestsBy("system:serviceaccount:app:controller")
		if requests["update configmaps"] != 4 {
			t.Errorf("requests = %v, want 4 updates", requests)
		}
	})
}
