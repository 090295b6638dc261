package backuptest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	snapfake "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/fake"
	snapscheme "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
)

// fakes are the clientsets a user's test has, with a claim and a class in them.
func fakes(t *testing.T) (*snapfake.Clientset, dynamic.Interface) {
	t.Helper()
	core := kubefake.NewClientset(backuptest.Claim{Namespace: "app", Name: "data"}.Objects()...)
	snaps := snapfake.NewSimpleClientset()
	client := backuptest.NewFakeClient(
		backuptest.FakeClientset{Fake: core, Scheme: kubescheme.Scheme},
		backuptest.FakeClientset{Fake: snaps, Scheme: snapscheme.Scheme},
	)
	if _, err := client.Resource(classesGVR).Create(t.Context(), backuptest.SnapshotClass{}.Object(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return snaps, client
}

// B2 B4 all-1 all-3: the controller and the library's waiter meet on one generated fake of client/v6, which sends no bookmark and loses
// what happens between a list and a watch. The wait ends with the snapshot, not with a timeout of ten seconds.
func TestControllerAndWaiterOnGeneratedFakes(t *testing.T) {
	t.Parallel()
	for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { waitOnGeneratedFakes(t, mode) })
		})
	}
}

func waitOnGeneratedFakes(t *testing.T, mode csisnapshot.Mode) {
	t.Helper()
	snaps, client := fakes(t)
	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	controller := backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{
		Scripts: map[string]backuptest.Script{"data": {CutAfter: time.Second, Errors: []backuptest.DriverError{{Text: "busy", Times: 1}}}},
	})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = controller.Run(ctx) })
	defer all.Wait()
	defer stop()

	library := snapv6.New(snaps)
	owner, names := csisnapshot.Owner{UID: "owner-1", Name: "nightly"}, csisnapshot.Names{}
	w, err := csisnapshot.NewWaiter(library, csisnapshot.WaitOptions{Mode: mode}, owner, names, []string{"app"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	<-w.Opened()
	claim := csisnapshot.ClaimRef{Namespace: "app", Name: "data"}
	claim.UID = "uid-of-data"
	vs, err := library.Snapshots().Create(t.Context(), names.NewSnapshot(owner, claim, backuptest.DefaultSnapshotClass))
	if err != nil {
		t.Fatal(err)
	}
	pending, start := w.Add(csisnapshot.Target{Snapshot: &vs, Created: true}, csisnapshot.StageReady), time.Now()
	result, err := pending.Wait(t.Context(), csisnapshot.StageReady)
	if err != nil || !result.Ready {
		t.Errorf("ready: %+v, %v", result, err)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("waited %v, want the two seconds of the storage and a poll", took)
	}
	w.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if held := driver.Snapshots(); len(held) != 1 || held[0].Handle != result.Handle {
		t.Errorf("the storage holds %+v, want the one of %+v", held, result)
	}
}

// B2: the provisioner works on the fakes, too.
func TestProvisionerOnGeneratedFakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := fakes(t)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		provisioner := backuptest.NewProvisioner(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ProvisionerOptions{Latency: time.Second})
		all.Go(func() { _ = provisioner.Run(ctx) })
		defer all.Wait()
		defer stop()
		for gvr, object := range map[schema.GroupVersionResource]runtime.Object{
			{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}: backuptest.StorageClass{}.Object(),
			claimsGVR: backuptest.Claim{Namespace: "app", Name: "new", Unbound: true}.PVC(),
		} {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			u := &unstructured.Unstructured{Object: fields}
			if _, err := client.Resource(gvr).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		claim, err := client.Resource(claimsGVR).Namespace("app").Get(t.Context(), "new", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if phase, _, _ := unstructured.NestedString(claim.Object, "status", "phase"); phase != "Bound" {
			t.Errorf("the claim is %q, want Bound", phase)
		}
	})
}

func TestFakeClientRefuses(t *testing.T) {
	t.Parallel()
	_, client := fakes(t)
	unknown := client.Resource(schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "things"})
	if _, err := unknown.Get(t.Context(), "x", metav1.GetOptions{}); err == nil {
		t.Error("Get of an unknown kind succeeded")
	}
	if _, err := unknown.List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("List of an unknown kind succeeded")
	}
	if _, err := unknown.Watch(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("Watch of an unknown kind succeeded")
	}
	if err := unknown.Delete(t.Context(), "x", metav1.DeleteOptions{}); err == nil {
		t.Error("Delete of an unknown kind succeeded")
	}
	claims := client.Resource(claimsGVR).Namespace("app")
	if err := claims.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err == nil {
		t.Error("DeleteCollection succeeded")
	}
	if _, err := claims.Apply(t.Context(), "data", nil, metav1.ApplyOptions{}); err == nil {
		t.Error("Apply succeeded")
	}
	if _, err := claims.ApplyStatus(t.Context(), "data", nil, metav1.ApplyOptions{}); err == nil {
		t.Error("ApplyStatus succeeded")
	}
	claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.SetLabels(map[string]string{"a": "b"})
	if _, err := claims.Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if err := claims.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
