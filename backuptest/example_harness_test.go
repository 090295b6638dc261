package backuptest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/operations"
)

// A test of a backup: a cluster with a snapshot-controller of which one volume is slow, what the code under test did, and
// what it must not do. Inside testing/synctest the slow one takes no time.
func ExampleNew() {
	_ = func(t *testing.T) { //nolint:thelper // it stands for: func TestBackup(t *testing.T)
		cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(
			backuptest.SnapshotClass{},
			backuptest.Claim{Namespace: "shop", Name: "data"},
			backuptest.Pod{Namespace: "shop", Name: "db-0", Claims: []string{"data"}},
		)})
		storage := backuptest.RunSnapshots(t, cluster, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{
			"shop/data": {CutAfter: time.Minute},
		}})

		core := kubernetes.NewForConfigOrDie(cluster.ConfigFor("operator", rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"},
		}))
		_ = core // the code under test gets it

		backuptest.Check(t,
			cluster.Log().By("operator").AtMost(1, backuptest.Request{Verb: "list", Resource: "pods"}),
			cluster.Log().By("operator").None(backuptest.Request{Verb: "delete"}),
		)
		if n := len(storage.Snapshots()); n != 1 {
			t.Errorf("%d physical snapshots, want 1", n)
		}
	}
}

// The controllers also work on the generated fakes that a test has already.
func ExampleNewFakeClient() {
	ctx, stop := context.WithCancel(context.Background())
	core := kubefake.NewClientset(backuptest.Objects(backuptest.StorageClass{})...)
	client := backuptest.NewFakeClient(backuptest.FakeClientset{Fake: core, Scheme: kubescheme.Scheme})
	provisioner := backuptest.NewProvisioner(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ProvisionerOptions{})
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	claims := core.CoreV1().PersistentVolumeClaims("shop")
	changes, err := claims.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	defer changes.Stop()
	claim := backuptest.Claim{Namespace: "shop", Name: "data"}.PVC()
	claim.Spec.VolumeName, claim.Status = "", corev1.PersistentVolumeClaimStatus{}
	if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	running.Go(func() { _ = provisioner.Run(ctx) })
	for change := range changes.ResultChan() {
		if c := change.Object.(*corev1.PersistentVolumeClaim); c.Status.Phase == corev1.ClaimBound {
			fmt.Println(c.Name, "is bound")
			return
		}
	}
	// Output:
	// data is bound
}

// A pod of a controller of your own, and the objects that refer to it, have the UIDs that the builders give.
func ExampleControllerOf() {
	pod := backuptest.Pod{
		Namespace: "shop", Name: "virt-launcher-win", Owner: backuptest.ControllerOf("kubevirt.io/v1", "VirtualMachineInstance", "shop", "win"),
	}.Object()
	fmt.Println(pod.UID == backuptest.UIDOf("Pod", "shop", "virt-launcher-win"))
	fmt.Println(pod.OwnerReferences[0].UID == backuptest.UIDOf("VirtualMachineInstance", "shop", "win"))
	// Output:
	// true
	// true
}

// What a watch must live through: the stream ends, and the past it would go on from is gone.
func ExampleCluster_EndWatches() {
	cluster, ctx, end := start()
	defer end()
	client := &http.Client{Transport: cluster.RoundTripper()} // whoever speaks HTTP is a client
	answer, err := client.Get(cluster.Config().Host + "/version")
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.StatusCode, answer.Body.Close())

	maps := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().ConfigMaps("shop")
	watching, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		panic(err)
	}
	cluster.EndWatches("configmaps")
	_, open := <-watching.ResultChan()
	fmt.Println("open:", open)

	if err := cluster.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}); err != nil {
		panic(err)
	}
	cluster.Compact()
	cluster.ResetRequests() // count from here
	if watching, err = maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "1"}); err == nil {
		fmt.Println((<-watching.ResultChan()).Type)
		watching.Stop()
	} else {
		fmt.Println(err)
	}
	fmt.Println(cluster.Requests())
	// Output:
	// 200 <nil>
	// open: false
	// ERROR
	// map[watch configmaps:1]
}

// What a step of a program asked of the server, between two marks.
func ExampleLog() {
	cluster, ctx, end := start()
	defer end()
	pods := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().Pods("shop")
	cluster.Mark("plan")
	_, _ = pods.List(ctx, metav1.ListOptions{})
	cluster.Mark("cut")
	_, _ = pods.Get(ctx, "db-0", metav1.GetOptions{})
	plan := cluster.Log().After("plan").Before("cut")
	fmt.Println(plan.Counts(), len(cluster.Log().Of(backuptest.Request{Verb: "get"})))
	// Output:
	// map[list pods:1] 1
}

// A process that is killed at its second effect, whatever that is: here the second write of a store.
func ExampleNewCrash() {
	store := backuptest.NewStore(operations.NewMemoryStore())
	err := backuptest.NewCrash(map[int]backuptest.Trouble{2: backuptest.CrashBefore}).Run(context.Background(),
		func(ctx context.Context, p *backuptest.Process) error {
			slot := operations.NewSlot(store.In(p), "checkpoint.json") // a quiescer of NewHooks has In too
			if _, err := slot.Load(ctx); err != nil {
				return err
			}
			err := errors.Join(slot.Save(ctx, []byte("1")), slot.Save(ctx, []byte("2")))
			fmt.Println("crashed:", p.Crashed(), "effects:", len(p.Effects()))
			return err
		})
	data, _, readErr := store.Read(context.Background(), "checkpoint.json")
	fmt.Println(string(data), err, readErr)
	// Output:
	// crashed: true effects: 2
	// crashed: false effects: 2
	// 2 <nil> <nil>
}

// The storage becomes slow in the middle of a test: what is scripted for a claim holds for its snapshots from then on.
func ExampleSnapshotController_SetScript() {
	cluster, _, end := start(backuptest.Claim{Namespace: "shop", Name: "data"})
	defer end()
	controller := backuptest.NewSnapshotController(dynamic.NewForConfigOrDie(cluster.Config()),
		backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ControllerOptions{})
	controller.SetScript("shop/data", backuptest.Script{CutAfter: time.Hour}) // also while Run runs
}
