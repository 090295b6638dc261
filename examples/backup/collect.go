package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// collect makes the result from what is recorded, so that a run that resumed tells the same as one that did it all.
func collect(ctx context.Context, job *Backup, env *environment, out *progress) (result, error) {
	state, err := job.Phase.Load(ctx)
	if err != nil {
		return result{}, err
	}
	r := result{
		Name: job.Key.Name, Namespace: job.Key.Namespace, Phase: string(state.Phase), Reason: state.Reason, Message: state.Message, Transitions: out.made(),
		Batches: []batch{}, Snapshots: []snapshot{}, Skipped: []skipped{}, Hooks: program.Hooks(job.finalReport),
	}
	record, err := job.Operations.Peek(ctx, job.Key)
	if err != nil {
		return result{}, err
	}
	if err := r.addVolumes(ctx, job, record); err != nil {
		return result{}, err
	}
	if err := r.addResults(ctx, job); err != nil {
		return result{}, err
	}
	sum := record.Summary()
	r.Operations = operationCount{Total: sum.Total, Completed: sum.Completed, Failed: sum.Failed + sum.Abandoned, Canceled: sum.Canceled}
	if job.cutReport != nil {
		r.addBatches(job.cutReport)
	}
	r.Requests = env.requests.Requests()
	r.Seconds = time.Since(out.started).Seconds()
	return r, nil
}

// addVolumes reads the volume records and joins them with the operations they name.
func (r *result) addVolumes(ctx context.Context, job *Backup, ops operations.Record) error {
	data, err := job.Volumes.Load(ctx)
	if err != nil {
		return err
	}
	records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
	if err != nil {
		return fmt.Errorf("volume records: %w", err)
	}
	for _, v := range records {
		if v.Skipped {
			r.Skipped = append(r.Skipped, skipped{PVC: v.PVCName, Reason: v.SkippedReason})
			continue
		}
		s := snapshot{Namespace: v.PVCNamespace, PVC: v.PVCName, Handle: v.Handle(), Error: v.Error}
		if ref, err := csisnapshot.ParseOperationID(v.OperationID()); err == nil {
			s.Name = ref.Name
		}
		if op, ok := ops.List.Get(v.OperationID()); ok {
			s.ReadyToUse = op.Status.Phase == operations.PhaseCompleted
			if s.Error == "" {
				s.Error = op.Status.Error
			}
		}
		r.Snapshots = append(r.Snapshots, s)
	}
	return nil
}

// addResults reads the file of warnings and errors.
func (r *result) addResults(ctx context.Context, job *Backup) error {
	data, err := job.Results.Load(ctx)
	if err != nil {
		return err
	}
	r.Errors, r.Warnings, err = program.Results(data)
	return err
}

func (r *result) addBatches(report *csisnapshot.Report) {
	for _, b := range report.Batches {
		made := batch{Pods: []string{}, Volumes: b.Volumes, Seconds: b.Duration.Seconds(), FrozenSeconds: map[string]float64{}}
		for _, p := range b.Pods {
			made.Pods = append(made.Pods, p.Name)
			if p.Hooked {
				made.FrozenSeconds[p.Name] = p.Frozen.Seconds()
			}
		}
		r.Batches = append(r.Batches, made)
	}
}
