package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
)

func main() { program.Main(run) }

// run is the whole program. It prints one line to stderr for anything that ends it early.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	code := program.ExitOther
	if err == nil {
		code, err = restore(ctx, opts, stdout)
	}
	return program.Exit("restore", stderr, code, err)
}

// restore sets the cluster up and restores into it.
func restore(ctx context.Context, opts options, stdout io.Writer) (code int, err error) {
	done, err := openStore(&opts)
	if err != nil {
		return program.ExitOther, err
	}
	defer func() { err = errors.Join(err, done()) }()
	store, err := operations.NewFileStore(opts.store, operations.FileOptions{})
	if err != nil {
		return program.ExitOther, fmt.Errorf("-store %s: %w", opts.store, err)
	}
	env, err := openEnvironment(ctx, opts)
	if err != nil {
		return program.ExitOther, err
	}
	defer func() { err = errors.Join(err, env.close()) }()
	return restoreIn(ctx, opts, env, store, stdout)
}

// restoreIn restores into a cluster that is there.
func restoreIn(ctx context.Context, opts options, env *environment, store operations.Store, stdout io.Writer) (int, error) {
	out := &progress{stdout: stdout, json: opts.output == "json", started: time.Now()}
	job, err := newRestore(ctx, opts, env, store, out)
	if err != nil {
		return program.ExitOther, err
	}
	err = program.RunToEnd(ctx, func(ctx context.Context) (bool, time.Duration, error) {
		result, err := job.Step(ctx)
		return result.Done, result.RequeueAfter, err
	})
	if err != nil {
		return program.ExitOther, err
	}
	r, err := collect(ctx, job, env, out)
	if err == nil {
		err = out.finish(r)
	}
	return program.ExitCode(r.Phase), err
}
