package backuptest_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// A program of two steps is killed after each of its writes, and run again.
func ExampleEachCrash() {
	for crash := range backuptest.EachCrash() {
		cluster, err := backuptest.Start(backuptest.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		var lives [][]string
		err = crash.Run(context.Background(), func(ctx context.Context, p *backuptest.Process) error {
			maps := kubernetes.NewForConfigOrDie(p.Config(cluster.Config())).CoreV1().ConfigMaps("default")
			defer func() { lives = append(lives, p.Effects()) }()
			for _, name := range []string{"first", "second"} {
				_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					return err
				}
			}
			return nil
		})
		fmt.Println(crash, err)
		for _, effects := range lives {
			fmt.Println("  ", effects)
		}
		cluster.Close()
	}
	// Output:
	// crash after effect 1 <nil>
	//    [create configmaps default/first]
	//    [create configmaps default/first create configmaps default/second]
	// crash after effect 2 <nil>
	//    [create configmaps default/first create configmaps default/second]
	//    [create configmaps default/first create configmaps default/second]
	// crash after effect 3 <nil>
	//    [create configmaps default/first create configmaps default/second]
}

// Whatever a program does beside requests, such as an upload, is an effect if it passes through Do.
func ExampleProcess_Do() {
	var bucket []string
	upload := func(ctx context.Context, p *backuptest.Process, name string) error {
		return p.Do(ctx, "upload "+name, func(context.Context) error {
			bucket = append(bucket, name)
			return nil
		})
	}
	ctx, p := backuptest.NewProcess(context.Background(), map[int]backuptest.Trouble{1: backuptest.LoseAnswer, 3: backuptest.CrashAfter})
	defer p.Kill()
	for _, name := range []string{"a", "b", "c", "d"} {
		fmt.Println(name, upload(ctx, p, name))
	}
	fmt.Println(bucket, context.Cause(ctx))
	// Output:
	// a the answer got lost
	// b <nil>
	// c the process has crashed
	// d the process has crashed
	// [a b c] the process has crashed
}
