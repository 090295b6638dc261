package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// programName labels the ConfigMaps that are backups of this program.
const programName = "sheetanchor-example-backup"

// finalCodes are the gRPC codes after which asking the driver again is of no use. The library's default is to retry every
// error until the timeout; a program that knows its drivers may say more.
func finalCodes() csisnapshot.Classifier {
	return csisnapshot.FinalCodes("InvalidArgument", "PermissionDenied", "Unimplemented", "FailedPrecondition")
}

func newSnapshotter(opts options, c clients, quiescer csisnapshot.Quiescer, store operations.Store, out *progress) (*csisnapshot.Snapshotter, error) {
	wait := csisnapshot.WaitOptions{Timeout: opts.timeout, Classifier: finalCodes()}
	if opts.wait == "poll" {
		wait.Mode = csisnapshot.ModePoll
	}
	return csisnapshot.New(c.core, csisnapshot.NewDynamic(c.dynamic), csisnapshot.Options{
		Wait:        wait,
		Quiescer:    quiescer,
		Intents:     operations.NewSlot(store, newFiles(opts.name).intents()),
		MaxFreeze:   opts.maxFreeze,
		Concurrency: opts.concurrency,
		Observer:    out.snapshots(),
	})
}

// findBackup reads the backup object; nil when there is none yet.
func findBackup(ctx context.Context, c clients, namespace, backup string) (*corev1.ConfigMap, error) {
	object, err := c.core.CoreV1().ConfigMaps(namespace).Get(ctx, objectName(backup), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no backup yet is an answer
	case err != nil:
		return nil, err
	case object.Labels["app.kubernetes.io/managed-by"] != programName:
		return nil, fmt.Errorf("ConfigMap %s/%s exists and is not a backup of this program", namespace, object.Name)
	default:
		return object, nil
	}
}

// createBackup makes the backup object, in phase New.
func createBackup(ctx context.Context, c clients, namespace, backup string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: objectName(backup),
			Labels: map[string]string{"app.kubernetes.io/managed-by": programName},
		},
		Data: map[string]string{"phase": phase.New},
	}
	created, err := c.core.CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{FieldManager: programName})
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	if created, err = findBackup(ctx, c, namespace, backup); created == nil && err == nil {
		err = fmt.Errorf("ConfigMap %s/%s was deleted just now; run again", namespace, object.Name)
	}
	return created, err
}

// newBackup puts the reconciler together. It starts a backup or finds the one to resume; a store that holds the records of
// another backup is refused before anything is written.
func newBackup(ctx context.Context, opts options, namespace string, c clients, snapshots *csisnapshot.Snapshotter, store operations.Store, out *progress) (*Backup, error) {
	object, err := findBackup(ctx, c, namespace, opts.name)
	if err != nil {
		return nil, err
	}
	var uid types.UID
	if object != nil {
		uid = object.UID
	}
	if err := checkStore(ctx, store, opts, namespace, uid); err != nil {
		return nil, err
	}
	if object == nil {
		plan, err := snapshots.Plan(ctx, namespace)
		if err != nil {
			return nil, err
		}
		if err := planFault(plan); err != nil {
			return nil, err
		}
		if object, err = createBackup(ctx, c, namespace, opts.name); err != nil {
			return nil, err
		}
	}
	return assemble(opts, operations.Key{Namespace: namespace, Name: opts.name, UID: object.UID}, c, snapshots, store, out)
}

// checkStore refuses a store with the records of a backup of the same name that is not this one.
func checkStore(ctx context.Context, store operations.Store, opts options, namespace string, uid types.UID) error {
	slot := operations.NewSlot(store, newFiles(opts.name).phase())
	if uid == "" {
		data, err := slot.Load(ctx)
		if err == nil && len(data) > 0 {
			err = fmt.Errorf("it holds records of another backup named %s: there is no ConfigMap %s/%s", opts.name, namespace, objectName(opts.name))
		}
		return inStore(opts, err)
	}
	_, _, err := phase.NewDocumentRecord[Phase](slot, string(uid)).Load(ctx)
	return inStore(opts, err)
}

func inStore(opts options, err error) error {
	if err != nil {
		return fmt.Errorf("-store %s: %w", opts.store, err)
	}
	return nil
}

// maxFinalize is how long the last steps may take, with all that goes wrong.
const maxFinalize = 2 * time.Hour

func assemble(opts options, key operations.Key, c clients, snapshots *csisnapshot.Snapshotter, store operations.Store, out *progress) (*Backup, error) {
	names := newFiles(opts.name)
	applier, err := phase.NewApplier(phase.Backup[Phase](), phasekube.NewConfigMap[Phase](c.dynamic, key.Namespace, objectName(key.Name)),
		phase.ApplierOptions[Phase]{
			Record: phase.NewDocumentRecord[Phase](operations.NewSlot(store, names.phase()), string(key.UID)),
			Owner:  identity(),
			Hooks:  out.phases(),
			// The last steps have an hour (see Backup.finalize). A store that refuses to record their end does not hold it up for ever.
			MaxFinalize: maxFinalize,
			Deadlines: phase.Deadlines[Phase]{
				Phase: map[Phase]time.Duration{phase.Finalizing: maxFinalize, phase.FinalizingPartiallyFailed: maxFinalize},
				Grace: maxFinalize,
			},
		})
	if err != nil {
		return nil, err
	}
	ops, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		return nil, err
	}
	poller, err := operations.NewPoller(ops, map[string]operations.Action{csisnapshot.ActionName: snapshots.Action()}, operations.PollerOptions{Hooks: out.operations()})
	if err != nil {
		return nil, err
	}
	return &Backup{
		Key: key, Owner: csisnapshot.Owner{UID: key.UID, Namespace: key.Namespace, Name: key.Name}, Phase: applier, Snapshots: snapshots, Operations: ops, Poller: poller,
		Volumes:    operations.NewSlot(store, names.volumes()),
		Results:    operations.NewSlot(store, names.results()),
		Checkpoint: operations.NewSlot(store, names.checkpoint()),
		Observer:   program.LastSteps(out.line),
	}, nil
}

// identity names this process as the owner of the backup it starts. The random part tells a container that was started again
// from the one before, which had the same host name and process number.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s_%d_%s", strings.ToLower(host), os.Getpid(), strings.ToLower(rand.Text()[:10]))
}
