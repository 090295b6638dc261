package compat_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	snapinformers "github.com/kubernetes-csi/external-snapshotter/client/v8/informers/externalversions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// definitions are the CRDs that external-snapshotter ships.
func definitions(t *testing.T) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/kubernetes-csi/external-snapshotter/client/v8").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "*snapshot*.yaml"))
	if err != nil || len(files) != 6 {
		t.Fatalf("%d definitions, %v, want 6", len(files), err)
	}
	var all bytes.Buffer
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n")
		all.Write(raw)
	}
	return all.Bytes()
}

func fromClaim(claim string) snapshotv1.VolumeSnapshotSource {
	return snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}
}

// B1: the typed clients and informers of external-snapshotter 8 work on the server, with the CRDs it ships as schemas:
// a class with a policy that is none is refused in the words of a real server.
func TestSnapshotClientOnItsDefinitions(t *testing.T) {
	t.Parallel()
	crds := definitions(t)
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster(t, backuptest.Options{NoSnapshotCRDs: true})
		if skipped, err := cluster.Load(bytes.NewReader(crds)); err != nil || len(skipped) > 0 {
			t.Fatalf("Load = %v, %v", skipped, err)
		}
		client := snapshots.NewForConfigOrDie(cluster.Config())
		ctx, stop := context.WithCancel(t.Context())
		factory := snapinformers.NewSharedInformerFactory(client, 0)
		lister := factory.Snapshot().V1().VolumeSnapshots()
		informer := lister.Informer()
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		defer stop()
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatal("not synced")
		}
		vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: snapshotv1.VolumeSnapshotSpec{Source: fromClaim("data")}}
		made, err := client.SnapshotV1().VolumeSnapshots("app").Create(ctx, vs, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true), CreationTime: new(metav1.Now())}
		if _, err := client.SnapshotV1().VolumeSnapshots("app").UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := lister.Lister().VolumeSnapshots("app").Get("one"); err != nil || got.Status == nil || !*got.Status.ReadyToUse {
			t.Errorf("the informer has %+v, %v, want it ready", got, err)
		}
		class := &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "odd"}, Driver: "d", DeletionPolicy: "Shred"}
		_, err = client.SnapshotV1().VolumeSnapshotClasses().Create(ctx, class, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `deletionPolicy: Unsupported value: "Shred": supported values: "Delete", "Retain"`) {
			t.Errorf("create of a class with policy Shred = %v, want Invalid", err)
		}
	})
}

// B2, B4, all-1: the fake controller and csisnapshot's waiter work at event speed with the types of external-snapshotter 8, on
// the server and on client-go's bare fake, which sends no bookmarks.
func TestWaiterOnServerAndBareFake(t *testing.T) {
	t.Parallel()
	claim := backuptest.Claim{Namespace: "app", Name: "data"}
	objects := backuptest.Objects(claim, backuptest.SnapshotClass{Default: true})
	clients := map[string]func(t *testing.T) dynamic.Interface{
		"server": func(t *testing.T) dynamic.Interface {
			t.Helper()
			return dynamic.NewForConfigOrDie(backuptest.New(t, backuptest.Options{Objects: objects}).Config())
		},
		"bare fake": func(t *testing.T) dynamic.Interface {
			t.Helper()
			own := runtime.NewScheme()
			if err := scheme.AddToScheme(own); err != nil {
				t.Fatal(err)
			}
			gvr := func(resource string) schema.GroupVersionResource {
				return snapshotv1.SchemeGroupVersion.WithResource(resource)
			}
			return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(own, map[schema.GroupVersionResource]string{
				gvr("volumesnapshots"): "VolumeSnapshotList", gvr("volumesnapshotcontents"): "VolumeSnapshotContentList",
				gvr("volumesnapshotclasses"): "VolumeSnapshotClassList",
			}, objects...)
		},
	}
	for name, open := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := open(t)
				controller := backuptest.NewSnapshotController(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ControllerOptions{
					Scripts: map[string]backuptest.Script{"data": {CutAfter: 2 * time.Second}},
				})
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				all.Go(func() { _ = controller.Run(ctx) })
				defer all.Wait()
				defer stop()
				var names csisnapshot.Names
				owner := csisnapshot.Owner{UID: "7d0c3a51-4f7e-4a52-9f0b-1c2d3e4f5a6b", Namespace: "app", Name: "nightly"}
				vs := names.NewSnapshot(owner, csisnapshot.ClaimRef{Namespace: "app", Name: "data", UID: claim.PVC().UID}, "")
				c := csisnapshot.NewDynamic(client)
				if _, err := c.Snapshots().Create(ctx, vs); err != nil {
					t.Fatal(err)
				}
				waiter, err := csisnapshot.NewWaiter(c, csisnapshot.WaitOptions{MaxWait: time.Minute}, owner, names, []string{"app"})
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				for _, o := range waiter.Wait(ctx, []csisnapshot.Target{{Ref: vs.Ref()}}, csisnapshot.StageReady) {
					if o.Err != nil || !o.Result.Ready {
						t.Errorf("outcome = %+v", o)
					}
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("ready after %v, want event speed", took)
				}
			})
		})
	}
}
