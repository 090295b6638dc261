package main

import (
	"context"
	"errors"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// Phase is the backup's own phase type; the machine is generic over it.
type Phase string

// Result says what the caller of a step does next: nothing more when Done, else call again after RequeueAfter.
type Result struct {
	Done         bool
	RequeueAfter time.Duration
}

// Backup takes one backup of a namespace from New to a terminal phase. All state lives in the object, the store and the
// cluster: a process may end after any line, and the next one goes on by calling Step.
type Backup struct {
	Key        operations.Key
	Owner      csisnapshot.Owner
	Phase      *phase.Applier[Phase]
	Snapshots  *csisnapshot.Snapshotter
	Operations *operations.Map
	Poller     *operations.Poller
	Observer   finalize.Observer
	// Volumes holds the volume records, Results warnings and errors, Checkpoint which of the last steps are done.
	Volumes, Results, Checkpoint *operations.Slot

	last        *finalize.Runner    // made at the first step of finalizing
	cutReport   *csisnapshot.Report // for the output; nil when an earlier process cut
	finalReport finalize.Report
}

// Step does what can be done now and returns. Only cutting snapshots blocks, within its own limits.
func (b *Backup) Step(ctx context.Context) (Result, error) {
	state, err := b.Phase.Load(ctx)
	if err != nil {
		return Result{}, err
	}
	switch machine := b.Phase.Machine(); {
	case machine.IsTerminal(state.Phase):
		return Result{Done: true}, nil
	case state.Phase == machine.Initial():
		_, err = b.Phase.Apply(ctx, state, phase.EventStart, "")
		return Result{}, err
	case machine.IsWaiting(state.Phase):
		return b.wait(ctx, state)
	case machine.IsFinalizing(state.Phase):
		return b.finalize(ctx, state)
	default:
		return Result{}, b.cut(ctx)
	}
}

// cut freezes, snapshots and thaws batch after batch, records what was taken, then leaves InProgress. It reads the documents
// before it looks at the phase again: a process that was overtaken then cannot replace what its successor wrote.
func (b *Backup) cut(ctx context.Context) error {
	_, volumesErr := b.Volumes.Load(ctx)
	_, operationsErr := b.Operations.Load(ctx, b.Key)
	state, err := b.Phase.Load(ctx)
	err = errors.Join(volumesErr, operationsErr, err)
	if err != nil || b.Phase.Machine().Class(state.Phase) != phase.ClassWorking {
		return err
	}
	plan, err := b.Snapshots.Plan(ctx, b.Key.Namespace)
	if err != nil {
		return err
	}
	report, err := b.Snapshots.Cut(ctx, b.Owner, plan)
	if err != nil {
		return err
	}
	b.cutReport = report
	records, err := volumeinfo.Encode(finalize.VolumeRecords(report))
	if err != nil {
		return err
	}
	if err := b.Volumes.Save(ctx, records); err != nil {
		return err
	}
	register := func(list *operations.List) error { return list.Merge(report.Operations()...) }
	record, err := b.Operations.Update(ctx, b.Key, register)
	if err != nil {
		return err
	}
	results, err := finalize.AddResults(ctx, b.Results, finalize.CutResults(report))
	if err != nil {
		return err
	}
	_, err = b.Phase.Advance(ctx, state, tally(record.Summary(), finalize.Report{}, results.Errors.Len()))
	return err
}

// wait asks once for the progress of what runs, and moves on when nothing does.
func (b *Backup) wait(ctx context.Context, state phase.State[Phase]) (Result, error) {
	result, err := b.Poller.Step(ctx, b.Key)
	if err != nil || !result.Done {
		return Result{RequeueAfter: result.RequeueAfter}, err
	}
	_, err = b.Phase.Advance(ctx, state, tally(result.Summary, finalize.Report{}, 0))
	return Result{}, err
}

// finalize runs the last steps, completes the operations and ends the backup with the outcome of what is recorded.
func (b *Backup) finalize(ctx context.Context, state phase.State[Phase]) (Result, error) {
	if b.last == nil {
		opts := finalize.Options{Checkpoint: b.Checkpoint, UID: string(b.Key.UID), MaxTotal: time.Hour, Observer: b.Observer}
		var err error
		if b.last, err = finalize.New(b.hooks(), opts); err != nil {
			return Result{}, err
		}
	}
	result, err := b.last.Step(ctx)
	if err != nil || !result.Done {
		return Result{RequeueAfter: result.RequeueAfter}, err
	}
	b.finalReport = result.Report
	summary, err := b.Operations.Complete(ctx, b.Key)
	if err != nil {
		return Result{}, err
	}
	_, err = b.Phase.Advance(ctx, state, tally(summary, result.Report, 0))
	return Result{}, err
}

// hooks are the last steps: leave no pod frozen, let go of the snapshot objects, then write down what is true.
func (b *Backup) hooks() []finalize.Hook {
	thaw := finalize.ThawPods(b.Snapshots, b.Owner)
	release := finalize.ReleaseSnapshots(b.Snapshots, b.Owner, b.Operations, b.Key)
	volumes := finalize.WriteVolumeInfo(b.Volumes, b.Operations, b.Key, thaw.Name, release.Name)
	results := finalize.WriteResults(b.Results, b.Operations, b.Key, volumes.Name)
	return []finalize.Hook{thaw, release, volumes, results}
}

// tally hands the recorded counts to the phase machine, which alone decides what they mean.
func tally(ops operations.Summary, last finalize.Report, errs int) phase.Tally {
	return phase.Tally{
		Running: ops.Running, Completed: ops.Completed, Failed: ops.Failed, Canceled: ops.Canceled, Abandoned: ops.Abandoned,
		Errors: errs + last.Errors(), Warnings: last.Warnings(), Fatal: last.Fatal(),
	}
}
