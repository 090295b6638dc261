package tracktest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vmware-tanzu/velero/pkg/itemoperation"
	"github.com/vmware-tanzu/velero/pkg/util/encode"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

var key = operations.Key{Namespace: velerotest.Namespace, Name: backupName, UID: "b0b0b0b0-0000-4000-8000-000000000001"}

// scripted is an action of ours whose answers a scenario gives.
type scripted struct {
	progress func() (operations.Progress, error)
	cancel   func() error
}

func (s scripted) Progress(context.Context, string) (operations.Progress, error) { return s.progress() }

func (s scripted) Cancel(context.Context, string) error {
	if s.cancel == nil {
		return nil
	}
	return s.cancel()
}

func says(state operations.State) func() (operations.Progress, error) {
	return func() (operations.Progress, error) {
		return operations.Progress{State: state, Error: "the storage is gone"}, nil
	}
}

// flaky is a store of which the nth read is refused.
type flaky struct {
	operations.Store

	refuse, reads int
}

func (f *flaky) Read(ctx context.Context, name string) ([]byte, string, error) {
	if f.reads++; f.reads == f.refuse {
		return nil, "", errors.New("503 service unavailable")
	}
	return f.Store.Read(ctx, name)
}

// following is a poller of one operation.
func following(t *testing.T, store operations.Store, action operations.Action, opts operations.PollerOptions) *operations.Poller {
	t.Helper()
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	must(t, err)
	rec, err := m.Load(t.Context(), key)
	must(t, err)
	if rec.Missing() {
		_, err = m.Update(t.Context(), key, func(l *operations.List) error {
			return l.Add(operations.Operation{ID: "op-1", Action: velerotest.ActionName})
		})
		must(t, err)
	}
	p, err := operations.NewPoller(m, map[string]operations.Action{velerotest.ActionName: action}, opts)
	must(t, err)
	return p
}

// steps calls the poller as a reconciler does until it is done, and returns the notes of all steps and their errors.
func steps(t *testing.T, p *operations.Poller, limit time.Duration) (operations.Result, string) {
	t.Helper()
	var text strings.Builder
	start := time.Now()
	for {
		res, err := p.Step(t.Context(), key)
		if err != nil {
			text.WriteString(err.Error() + "\n")
		}
		for _, n := range res.Notes {
			text.WriteString(n.Err.Error() + "\n")
		}
		if res.Done || time.Since(start) >= limit {
			return res, text.String()
		}
		<-time.NewTimer(max(res.RequeueAfter, time.Second)).C
	}
}

// refusing is an object of which the first write is refused.
type refusing struct {
	*phase.Memory[string]

	refuse int
}

func (r *refusing) Update(ctx context.Context, old phase.State[string], c phase.Change[string]) (phase.State[string], error) {
	if r.refuse > 0 {
		r.refuse--
		return phase.State[string]{}, errors.New("500 internal server error")
	}
	return r.Memory.Update(ctx, old, c)
}

func oursA(t *testing.T) ending {
	t.Helper()
	object := &refusing{phase.NewMemory(phase.State[string]{Phase: phase.WaitingForPluginOperations}), 1}
	applier, err := phase.NewApplier(phase.Backup[string](), object, phase.ApplierOptions[string]{})
	must(t, err)
	p := following(t, operations.NewMemoryStore(), scripted{progress: says(operations.StateFailed)}, operations.PollerOptions{})
	var state phase.State[string]
	for pass := range 2 { // as a reconciler: all is read anew each time
		state, err = applier.Load(t.Context())
		must(t, err)
		res, err := p.Step(t.Context(), key)
		must(t, err)
		tally := phase.Tally{Running: res.Summary.Running, Completed: res.Summary.Completed, Failed: res.Summary.Failed}
		state, err = applier.Advance(t.Context(), state, tally)
		if (err != nil) != (pass == 0) {
			t.Fatalf("pass %d: %v", pass, err)
		}
	}
	return ended(state.Phase == phase.FinalizingPartiallyFailed, "%s (%s)", state.Phase, state.Reason)
}

// full is a document that cannot be saved.
type full struct{}

func (full) Load(context.Context) ([]byte, error) { return nil, nil }
func (full) Save(context.Context, []byte) error   { return errors.New("507 insufficient storage") }

func oursB(t *testing.T) ending {
	t.Helper()
	object := phase.NewMemory(phase.State[string]{Phase: phase.Finalizing, UID: string(key.UID)})
	applier, err := phase.NewApplier(phase.Backup[string](), object, phase.ApplierOptions[string]{Record: phase.NewDocumentRecord[string](full{}, string(key.UID))})
	must(t, err)
	at, err := object.Get(t.Context())
	must(t, err)
	_, failed := applier.Advance(t.Context(), at, phase.Tally{})
	state, err := object.Get(t.Context())
	must(t, err)
	return ended(failed != nil && state.Phase == phase.Finalizing, "%s in the cluster, never ahead of the store (error returned: %v)", state.Phase, failed != nil)
}

// absent is an object that is gone.
type absent struct{ tries *int }

func (a absent) Get(context.Context) (phase.State[string], error) {
	*a.tries++
	return phase.State[string]{}, phase.ErrNotFound
}

func (a absent) Update(context.Context, phase.State[string], phase.Change[string]) (phase.State[string], error) {
	*a.tries++
	return phase.State[string]{}, phase.ErrNotFound
}

func oursC(t *testing.T) ending {
	t.Helper()
	tries := 0
	applier, err := phase.NewApplier(phase.Backup[string](), absent{&tries}, phase.ApplierOptions[string]{})
	must(t, err)
	start := time.Now()
	_, err = applier.Advance(t.Context(), phase.State[string]{Phase: phase.Finalizing, UID: "1", Version: "1"}, phase.Tally{})
	took := time.Since(start)
	return ended(errors.Is(err, phase.ErrNotFound) && took <= time.Minute, "a typed error after %v and %d tries", took, tries)
}

func oursD(t *testing.T) ending {
	t.Helper()
	asked := 0
	action := scripted{progress: func() (operations.Progress, error) {
		if asked++; asked < 3 {
			return operations.Progress{State: operations.StateRunning}, nil
		}
		return operations.Progress{State: operations.StateCompleted}, nil
	}}
	p := following(t, &flaky{Store: operations.NewMemoryStore(), refuse: 2}, action, operations.PollerOptions{ReadInterval: time.Second})
	res, text := steps(t, p, time.Hour)
	return ended(res.Done && res.Summary.Completed == 1 && strings.Contains(text, "503"), "operation Completed, the 503 in an error or a note")
}

func oursE(t *testing.T) ending {
	t.Helper()
	calls := 0
	p := following(t, operations.NewMemoryStore(), scripted{progress: func() (operations.Progress, error) {
		if calls++; calls == 1 {
			return operations.Progress{}, errors.New("connection refused")
		}
		return operations.Progress{State: operations.StateCompleted}, nil
	}}, operations.PollerOptions{})
	res, _ := steps(t, p, time.Hour)
	return ended(res.Summary.Completed == 1, "%d of %d Completed after %d calls", res.Summary.Completed, res.Summary.Total, calls)
}

func oursF(t *testing.T) ending {
	t.Helper()
	cancels := 0
	p := following(t, operations.NewMemoryStore(), scripted{progress: says(operations.StateRunning), cancel: func() error {
		cancels++
		return errors.New(refused)
	}}, operations.PollerOptions{})
	res, text := steps(t, p, 8*time.Hour)
	told := strings.Contains(text, refused)
	return ended(res.Summary.Abandoned == 1 && told && cancels > 1, "%d Abandoned, not Failed, after %d cancels, whose error is told: %v", res.Summary.Abandoned, cancels, told)
}

func oursG(t *testing.T) ending {
	t.Helper()
	created := metav1.Now()
	buf, errs := encode.ToJSONGzip([]*itemoperation.BackupOperation{{
		Spec:   itemoperation.BackupOperationSpec{BackupName: key.Name, BackupUID: string(key.UID), BackupItemAction: velerotest.ActionName, OperationID: "op-1"},
		Status: itemoperation.OperationStatus{Phase: "Paused", Created: &created},
	}}, "operations")
	must(t, errors.Join(errs...))
	store := operations.NewMemoryStore()
	_, err := store.Write(t.Context(), operations.BackupForm.FileName(key.Name), buf.Bytes(), "")
	must(t, err)
	state := operations.StateRunning
	p := following(t, store, scripted{progress: func() (operations.Progress, error) { return operations.Progress{State: state}, nil }}, operations.PollerOptions{})
	first, _ := steps(t, p, time.Minute)
	state = operations.StateCompleted
	last, _ := steps(t, p, time.Hour)
	return ended(!first.Done && first.Summary.Running == 1 && last.Summary.Completed == 1, "counted as running (%d), then Completed when its action says so", first.Summary.Running)
}

func oursJ(t *testing.T) ending {
	t.Helper()
	var tracker finalize.ExecTracker
	tracker.Add(finalize.ExecHook{Namespace: "app", Pod: "db-0", Container: "absent", Name: "warm-up"})
	runner, err := finalize.New([]finalize.Hook{finalize.WaitExecHooks(&tracker, time.Minute)}, finalize.Options{})
	must(t, err)
	start := time.Now()
	report, err := runner.Run(t.Context())
	must(t, err)
	took := time.Since(start)
	return ended(report.Done() && report.Errors() == 1 && took <= 2*time.Minute, "the wait ends after its timeout and names the hook: %s", tracker.Records()[0].State)
}
