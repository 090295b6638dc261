package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// Phase is the restore's own phase type; the machine is generic over it.
type Phase string

// Result says what the caller of a step does next: nothing more when Done, else call again after RequeueAfter.
type Result struct {
	Done         bool
	RequeueAfter time.Duration
}

// volume is one volume to restore.
type volume struct {
	finalize.RestoredVolume

	record volumeinfo.BackupRecord
}

// Restore takes a restore from New to a terminal phase. All state lives in the object, the store and the cluster: a process
// may end after any line, and the next one goes on by calling Step.
type Restore struct {
	Owner     csisnapshot.Owner
	Phase     *phase.Applier[Phase]
	Snapshots *csisnapshot.Snapshotter
	Volumes   []volume
	Class     string // of the claims; empty: the default
	Timeout   time.Duration
	Observer  finalize.Observer
	// Results holds warnings and errors, Checkpoint which of the last steps are done.
	Results, Checkpoint *operations.Slot

	env         *environment
	out         *progress
	last        *finalize.Runner // made at the first step of finalizing
	finalReport finalize.Report
}

// Step does what can be done now and returns.
func (r *Restore) Step(ctx context.Context) (Result, error) {
	state, err := r.Phase.Load(ctx)
	if err != nil {
		return Result{}, err
	}
	switch r.Phase.Machine().Class(state.Phase) {
	case phase.ClassTerminal:
		return Result{Done: true}, nil
	case phase.ClassReady:
		_, err = r.Phase.Apply(ctx, state, phase.EventStart, "")
		return Result{}, err
	case phase.ClassFinalizing:
		return r.finalize(ctx, state)
	case phase.ClassWorking, phase.ClassWaiting:
	}
	return Result{}, r.make(ctx, state)
}

// make puts the snapshots into their namespaces and makes a claim of each, then leaves InProgress. What is there already, of
// an earlier try, is adopted; what the server refuses is an error of that volume.
func (r *Restore) make(ctx context.Context, state phase.State[Phase]) error {
	var results finalize.Results
	for _, v := range r.Volumes {
		info := v.record.CSISnapshotInfo
		record := csisnapshot.VolumeRecord{Driver: info.Driver, Handle: v.record.Handle(), GroupHandle: info.VolumeGroupSnapshotHandle}
		made, err := r.Snapshots.Restore(ctx, r.Owner, v.Namespace, record)
		if err == nil {
			err = r.makeClaim(ctx, v, made[0].Ref.Name)
		}
		switch {
		case err == nil:
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err), errors.Is(err, csisnapshot.ErrRefused), errors.Is(err, csisnapshot.ErrConflict), errors.Is(err, errForeignClaim):
			results.Errors.Add(v.Namespace, fmt.Sprintf("claim %s/%s: %v", v.Namespace, v.Claim, err))
		default:
			return err
		}
	}
	all, err := finalize.AddResults(ctx, r.Results, results)
	if err != nil {
		return err
	}
	_, err = r.Phase.Advance(ctx, state, phase.Tally{Errors: all.Errors.Len()})
	return err
}

var errForeignClaim = errors.New("it exists and is not of this restore; choose another namespace with -map")

func (r *Restore) makeClaim(ctx context.Context, v volume, snapshot string) error {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Claim, Labels: map[string]string{restoreLabel: string(r.Owner.UID)}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: sizeOf(v.record)}},
			DataSource:  &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot},
		},
	}
	if r.Class != "" {
		claim.Spec.StorageClassName = &r.Class
	}
	_, err := r.env.core.CoreV1().PersistentVolumeClaims(v.Namespace).Create(ctx, claim, metav1.CreateOptions{FieldManager: programName})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	uid, err := r.claimUID(ctx, v)
	if err == nil && uid == "" {
		err = errForeignClaim
	}
	return err
}

// claimUID is the UID of the claim that this restore made; empty if it is not there or another's.
func (r *Restore) claimUID(ctx context.Context, v volume) (types.UID, error) {
	claim, err := r.env.core.CoreV1().PersistentVolumeClaims(v.Namespace).Get(ctx, v.Claim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && claim.Labels[restoreLabel] != string(r.Owner.UID) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return claim.UID, nil
}

func sizeOf(r volumeinfo.BackupRecord) resource.Quantity {
	if size := r.CSISnapshotInfo.Size; size != nil && *size > 0 {
		return *resource.NewQuantity(*size, resource.BinarySI)
	}
	return resource.MustParse("1Gi") // the driver has not told
}

// finalize runs the last steps and ends the restore with the outcome of what is recorded.
func (r *Restore) finalize(ctx context.Context, state phase.State[Phase]) (Result, error) {
	if r.last == nil {
		hooks, err := r.hooks(ctx)
		if err != nil {
			return Result{}, err
		}
		opts := finalize.Options{Checkpoint: r.Checkpoint, UID: string(r.Owner.UID), MaxTotal: time.Hour, Observer: r.Observer}
		if r.last, err = finalize.New(hooks, opts); err != nil {
			return Result{}, err
		}
	}
	result, err := r.last.Step(ctx)
	if err != nil || !result.Done {
		return Result{RequeueAfter: result.RequeueAfter}, err
	}
	r.finalReport = result.Report
	_, err = r.Phase.Advance(ctx, state, phase.Tally{
		Errors: result.Report.Errors(), Warnings: result.Report.Warnings(), Fatal: result.Report.Fatal(),
	})
	return Result{}, err
}

// hooks are the last steps: give the volumes back what they had, look whether they are there, remove what brought them, and
// write down what there is to say. They are about the claims that this restore made.
func (r *Restore) hooks(ctx context.Context) ([]finalize.Hook, error) {
	var volumes []finalize.RestoredVolume
	namespaces := []string{""} // contents have none
	for _, v := range r.Volumes {
		uid, err := r.claimUID(ctx, v)
		if err != nil {
			return nil, err
		}
		if n := len(namespaces); namespaces[n-1] != v.Namespace {
			namespaces = append(namespaces, v.Namespace)
		}
		if uid != "" {
			v.ClaimUID = uid
			volumes = append(volumes, v.RestoredVolume)
		}
	}
	pvs := finalize.RestorePVs(r.env.core, volumes, finalize.RestorePVOptions{Adjust: r.out.before, ItemTimeout: r.Timeout})
	validate := finalize.ValidateVolumes(r.env.core, volumes, pvs.Name)
	temporary := func(resource, after string, namespaces ...string) finalize.Hook {
		h := finalize.RemoveTemporary(r.env.dynamic, finalize.Temporary{
			Label: csisnapshot.Names{}.OwnerLabel(), Owner: csisnapshot.LabelValue(string(r.Owner.UID)), Namespaces: namespaces,
			Resources: []schema.GroupVersionResource{{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: resource}},
		}, after)
		h.Name += "-" + resource
		return h
	}
	snapshots := temporary("volumesnapshots", validate.Name, namespaces[1:]...)
	if len(r.Volumes) == 0 {
		return []finalize.Hook{finalize.MergeResults(r.Results, nil)}, nil
	}
	contents := temporary("volumesnapshotcontents", snapshots.Name, "")
	results := finalize.MergeResults(r.Results, nil, contents.Name)
	return []finalize.Hook{pvs, validate, snapshots, contents, results}, nil
}
