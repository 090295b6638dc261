package velerotest

import (
	"context"
	"fmt"
	"sync"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/backup/actions/csi"
	"github.com/vmware-tanzu/velero/pkg/cmd/server/config"
	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace is where Velero's own objects are.
const Namespace = "velero"

// DefaultWorkers is how many item blocks Velero's server backs up at once by default.
const DefaultWorkers = config.DefaultItemBlockWorkerCount

// DefaultTimeout is Velero's default for how long one volume's snapshot is waited for.
func DefaultTimeout() time.Duration { return config.GetDefaultConfig().DefaultCSISnapshotTimeout }

// OperationTimeout is Velero's default for how long one asynchronous operation may take.
func OperationTimeout() time.Duration { return config.GetDefaultConfig().DefaultItemOperationTimeout }

// NewBackup returns a backup with the server's defaults.
func NewBackup(name string) *velerov1.Backup {
	return &velerov1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: "b0b0b0b0-0000-4000-8000-000000000001"},
		Spec: velerov1.BackupSpec{
			StorageLocation:      "default",
			CSISnapshotTimeout:   metav1.Duration{Duration: DefaultTimeout()},
			ItemOperationTimeout: metav1.Duration{Duration: OperationTimeout()},
		},
	}
}

// Block is one item block as Velero groups items: a pod and its claims. A block without a pod is a claim alone.
type Block struct {
	Pod    string
	Hooked bool
	Claims []*corev1.PersistentVolumeClaim
}

// Frozen is how long one pod of a run was frozen.
type Frozen struct {
	Pod  string
	Time time.Duration
}

// Run is what became of the blocks.
type Run struct {
	Total   time.Duration
	Freezes []Frozen
	// Failed counts the claims whose action returned an error.
	Failed int
	// Operations are the IDs of the asynchronous operations that Velero would follow afterwards.
	Operations []string
}

// Actions are Velero's CSI actions on one client.
type Actions struct {
	Claims    biav2.BackupItemAction
	Snapshots biav2.BackupItemAction
	client    client.Client
}

// NewActions makes the actions as Velero's plugin process does, for one worker: a plugin of its own, as its state is not safe
// for concurrent use.
func NewActions(c client.Client) (*Actions, error) {
	a := &Actions{client: c}
	for _, action := range []struct {
		to   *biav2.BackupItemAction
		from func() (any, error)
	}{
		{&a.Claims, func() (any, error) { return csi.NewPvcBackupItemAction(factory{client: c})(Logger()) }},
		{&a.Snapshots, func() (any, error) { return csi.NewVolumeSnapshotBackupItemAction(factory{client: c})(Logger()) }},
	} {
		made, err := action.from()
		if err != nil {
			return nil, err
		}
		item, ok := made.(biav2.BackupItemAction)
		if !ok {
			return nil, fmt.Errorf("%T is no backup item action", made)
		}
		*action.to = item
	}
	return a, nil
}

// Backup backs up the blocks as Velero's item backupper does: workers take one block after the other; the pre hooks of a block
// come before its items, the post hooks after them; the items are handled in order, and what an action returns as an
// additional item is handled before the next. Hooks take no time. For each claim the actions of the claim and of its
// VolumeSnapshot are called; what Velero writes into its archive is not made.
func Backup(ctx context.Context, c client.Client, backup *velerov1.Backup, workers int, blocks []Block) (*Run, error) {
	start := time.Now()
	queue := make(chan Block)
	run := &Run{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range workers {
		actions, err := NewActions(c)
		if err != nil {
			return nil, err
		}
		all.Go(func() {
			for block := range queue {
				frozen := time.Now()
				ids, failed := actions.backUp(ctx, backup, block)
				mu.Lock()
				run.Failed += failed
				run.Operations = append(run.Operations, ids...)
				if block.Hooked {
					run.Freezes = append(run.Freezes, Frozen{Pod: block.Pod, Time: time.Since(frozen)})
				}
				mu.Unlock()
			}
		})
	}
	for _, block := range blocks {
		queue <- block
	}
	close(queue)
	all.Wait()
	run.Total = time.Since(start)
	return run, nil
}

func (a *Actions) backUp(ctx context.Context, backup *velerov1.Backup, block Block) (ids []string, failed int) {
	for _, claim := range block.Claims {
		id, err := a.one(ctx, backup, claim)
		if err != nil {
			failed++
			continue
		}
		ids = append(ids, id)
	}
	return ids, failed
}

// one takes the snapshot of a claim and returns the ID of the operation that follows it.
func (a *Actions) one(ctx context.Context, backup *velerov1.Backup, claim *corev1.PersistentVolumeClaim) (string, error) {
	item, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim)
	if err != nil {
		return "", err
	}
	_, additional, _, _, err := a.Claims.Execute(&unstructured.Unstructured{Object: item}, backup)
	if err != nil {
		return "", err
	}
	if len(additional) == 0 {
		return "", fmt.Errorf("claim %s/%s: no snapshot", claim.Namespace, claim.Name)
	}
	vs := &snapshotv1.VolumeSnapshot{}
	if err := a.client.Get(ctx, client.ObjectKey{Namespace: additional[0].Namespace, Name: additional[0].Name}, vs); err != nil {
		return "", err
	}
	item, err = runtime.DefaultUnstructuredConverter.ToUnstructured(vs)
	if err != nil {
		return "", err
	}
	_, _, id, _, err := a.Snapshots.Execute(&unstructured.Unstructured{Object: item}, backup)
	return id, err
}
