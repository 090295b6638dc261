package backuptest_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// A second run of an idempotent program is expected to write nothing and to stay within its role.
func ExampleCluster_Log() {
	cluster, err := backuptest.Start(backuptest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	maps := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().ConfigMaps("default")
	for _, run := range []string{"first run", "second run"} {
		cluster.Mark(run)
		_, _ = maps.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{})
		_, _ = maps.List(context.Background(), metav1.ListOptions{})
	}
	second := cluster.Log().After("second run")
	fmt.Println(second.NoWrites())
	fmt.Println(second.AtMost(1, backuptest.Request{Verb: "list"}))
	fmt.Println(second.None(backuptest.Request{Namespace: "kube-system"}))
	fmt.Println(cluster.Log().Only(
		backuptest.Request{Verb: "list", Resource: "configmaps"},
		backuptest.Request{Verb: "create", Resource: "configmaps"},
	))
	// Output:
	// want no write, got 1:
	// 	1× create configmaps default/settings: 409
	// <nil>
	// <nil>
	// <nil>
}

func ExampleCluster_Restart() {
	cluster, err := backuptest.Start(backuptest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	cluster.Restart(time.Minute)
	maps := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().ConfigMaps("default")
	_, err = maps.List(context.Background(), metav1.ListOptions{})
	fmt.Println(err)
	// Output: Get "http://cluster.invalid/api/v1/namespaces/default/configmaps": dial tcp: connection refused
}
