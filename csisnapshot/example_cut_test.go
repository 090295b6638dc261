package csisnapshot_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
	"github.com/sheetanchor/sheetanchor/operations"
)

// exampleCluster is a cluster with a database pod of two volumes, and a volume of no pod.
func exampleCluster() (*backuptest.Cluster, *kubernetes.Clientset, *dynamic.DynamicClient, error) {
	cluster, err := backuptest.Start(backuptest.Options{Objects: backuptest.Objects(
		backuptest.SnapshotClass{},
		backuptest.Claim{Namespace: "shop", Name: "data"}, backuptest.Claim{Namespace: "shop", Name: "wal"},
		backuptest.Claim{Namespace: "shop", Name: "old"},
		backuptest.Pod{Namespace: "shop", Name: "db", Claims: []string{"data", "wal"}, Annotations: map[string]string{
			"pre.hook.backup.velero.io/command":  `["fsfreeze","--freeze","/data"]`,
			"post.hook.backup.velero.io/command": `["fsfreeze","--unfreeze","/data"]`,
		}},
	)})
	if err != nil {
		return nil, nil, nil, err
	}
	core, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		return nil, nil, nil, err
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	return cluster, core, client, err
}

// printer prints what it would run.
type printer struct{ podexec.Annotations }

func (printer) Exec(_ context.Context, pod csisnapshot.PodRef, hook csisnapshot.Hook) error {
	fmt.Println("exec in", pod, hook.Command)
	return nil
}

func ExampleSnapshotter_Plan() {
	cluster, core, client, err := exampleCluster()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	snapshots, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{
		Quiescer: printer{}, Intents: operations.NewSlot(operations.NewMemoryStore(), "intents.json"),
	})
	if err != nil {
		panic(err)
	}
	plan, err := snapshots.Plan(context.Background(), "shop")
	fmt.Printf("%v%v", plan, err)
	// Output:
	// batch 1 (hooks)
	//   pod db (hooks)
	//   volume data (db)  class csi-snapclass  driver csi.example.dev
	//   volume wal (db)  class csi-snapclass  driver csi.example.dev
	// batch 2 (no hooks)
	//   volume old (no pod)  class csi-snapclass  driver csi.example.dev
	// <nil>
}

func ExampleSnapshotter_Cut() {
	cluster, core, client, err := exampleCluster()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	ctx, stop := context.WithCancel(context.Background())
	controller := backuptest.NewSnapshotController(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ControllerOptions{})
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	snapshots, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{
		Quiescer: printer{}, Intents: operations.NewSlot(operations.NewMemoryStore(), "intents.json"),
	})
	if err != nil {
		panic(err)
	}
	plan, err := snapshots.Plan(ctx, "shop")
	if err != nil {
		panic(err)
	}
	report, err := snapshots.Cut(ctx, csisnapshot.Owner{UID: "1f0a", Namespace: "shop", Name: "nightly"}, plan)
	if err != nil {
		panic(err)
	}
	for _, v := range report.Volumes {
		fmt.Println(v.Claim, v.IsCut())
	}
	fmt.Println(len(report.Operations()), "operations")
	stop()
	fmt.Println(<-ended)
	// Output:
	// exec in shop/db [fsfreeze --freeze /data]
	// exec in shop/db [fsfreeze --unfreeze /data]
	// data true
	// old true
	// wal true
	// 3 operations
	// <nil>
}

func ExampleGroup() {
	claim := backuptest.Claim{Namespace: "shop", Name: "media"}
	pod := func(name string) corev1.Pod {
		return *backuptest.Pod{Namespace: "shop", Name: name, Claims: []string{"media"}}.Object()
	}
	plan := csisnapshot.Group(csisnapshot.Inputs{
		Pods:    []corev1.Pod{pod("web-1"), pod("web-2")},
		Claims:  []corev1.PersistentVolumeClaim{*claim.PVC(), {ObjectMeta: metav1.ObjectMeta{Name: "new"}}},
		Volumes: []corev1.PersistentVolume{*claim.PV()},
		Classes: []csisnapshot.Class{{Meta: csisnapshot.Meta{Name: "csi"}, Driver: "csi.example.dev"}},
	})
	fmt.Print(plan)
	// Output:
	// batch 1 (no hooks)
	//   pod web-1
	//   pod web-2
	//   volume media (web-1, web-2)  class csi  driver csi.example.dev
	// skipped new: not bound (no status)
}

func ExampleSelectClass() {
	classes := []csisnapshot.Class{
		{Meta: csisnapshot.Meta{Name: "fast"}, Driver: "csi.example.dev"},
		{Meta: csisnapshot.Meta{Name: "cheap"}, Driver: "csi.example.dev"},
	}
	_, err := csisnapshot.SelectClass(classes, "csi.example.dev", nil, nil, csisnapshot.Names{})
	fmt.Println(err)
	class, err := csisnapshot.SelectClass(classes, "csi.example.dev",
		map[string]string{"sheetanchor.io/csi-volumesnapshot-class": "cheap"}, nil, csisnapshot.Names{})
	fmt.Println(class, err)
	// Output:
	// no VolumeSnapshotClass for driver csi.example.dev: several classes and none is labelled or default; candidates: cheap, fast
	// cheap <nil>
}
