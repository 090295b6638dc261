package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// errEnded is a run that ended before what was waited for.
var errEnded = errors.New("the run has ended")

// Backup is a backup of an application by examples/backup. All its runs share a name and a store, so that each goes on
// where the one before ended.
type Backup struct {
	// Program is the path of the program, see [Build].
	Program string
	// App is what is backed up.
	App *App
	// Name is the name of the backup.
	Name string
	// Store is the directory of its records.
	Store string
}

// Build builds an example, such as "backup", of the module in directory root into the file that it returns, in dir. The error
// holds the go command's output.
func Build(ctx context.Context, root, dir, example string) (program string, err error) {
	program = filepath.Join(dir, "examples-"+example)
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "./examples/"+example)
	build.Dir = root
	build.Env = append(os.Environ(), "GOFLAGS=") // that of another module may name its go.mod
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build examples/%s: %w: %s", example, err, out)
	}
	return program, nil
}

// Run runs the program to its end, with "-o json" before args.
func (b Backup) Run(ctx context.Context, args ...string) (Exit, error) {
	run, err := b.Start(ctx, slices.Concat([]string{"-o", "json"}, args)...)
	if err != nil {
		return Exit{}, err
	}
	return run.Wait(ctx)
}

// Start starts the program as the application's user. It is killed when ctx ends.
func (b Backup) Start(ctx context.Context, args ...string) (*Run, error) {
	return b.App.Start(ctx, b.Program, slices.Concat([]string{"-namespace", b.App.Namespace, "-name", b.Name, "-store", b.Store}, args)...)
}

// Start starts a program as the application's user, with "-kubeconfig FILE" before args. It is killed when ctx ends.
func (a *App) Start(ctx context.Context, program string, args ...string) (*Run, error) {
	name := filepath.Base(program)
	kubeconfig, err := a.cluster.Stack.Kubeconfig(a.User)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	r := &Run{stdout: newOutput(), stderr: newOutput(), done: make(chan struct{})}
	r.cmd = exec.CommandContext(ctx, program, slices.Concat([]string{"-kubeconfig", kubeconfig}, args)...)
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	go func() {
		defer close(r.done)
		r.err = r.cmd.Wait()
	}()
	return r, nil
}

// Run is one process of the program. Its goroutine ends with it.
type Run struct {
	cmd            *exec.Cmd
	stdout, stderr *output
	done           chan struct{}
	err            error // of the end; set before done is closed
}

// Done is closed when the process has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// Kill ends the process by SIGKILL and returns when it is gone. It reports whether the signal ended it, not it itself.
func (r *Run) Kill() (killed bool, err error) {
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, fmt.Errorf("kill the backup: %w", err)
	}
	<-r.done
	status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL, nil
}

// AwaitLines returns nil once enough holds for the lines that the process has printed to its standard output. It returns an
// error when the process or ctx ends before.
func (r *Run) AwaitLines(ctx context.Context, enough func(lines []string) bool) error {
	if err := r.stdout.await(ctx, r.done, enough); err != nil {
		return fmt.Errorf("await the backup's output: %w; it printed %q, %q", err, r.stdout, r.stderr)
	}
	return nil
}

// Wait returns how the process ended. It returns an error when it cannot be known, and ctx's when that ends before.
func (r *Run) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
	end := Exit{Code: r.cmd.ProcessState.ExitCode(), Stdout: r.stdout.String(), Stderr: r.stderr.String()}
	if _, ok := errors.AsType[*exec.ExitError](r.err); r.err != nil && !ok {
		return end, fmt.Errorf("run the backup: %w", r.err)
	}
	return end, nil
}
