package csisnapshot_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// exampleBackup is a backed up namespace "shop" and an empty one "dev", with storage that restores: the snapshots of data,
// old and wal, in this order, until done is called.
func exampleBackup(ctx context.Context) (
	snapshots *csisnapshot.Snapshotter, core *kubernetes.Clientset, storage *backuptest.Driver, refs []csisnapshot.Ref, done func(),
) {
	cluster, core, client, err := exampleCluster()
	if err != nil {
		panic(err)
	}
	if err := cluster.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}, backuptest.StorageClass{}.Object()); err != nil {
		panic(err)
	}
	storage = backuptest.NewDriver(backuptest.DriverOptions{})
	running, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		_ = backuptest.NewSnapshotController(client, storage, backuptest.ControllerOptions{}).Run(running) // until done
	})
	group.Go(func() { _ = backuptest.NewProvisioner(client, storage, backuptest.ProvisionerOptions{}).Run(running) })

	snapshots, err = csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{})
	if err != nil {
		panic(err)
	}
	plan, err := snapshots.Plan(ctx, "shop")
	if err != nil {
		panic(err)
	}
	report, err := snapshots.Cut(ctx, exampleOwner, plan)
	if err != nil {
		panic(err)
	}
	for _, v := range report.Volumes {
		refs = append(refs, csisnapshot.Ref{Namespace: v.Namespace, Name: v.Snapshot})
	}
	return snapshots, core, storage, refs, func() { stop(); group.Wait(); cluster.Close() }
}

// A copy of a volume in another namespace: the snapshot's clone, and a claim that has it as its data source.
func ExampleSnapshotter_Clone() {
	ctx := context.Background()
	snapshots, core, _, refs, done := exampleBackup(ctx)
	defer done()

	restorer := csisnapshot.Owner{UID: "9c1d", Namespace: "dev", Name: "copy"} // not the backup: whose the pair in "dev" is
	clone, err := snapshots.Clone(ctx, restorer, refs[0], "dev")
	if err != nil {
		panic(err)
	}
	if _, err := snapshots.Wait(ctx, restorer, csisnapshot.StageReady, clone.Ref); err != nil {
		panic(err)
	}
	claims := core.CoreV1().PersistentVolumeClaims("dev")
	watching, err := claims.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	defer watching.Stop()
	_, err = claims.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(backuptest.DefaultStorageClass),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			// At least the size that the backup's claim had: drivers refuse less.
			Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			DataSource: &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: csisnapshot.KindSnapshot, Name: clone.Ref.Name},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	for e := range watching.ResultChan() {
		if claim, ok := e.Object.(*corev1.PersistentVolumeClaim); ok && e.Type != watch.Deleted && claim.Status.Phase == corev1.ClaimBound {
			fmt.Println(claim.Name, "is bound")
			break
		}
	}
	// What the restore made goes; the physical snapshot is the backup's and stays.
	released, err := snapshots.Release(ctx, restorer, clone.Ref)
	fmt.Println("released:", released.Items[0].Gone, err)
	// Output:
	// data is bound
	// released: true <nil>
}

// The life of a backup's snapshots: their records are kept, the objects released, a volume restored, and the backup expires.
func ExampleSnapshotter_Expire() {
	ctx := context.Background()
	snapshots, _, storage, refs, done := exampleBackup(ctx)
	defer done()

	waited, err := snapshots.Wait(ctx, exampleOwner, csisnapshot.StageReady, refs...)
	if err != nil {
		panic(err)
	}
	var records []csisnapshot.VolumeRecord // to be stored before the objects go
	for _, o := range waited {
		records = append(records, csisnapshot.VolumeRecord{
			Driver: backuptest.DefaultDriver, Handle: o.Result.Handle, Claim: csisnapshot.ClaimRef{Namespace: o.Result.Ref.Namespace},
		})
	}
	if _, err := snapshots.Release(ctx, exampleOwner, refs...); err != nil {
		panic(err)
	}
	fmt.Println("released; the storage holds", len(storage.Snapshots()))

	restorer := csisnapshot.Owner{UID: "9c1d", Namespace: "dev", Name: "copy"}
	restored, err := snapshots.Restore(ctx, restorer, "dev", records[0])
	if err != nil {
		panic(err)
	}
	ready, err := snapshots.Wait(ctx, restorer, csisnapshot.StageReady, restored[0].Ref)
	fmt.Println("restored:", ready[0].Result.Ready, err)
	if _, err := snapshots.Release(ctx, restorer, restored[0].Ref); err != nil { // else Expire is ErrInUse
		panic(err)
	}

	expired, err := snapshots.Expire(ctx, exampleOwner, csisnapshot.RemoveOptions{}, records...)
	fmt.Println("expired:", len(expired.Items), err, "the storage holds", len(storage.Snapshots()))
	// Output:
	// released; the storage holds 3
	// restored: true <nil>
	// expired: 3 <nil> the storage holds 0
}

// What a backup writes down of its snapshots before it releases their objects.
func ExampleSnapshotter_Records() {
	ctx := context.Background()
	snapshots, _, _, refs, done := exampleBackup(ctx) // refs are Namespace and Snapshot of the report's volumes
	defer done()

	records, err := snapshots.Records(ctx, exampleOwner, refs...)
	for _, r := range records {
		fmt.Println(r.Claim.Namespace+"/"+r.Claim.Name, r.Driver == backuptest.DefaultDriver, r.Handle != "", r.Validate())
	}
	fmt.Println(err)
	// Output:
	// shop/data true true <nil>
	// shop/old true true <nil>
	// shop/wal true true <nil>
	// <nil>
}

// Whatever a run has left is found by its owner's UID alone, and removed.
func ExampleSnapshotter_Sweep() {
	ctx := context.Background()
	snapshots, _, storage, _, done := exampleBackup(ctx)
	defer done()

	left, err := snapshots.Leftovers(ctx, exampleOwner.UID)
	fmt.Println(len(left), "objects left", err)
	swept, err := snapshots.Sweep(ctx, exampleOwner.UID, csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyDelete})
	fmt.Println(len(swept.Items), "snapshots swept", err)
	fmt.Println("the storage holds", len(storage.Snapshots()))
	// Output:
	// 6 objects left <nil>
	// 3 snapshots swept <nil>
	// the storage holds 0
}

// Destroy deletes the physical snapshots with the objects, here those of a backup that was not wanted in the end.
func ExampleSnapshotter_Destroy() {
	ctx := context.Background()
	snapshots, _, storage, refs, done := exampleBackup(ctx)
	defer done()

	report, err := snapshots.Destroy(ctx, exampleOwner, refs[:2]...)
	for _, item := range report.Items {
		fmt.Println("gone:", item.Gone, item.Err)
	}
	fmt.Println(err, "the storage holds", len(storage.Snapshots()))
	// Output:
	// gone: true <nil>
	// gone: true <nil>
	// <nil> the storage holds 1
}

// A snapshot that does not get done, in words for a person.
func ExampleSnapshotter_Explain() {
	cluster, core, client, err := exampleCluster() // nothing takes care of snapshots here
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	snaps := csisnapshot.NewDynamic(client)
	snapshots, err := csisnapshot.New(core, snaps, csisnapshot.Options{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	claim := csisnapshot.ClaimRef{Namespace: "shop", Name: "data", UID: backuptest.UIDOf("PersistentVolumeClaim", "shop", "data")}
	snapshot, err := snaps.Snapshots().Create(ctx, csisnapshot.Names{}.NewSnapshot(exampleOwner, claim, backuptest.DefaultSnapshotClass))
	if err != nil {
		panic(err)
	}
	why, err := snapshots.Explain(ctx, snapshot.Ref(), backuptest.DefaultDriver)
	if err != nil {
		panic(err)
	}
	fmt.Println(why.Diagnosis)
	fmt.Println(why.Next)
	// Output:
	// NeverPickedUp
	// Look whether the snapshot-controller runs, and in its log: nothing has touched the VolumeSnapshot.
}
