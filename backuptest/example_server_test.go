package backuptest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// start makes a cluster for an example, with what ends it.
func start(objects ...backuptest.Builder) (*backuptest.Cluster, context.Context, func()) {
	cluster, err := backuptest.Start(backuptest.Options{Objects: backuptest.Objects(objects...)})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	return cluster, ctx, func() { stop(); cluster.Close() }
}

func ExampleCluster_ConfigFor() {
	cluster, ctx, end := start()
	defer end()
	core := kubernetes.NewForConfigOrDie(cluster.ConfigFor("ann", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"},
	}))
	pods, err := core.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
	fmt.Println(len(pods.Items), err)
	_, err = core.CoreV1().Secrets("shop").List(ctx, metav1.ListOptions{})
	fmt.Println(err)
	fmt.Println(cluster.RequestsBy("ann"))
	// Output:
	// 0 <nil>
	// secrets is forbidden: User "ann" cannot list resource "secrets" in API group "" in the namespace "shop"
	// map[list pods:1 list secrets:1]
}

func ExampleCluster_Bind() {
	cluster, ctx, end := start()
	defer end()
	const user = "system:serviceaccount:shop:backup"
	err := cluster.Bind(user, strings.NewReader(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: shop, name: backup}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list]}
`))
	if err != nil {
		panic(err)
	}
	core := kubernetes.NewForConfigOrDie(cluster.ConfigFor(user))
	_, err = core.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
	fmt.Println(err)
	_, err = core.CoreV1().Pods("bank").List(ctx, metav1.ListOptions{})
	fmt.Println(err)
	// Output:
	// <nil>
	// pods is forbidden: User "system:serviceaccount:shop:backup" cannot list resource "pods" in API group "" in the namespace "bank"
}

func ExampleGarbageCollector_Run() {
	cluster, ctx, end := start()
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	collector, err := backuptest.NewGarbageCollector(metadata.NewForConfigOrDie(cluster.Config()), core.Discovery())
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	all.Go(func() { _ = collector.Run(ctx) })

	maps := core.CoreV1().ConfigMaps("default")
	owner, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
	}}}
	if owned, err = maps.Create(ctx, owned, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	events, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: owned.ResourceVersion})
	if err != nil {
		panic(err)
	}
	defer events.Stop()
	if err := maps.Delete(ctx, owner.Name, metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
	for range 2 {
		e := <-events.ResultChan()
		fmt.Println(e.Type, e.Object.(*corev1.ConfigMap).Name)
	}
	// Output:
	// DELETED owner
	// DELETED owned
}

func ExampleKubelet_Run() {
	cluster, ctx, end := start(backuptest.Pod{Namespace: "shop", Name: "web"})
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	kubelet, err := backuptest.NewKubelet(core, backuptest.KubeletOptions{})
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer end()

	pods := core.CoreV1().Pods("shop")
	if err := pods.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
	web, err := pods.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println("grace period:", *web.DeletionGracePeriodSeconds)
	events, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: web.ResourceVersion})
	if err != nil {
		panic(err)
	}
	defer events.Stop()
	all.Go(func() { _ = kubelet.Run(ctx) })
	fmt.Println((<-events.ResultChan()).Type == watch.Deleted)
	// Output:
	// grace period: 30
	// true
}
