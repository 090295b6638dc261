// Package compattest holds what shows that files and plugins of both work together: a Velero plugin made of csisnapshot, and
// tests that read each one's files with the other.
package compattest

import (
	"context"
	"fmt"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/kuberesource"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

// Plugin is a Velero BackupItemAction, version 2, that takes the snapshots of claims with sheetanchor. Velero's interface has no
// contexts: those of the calls end with Context. Whoever makes it calls Action.Run for as long as it is used, so that Progress
// reads a snapshot only after it has changed.
type Plugin struct {
	Context     context.Context
	Snapshotter *csisnapshot.Snapshotter
	Action      *csisnapshot.Action
}

var _ biav2.BackupItemAction = (*Plugin)(nil)

// Name is the plugin's.
func (*Plugin) Name() string { return csisnapshot.ActionName }

// AppliesTo says that it is for claims.
func (*Plugin) AppliesTo() (velero.ResourceSelector, error) {
	return velero.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

// Execute cuts the claim's snapshot and returns the operation that ends when it is ready, and its snapshot as the item to back
// up again then.
func (p *Plugin) Execute(item runtime.Unstructured, backup *velerov1.Backup) (runtime.Unstructured, []velero.ResourceIdentifier, string, []velero.ResourceIdentifier, error) {
	var claim corev1.PersistentVolumeClaim
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.UnstructuredContent(), &claim); err != nil {
		return nil, nil, "", nil, err
	}
	plan, err := p.Snapshotter.Plan(p.Context, claim.Namespace)
	if err != nil {
		return nil, nil, "", nil, err
	}
	keep(plan, claim.Name)
	owner := csisnapshot.Owner{UID: backup.UID, Namespace: backup.Namespace, Name: backup.Name}
	report, err := p.Snapshotter.Cut(p.Context, owner, plan)
	if err != nil {
		return nil, nil, "", nil, err
	}
	ops := report.Operations()
	if len(ops) == 0 {
		return item, nil, "", nil, nil // skipped: not a volume that can have a snapshot
	}
	if ops[0].Status.Phase.IsTerminal() {
		return nil, nil, "", nil, fmt.Errorf("claim %s/%s: %s", claim.Namespace, claim.Name, ops[0].Status.Error)
	}
	ref, err := csisnapshot.ParseOperationID(ops[0].ID)
	if err != nil {
		return nil, nil, "", nil, err
	}
	snapshot := velero.ResourceIdentifier{GroupResource: kuberesource.VolumeSnapshots, Namespace: ref.Namespace, Name: ref.Name}
	return item, nil, ops[0].ID, []velero.ResourceIdentifier{snapshot}, nil
}

// keep leaves one claim in the plan.
func keep(plan *csisnapshot.Plan, claim string) {
	var batches []csisnapshot.Batch
	for _, batch := range plan.Batches {
		for _, v := range batch.Volumes {
			if v.Claim == claim {
				batches = append(batches, csisnapshot.Batch{Pods: batch.Pods, Hooked: batch.Hooked, Volumes: []csisnapshot.Volume{v}})
			}
		}
	}
	plan.Batches = batches
}

// Progress says how far the operation is. Velero takes an error for the operation's end, so one that may pass is told as
// progress without news.
func (p *Plugin) Progress(operationID string, _ *velerov1.Backup) (velero.OperationProgress, error) {
	if _, err := csisnapshot.ParseOperationID(operationID); err != nil {
		return velero.OperationProgress{}, biav2.InvalidOperationIDError(operationID)
	}
	progress, err := p.Action.Progress(p.Context, operationID)
	switch {
	case operations.IsPermanent(err):
		progress = operations.Progress{State: operations.StateFailed, Error: err.Error()}
	case err != nil:
		progress = operations.Progress{State: operations.StateRunning, Description: err.Error()}
	}
	out := velero.OperationProgress{
		NCompleted: progress.Completed, NTotal: progress.Total, OperationUnits: progress.Units, Description: progress.Description,
		Started: progress.Started, Updated: progress.Updated,
	}
	switch progress.State {
	case operations.StateCompleted:
		out.Completed = true
	case operations.StateFailed, operations.StateCanceled:
		out.Completed, out.Err = true, progress.Error
		if out.Err == "" {
			out.Err = string(progress.State) // Velero tells a failure by its text
		}
	case operations.StateRunning:
	}
	return out, nil
}

// Cancel asks the operation to stop.
func (p *Plugin) Cancel(operationID string, _ *velerov1.Backup) error {
	return p.Action.Cancel(p.Context, operationID)
}
