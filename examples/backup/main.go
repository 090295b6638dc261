package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
)

func main() { program.Main(run) }

// run is the whole program. It prints one line to stderr for anything that ends it early.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return program.Exit("backup", stderr, 0, err)
	}
	code, err := backup(ctx, opts, stdout, stderr)
	return program.Exit("backup", stderr, code, err)
}

// backup sets the cluster and the backup up, then runs or plans it.
func backup(ctx context.Context, opts options, stdout, stderr io.Writer) (code int, err error) {
	store, err := openStore(&opts)
	if err != nil {
		return program.ExitOther, err
	}
	defer func() { err = errors.Join(err, tidyStore(opts, stderr)) }()
	env, err := openEnvironment(ctx, opts, stderr)
	if err != nil {
		return program.ExitOther, err
	}
	defer func() { err = errors.Join(err, env.close()) }()
	return backupIn(ctx, opts, env, store, stdout)
}

// backupIn plans or runs the backup in a cluster.
func backupIn(ctx context.Context, opts options, env *environment, store operations.Store, stdout io.Writer) (int, error) {
	c, err := newClients(env.config)
	if err != nil {
		return program.ExitOther, err
	}
	if err := checkNamespace(ctx, c.core, env.namespace); err != nil {
		return program.ExitOther, err
	}
	out := newProgress(ctx, opts, stdout)
	snapshots, err := newSnapshotter(opts, c, env.quiescer, store, out)
	if err != nil {
		return program.ExitOther, err
	}
	if opts.plan {
		return printPlan(ctx, opts, snapshots, env.namespace, stdout)
	}
	job, err := newBackup(ctx, opts, env.namespace, c, snapshots, store, out)
	if err != nil {
		return program.ExitOther, err
	}
	step := func(ctx context.Context) (bool, time.Duration, error) {
		next, err := job.Step(ctx)
		return next.Done, next.RequeueAfter, err
	}
	if err := program.RunToEnd(ctx, step); err != nil {
		return program.ExitOther, err
	}
	result, err := collect(ctx, job, env, out)
	if err != nil {
		return program.ExitOther, err
	}
	if err := out.finish(result); err != nil {
		return program.ExitOther, err
	}
	return program.ExitCode(result.Phase), nil
}

func printPlan(ctx context.Context, opts options, snapshots *csisnapshot.Snapshotter, namespace string, stdout io.Writer) (int, error) {
	plan, err := snapshots.Plan(ctx, namespace)
	if err != nil {
		return program.ExitOther, err
	}
	if opts.output == "json" {
		err = writePlan(stdout, plan)
	} else {
		_, err = fmt.Fprint(stdout, plan)
	}
	if err := errors.Join(err, planFault(plan)); err != nil {
		return program.ExitOther, err
	}
	return program.ExitCompleted, nil
}
