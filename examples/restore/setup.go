package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// programName is who makes the objects; restoreLabel holds the UID of the restore that made a claim.
const (
	programName  = "sheetanchor-example-restore"
	restoreLabel = "sheetanchor.io/restore"
)

// newRestore reads the records of the backup, checks the flags that speak of it and of the cluster before it writes, starts a restore or finds the one to resume, and puts the reconciler together.
func newRestore(ctx context.Context, opts options, env *environment, store operations.Store, out *progress) (*Restore, error) {
	volumes, err := readVolumes(ctx, opts, store)
	if err != nil {
		return nil, err
	}
	if err := checkClass(ctx, opts, env); err != nil {
		return nil, err
	}
	for _, v := range volumes {
		if err := ensureNamespace(ctx, env, v.Namespace); err != nil {
			return nil, err
		}
	}
	object, err := findOrCreate(ctx, env, volumes[0].Namespace, opts.name)
	if err != nil {
		return nil, err
	}
	snapshots, err := csisnapshot.New(env.core, csisnapshot.NewDynamic(env.dynamic), csisnapshot.Options{Wait: csisnapshot.WaitOptions{Timeout: opts.timeout}})
	if err != nil {
		return nil, err
	}
	slot := func(file string) *operations.Slot {
		return operations.NewSlot(store, path.Join("restores", opts.name, file))
	}
	const maxFinalize = 2 * time.Hour // the last steps have one, see Restore.finalize
	applier, err := phase.NewApplier(phase.Restore[Phase](), phasekube.NewConfigMap[Phase](env.dynamic, object.Namespace, object.Name), phase.ApplierOptions[Phase]{
		Record: phase.NewDocumentRecord[Phase](slot("sheetanchor-phase.json"), string(object.UID)), Owner: programName, Hooks: out.phases(), MaxFinalize: maxFinalize,
		Deadlines: phase.Deadlines[Phase]{
			Phase: map[Phase]time.Duration{phase.Finalizing: maxFinalize, phase.FinalizingPartiallyFailed: maxFinalize}, Grace: maxFinalize,
		},
	})
	if err != nil {
		return nil, err
	}
	return &Restore{
		Owner: csisnapshot.Owner{UID: object.UID, Namespace: object.Namespace, Name: opts.name}, Phase: applier, Snapshots: snapshots, Volumes: volumes,
		Class: opts.class, Timeout: opts.timeout, Observer: program.LastSteps(out.line), env: env, out: out,
		Results: slot("restore-" + opts.name + "-results.gz"), Checkpoint: slot("sheetanchor-finalize.json"),
	}, nil
}

// readVolumes returns the volumes of the backup that can be restored, where they go.
func readVolumes(ctx context.Context, opts options, store operations.Store) ([]volume, error) {
	name := path.Join("backups", opts.backup, opts.backup+"-volumeinfo.json.gz")
	data, err := operations.NewSlot(store, name).Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("-store %s: %w", opts.store, err)
	}
	records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
	if err != nil {
		return nil, fmt.Errorf("-store %s: %s: %w", opts.store, name, err)
	}
	if err := checkFlags(opts, records); err != nil {
		return nil, err
	}
	byTarget := map[string]volumeinfo.BackupRecord{}
	var usable []volumeinfo.BackupRecord
	for _, r := range records {
		if r.Restorable() == nil && r.CSISnapshotInfo != nil {
			usable = append(usable, r)
			namespace := r.PVCNamespace
			if to, ok := opts.namespaces[namespace]; ok {
				namespace = to
			}
			byTarget[namespace+"/"+r.PVCName] = r
		}
	}
	restored, err := finalize.RestoredVolumes(usable, opts.namespaces)
	if err != nil {
		return nil, err
	}
	if len(restored) == 0 {
		return nil, fmt.Errorf("-store %s: no volume of a backup named %s can be restored", opts.store, opts.backup)
	}
	var out []volume
	for _, v := range restored {
		out = append(out, volume{RestoredVolume: v, record: byTarget[v.Namespace+"/"+v.Claim]})
	}
	return out, nil
}

// checkFlags refuses flags that name what the backup does not have: a typing error would pass for success.
func checkFlags(opts options, records []volumeinfo.BackupRecord) error {
	if len(records) == 0 {
		return nil // which is said otherwise
	}
	namespaces, claims := map[string]bool{}, map[string]bool{}
	for _, r := range records {
		namespaces[r.PVCNamespace], claims[r.PVCName] = true, true
	}
	var faults []error
	for _, from := range slices.Sorted(maps.Keys(opts.namespaces)) {
		if !namespaces[from] {
			faults = append(faults, fmt.Errorf("-map %s=%s: backup %s has no volume of namespace %s", from, opts.namespaces[from], opts.backup, from))
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(opts.fail)) {
		if !claims[claim] {
			faults = append(faults, fmt.Errorf("-fail %s: backup %s has no such claim", claim, opts.backup))
		}
	}
	return errors.Join(faults...)
}

// checkClass refuses a class that the cluster does not have: no claim of it would ever be bound.
func checkClass(ctx context.Context, opts options, env *environment) error {
	if opts.class == "" {
		return nil
	}
	list, err := env.core.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("-class %s: list storage classes: %w", opts.class, err)
	}
	if !slices.ContainsFunc(list.Items, func(c storagev1.StorageClass) bool { return c.Name == opts.class }) {
		return fmt.Errorf("-class %s: the cluster has no such storage class", opts.class)
	}
	return nil
}

func ensureNamespace(ctx context.Context, env *environment, name string) error {
	_, err := env.core.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = env.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{FieldManager: programName})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// findOrCreate returns the restore object, made in phase New if there is none.
func findOrCreate(ctx context.Context, env *environment, namespace, restore string) (*corev1.ConfigMap, error) {
	objects := env.core.CoreV1().ConfigMaps(namespace)
	object, err := objects.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: objectName(restore), Labels: map[string]string{"app.kubernetes.io/managed-by": programName}},
		Data:       map[string]string{"phase": phase.New},
	}, metav1.CreateOptions{FieldManager: programName})
	if !apierrors.IsAlreadyExists(err) {
		return object, err
	}
	if object, err = objects.Get(ctx, objectName(restore), metav1.GetOptions{}); err == nil && object.Labels["app.kubernetes.io/managed-by"] != programName {
		err = fmt.Errorf("ConfigMap %s/%s exists and is not a restore of this program", namespace, object.Name)
	}
	return object, err
}
