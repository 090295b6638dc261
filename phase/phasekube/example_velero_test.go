package phasekube_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// Velero's own Backup objects, with the owner, for which their schema has no field, in an annotation, and with what the API
// server warns of in the program's log.
func ExampleVeleroFields() {
	backup := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": map[string]any{"namespace": "velero", "name": "nightly"},
	}}
	cluster, err := backuptest.Start(backuptest.Options{
		Resources: []backuptest.Resource{{Group: "velero.io", Version: "v1", Kind: "Backup", Namespaced: true}},
		Objects:   []runtime.Object{backup},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	config := cluster.Config()
	config.WarningHandlerWithContext = phasekube.Warnings(func(_ context.Context, text string) { fmt.Println("warning:", text) })
	client := dynamic.NewForConfigOrDie(config)

	fields := phasekube.VeleroFields()
	fields.Owner = `metadata.annotations.example\.dev/owner`
	gvr := schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	object := phasekube.New[string](client, gvr, "velero", "nightly", phasekube.Options{Fields: fields})
	work, err := phase.NewApplier(phase.Backup[string](), object, phase.ApplierOptions[string]{Owner: "replica-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	state, err := work.Load(ctx)
	if err == nil {
		_, err = work.Apply(ctx, state, phase.EventStart, "")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := client.Resource(gvr).Namespace("velero").Get(ctx, "nightly", metav1.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, _, err := unstructured.NestedString(stored.Object, "status", "phase")
	fmt.Println(text, stored.GetAnnotations(), err)
	// Output:
	// InProgress map[example.dev/owner:replica-1] <nil>
}

// Whether the owner that an object names is still at work, as phase.Applier.Recover asks it.
func ExampleLease_Heartbeat() {
	cluster, err := backuptest.Start(backuptest.Options{Objects: []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "backup-operator"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	leases := kubernetes.NewForConfigOrDie(cluster.Config()).CoordinationV1()
	lease, err := phasekube.NewLease(leases, "backup-operator", "backup-operator", phasekube.LeaseOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lease.Hold(context.Background(), "replica-2", func(ctx context.Context) error {
		for _, owner := range []string{"replica-1", "replica-2"} {
			beat, err := lease.Heartbeat(ctx, owner)
			if err != nil {
				return err
			}
			fmt.Println(owner, "is", beat.Life(time.Now(), 0))
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// replica-1 is dead
	// replica-2 is live
	// <nil>
}
