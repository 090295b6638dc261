package sheetanchor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
)

// The Go code of README.md stands in this file or in examples/backup, so that it compiles and runs.
func TestReadme(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	code := read("readme_test.go") + read("examples/backup/reconcile.go")
	blocks := strings.Split(read("README.md"), "```go\n")[1:]
	if len(blocks) < 5 {
		t.Errorf("README.md has %d blocks of Go code, want at least 5", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(code, block) {
			t.Errorf("README.md has code that is neither in readme_test.go nor in examples/backup/reconcile.go:\n%s", block)
		}
	}
}

func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(
			backuptest.SnapshotClass{},
			backuptest.Claim{Namespace: "shop", Name: "data"},
			backuptest.Pod{Namespace: "shop", Name: "db-0", Claims: []string{"data"}},
		)})
		cluster.Fault(backuptest.Fault{Verb: "create", Resource: "volumesnapshots", Times: 2, Code: 503})

		client := dynamic.NewForConfigOrDie(cluster.Config())
		controller := backuptest.NewSnapshotController(client, backuptest.NewDriver(backuptest.DriverOptions{}),
			backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"shop/data": {CutAfter: time.Minute}}})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = controller.Run(ctx) })
		defer running.Wait()
		defer stop()

		core := kubernetes.NewForConfigOrDie(cluster.Config())
		snapshots, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := snapshots.Plan(ctx, "shop")
		if err != nil {
			t.Fatal(err)
		}
		report, err := snapshots.Cut(ctx, csisnapshot.Owner{UID: "1", Namespace: "shop", Name: "nightly"}, plan)
		if err != nil || report.Err() != nil {
			t.Fatal(err, report.Err())
		}
		// A minute has passed, and the test has taken milliseconds.
		if got := time.Since(report.Started); got < time.Minute {
			t.Errorf("cut %s after %v, want a minute", *report.Volumes[0].Handle, got)
		}
	})
}

var errNoSuchUpload = errors.New("no such upload")

type upload struct {
	Sent, Size int64
	Done       bool
}

type uploadClient map[string]*upload

func (c uploadClient) Get(_ context.Context, id string) (*upload, error) {
	if up, ok := c[id]; ok {
		return up, nil
	}
	return nil, errNoSuchUpload
}

func (c uploadClient) Abort(context.Context, string) error { return nil }

type uploads struct{ client uploadClient }

// Progress is asked now and then, until the state is an end.
func (u uploads) Progress(ctx context.Context, id string) (operations.Progress, error) {
	up, err := u.client.Get(ctx, id)
	switch {
	case errors.Is(err, errNoSuchUpload):
		return operations.Progress{}, operations.Permanent(err) // asking again is of no use
	case err != nil:
		return operations.Progress{}, err // asked again, within a budget
	case up.Done:
		return operations.Progress{State: operations.StateCompleted}, nil
	}
	return operations.Progress{State: operations.StateRunning, Completed: up.Sent, Total: up.Size, Units: "bytes"}, nil
}

// Cancel asks for the end; Progress tells when it has come.
func (u uploads) Cancel(ctx context.Context, id string) error { return u.client.Abort(ctx, id) }

func register(ctx context.Context, poller *operations.Poller, backup operations.Key, id string) error {
	return poller.Register(ctx, backup, operations.Operation{
		ID: id, Action: "example.dev/upload",
		Resource: operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
		Status:   operations.Status{Phase: operations.PhaseInProgress},
	})
}

func TestUploads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := uploadClient{"upload-1": {Sent: 1, Size: 2}}
		ops, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
		if err != nil {
			t.Fatal(err)
		}
		poller, err := operations.NewPoller(ops, map[string]operations.Action{"example.dev/upload": uploads{client}}, operations.PollerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		backup := operations.Key{Namespace: "shop", Name: "nightly", UID: "1"}
		if err := register(t.Context(), poller, backup, "upload-1"); err != nil {
			t.Fatal(err)
		}
		if result, err := poller.Step(t.Context(), backup); err != nil || result.Done {
			t.Fatalf("Step = %+v, %v, want that it runs", result, err)
		}
		client["upload-1"].Done = true
		if sum, err := poller.Run(t.Context(), backup); err != nil || sum.Completed != 1 {
			t.Errorf("Run = %+v, %v, want one completed", sum, err)
		}
	})
}

// Phase is a user's own type of phases.
type Phase string

// startUp decides what becomes of each backup that is found when a process starts. It returns when to look again at those that
// are left to their owners.
func startUp(ctx context.Context, live phase.Liveness, backups map[string]*phase.Applier[Phase], add func(name string)) (map[string]time.Time, error) {
	again := map[string]time.Time{}
	var errs []error
	for name, backup := range backups {
		r, err := backup.Recover(ctx, live)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("backup %s: %w", name, err)) // nothing is lost: ask again later
		case r.Mine:
			add(name) // resumed, run again or taken over from a dead owner: Step goes on
		case r.Action == phase.ActionLeave:
			again[name] = r.Until
		}
	}
	return again, errors.Join(errs...)
}

func TestStartUp(t *testing.T) {
	backups := map[string]*phase.Applier[Phase]{}
	for name, state := range map[string]phase.State[Phase]{
		"new":   {},
		"dead":  {Phase: phase.InProgress, Owner: "dead"},
		"live":  {Phase: phase.InProgress, Owner: "live"},
		"ended": {Phase: phase.Completed, Owner: "dead"},
	} {
		backup, err := phase.NewApplier(phase.Backup[Phase](), phase.NewMemory(state), phase.ApplierOptions[Phase]{Owner: "me"})
		if err != nil {
			t.Fatal(err)
		}
		backups[name] = backup
	}
	live := phase.LivenessFunc(func(_ context.Context, owner string) (phase.Heartbeat, error) {
		return phase.Heartbeat{Renewed: time.Now(), ValidFor: time.Minute, Deposed: owner == "dead"}, nil
	})
	var added []string
	again, err := startUp(t.Context(), live, backups, func(name string) { added = append(added, name) })
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(added)
	if want := []string{"dead", "new"}; !slices.Equal(added, want) {
		t.Errorf("started %v, want %v", added, want)
	}
	if _, found := again["live"]; !found || len(again) != 1 {
		t.Errorf("to look at again: %v, want live", again)
	}
}
