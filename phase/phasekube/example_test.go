package phasekube_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

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

func ExampleObject_Preflight() {
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: runs.example.dev}
spec:
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status:
            type: object
            properties:
              phase: {type: string, enum: [New, InProgress, Completed, Failed]}
status:
  conditions: [{type: Established, status: "True"}]
`), &definition.Object); err != nil {
		fmt.Println(err)
		return
	}
	cluster, err := backuptest.Start(backuptest.Options{
		Resources: []backuptest.Resource{{Group: "example.dev", Version: "v1", Kind: "Run", Namespaced: true}},
		Objects:   []runtime.Object{definition},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	client := dynamic.NewForConfigOrDie(cluster.Config())
	machine, err := phase.NewMachine(
		[]phase.Spec[string]{
			{Phase: "New", Class: phase.ClassReady},
			{Phase: "Skipped", Class: phase.ClassTerminal, Failing: true},
		},
		[]phase.Transition[string]{{From: "New", Event: phase.EventInvalid, To: "Skipped"}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}

	gvr := schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "runs"}
	object := phasekube.New[string](client, gvr, "app", "any", phasekube.Options{Fields: phasekube.Fields{
		Phase: "status.phase", Conditions: "status.conditions",
	}})
	report, err := object.Preflight(context.Background(), machine)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report)
	fmt.Println("fatal:", report.Err() != nil, "- conditions off:", report.ConditionsOff())
	// Output:
	// runs.example.dev/v1: fatal Phases Fields.Phase "status.phase" in v1: the schema refuses phases: Skipped
	// runs.example.dev/v1: degraded NoField Fields.Conditions "status.conditions" in v1: status.conditions is not in the schema
	// fatal: true - conditions off: true
}

func ExampleLease_Hold() {
	cluster, err := backuptest.Start(backuptest.Options{Objects: []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "backup-operator"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	core := kubernetes.NewForConfigOrDie(cluster.Config())

	lease, err := phasekube.NewLease(core.CoordinationV1(), "backup-operator", "backup-operator", phasekube.LeaseOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lease.Hold(context.Background(), "replica-1", func(ctx context.Context) error {
		holder, err := lease.Read(ctx)
		fmt.Println("held by", holder.Identity, "for", holder.Duration)
		return err
	})
	fmt.Println(err)
	holder, err := lease.Read(context.Background())
	fmt.Printf("then by %q, %v\n", holder.Identity, err)
	// Output:
	// held by replica-1 for 15s
	// <nil>
	// then by "", <nil>
}
