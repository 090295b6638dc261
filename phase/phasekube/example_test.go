package phasekube_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

func ExampleNewConfigMap() {
	cluster, err := backuptest.Start(backuptest.Options{Objects: []runtime.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "nightly"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	client := dynamic.NewForConfigOrDie(cluster.Config())

	ctx := context.Background()
	object := phasekube.NewConfigMap[string](client, "app", "nightly")
	backup, err := phase.NewApplier(phase.Backup[string](), object, phase.ApplierOptions[string]{Owner: "replica-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := backup.Load(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err = backup.Apply(ctx, state, phase.EventStart, "")
	fmt.Println(state.Phase, state.Owner, err)
	// Output: InProgress replica-1 <nil>
}

func ExampleNew() {
	var client dynamic.Interface // of the user's cluster
	gvr := schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "backups"}
	object := phasekube.New[string](client, gvr, "app", "nightly", phasekube.Options{
		StatusSubresource: true,
		Fields: phasekube.Fields{
			Phase: "status.phase", Reason: "status.reason", Message: "status.message", Owner: "status.owner",
			Started: "status.startTime", Completed: "status.completionTime",
		},
	})
	_, err := object.Get(context.Background())
	fmt.Println(err)
	// Output: get backups app/nightly: invalid client: it is nil
}
