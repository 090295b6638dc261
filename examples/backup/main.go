package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
)

// Exit codes of the program.
const (
	exitCompleted       = 0
	exitOther           = 1
	exitPartiallyFailed = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, so that tests can call it. It prints one line to stderr for anything that ends it early.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitCompleted
	case err != nil:
		fmt.Fprintln(stderr, "backup:", oneLine(err.Error()))
		return exitOther
	}
	code, err := backup(ctx, opts, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "backup:", oneLine(err.Error()))
		return exitOther
	}
	return code
}

// backup sets the cluster and the backup up, then runs or plans it.
func backup(ctx context.Context, opts options, stdout, stderr io.Writer) (code int, err error) {
	store, err := openStore(&opts)
	if err != nil {
		return exitOther, err
	}
	defer func() { err = errors.Join(err, tidyStore(opts, stderr)) }()
	env, err := openEnvironment(ctx, opts, stderr)
	if err != nil {
		return exitOther, err
	}
	defer func() { err = errors.Join(err, env.close()) }()
	return backupIn(ctx, opts, env, store, stdout)
}

// backupIn plans or runs the backup in a cluster.
func backupIn(ctx context.Context, opts options, env *environment, store operations.Store, stdout io.Writer) (int, error) {
	c, err := newClients(env.config)
	if err != nil {
		return exitOther, err
	}
	if err := checkNamespace(ctx, c.core, env.namespace); err != nil {
		return exitOther, err
	}
	out := newProgress(ctx, opts, stdout)
	snapshots, err := newSnapshotter(opts, c, env.quiescer, store, out)
	if err != nil {
		return exitOther, err
	}
	if opts.plan {
		return printPlan(ctx, opts, snapshots, env.namespace, stdout)
	}
	job, err := newBackup(ctx, opts, env.namespace, c, snapshots, store, out)
	if err != nil {
		return exitOther, err
	}
	if err := runToEnd(ctx, job); err != nil {
		return exitOther, err
	}
	result, err := collect(ctx, job, env, out)
	if err != nil {
		return exitOther, err
	}
	if err := out.finish(result); err != nil {
		return exitOther, err
	}
	switch result.Phase {
	case phase.Completed:
		return exitCompleted, nil
	case phase.PartiallyFailed:
		return exitPartiallyFailed, nil
	default:
		return exitOther, nil
	}
}

func printPlan(ctx context.Context, opts options, snapshots *csisnapshot.Snapshotter, namespace string, stdout io.Writer) (int, error) {
	plan, err := snapshots.Plan(ctx, namespace)
	if err != nil {
		return exitOther, err
	}
	if opts.output == "json" {
		err = writePlan(stdout, plan)
	} else {
		_, err = fmt.Fprint(stdout, plan)
	}
	if err := errors.Join(err, planFault(plan)); err != nil {
		return exitOther, err
	}
	return exitCompleted, nil
}
