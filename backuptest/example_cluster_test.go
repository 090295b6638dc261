package backuptest_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func ExampleStart() {
	cluster, err := backuptest.Start(backuptest.Options{Objects: []runtime.Object{
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	pods, err := core.CoreV1().Pods("shop").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(pods.Items), pods.Items[0].Name)
	fmt.Println(cluster.Requests())
	// Output:
	// 1 web
	// map[list pods:1]
}

func ExampleCluster_Load() {
	cluster, err := backuptest.Start(backuptest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	skipped, err := cluster.Load(strings.NewReader(`
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}
- {apiVersion: gateway.example/v1, kind: Gateway, metadata: {name: front, namespace: shop}}
`))
	fmt.Println(skipped, err)
	// Output: [gateway.example/v1 Gateway shop/front] <nil>
}

func ExampleCluster_Fault() {
	cluster, err := backuptest.Start(backuptest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	cluster.Fault(backuptest.Fault{Verb: "create", Resource: "configmaps", Nth: 2, Action: backuptest.FaultLostAnswer})

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		_, err := core.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}, metav1.CreateOptions{})
		fmt.Println(err == nil, apierrors.IsAlreadyExists(err))
	}
	list, err := core.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(list.Items), "are there: the second was made, and its answer lost")
	// Output:
	// true false
	// false false
	// true false
	// 3 are there: the second was made, and its answer lost
}
