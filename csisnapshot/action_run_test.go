package csisnapshot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

func TestActionRun(t *testing.T) {
	t.Parallel()
	// S11: a watch exists only while Run does; while it is open, an operation whose snapshot does not change costs no read.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{CutAfter: time.Second, ReadyAfter: 10 * time.Minute}), 1)
		l.create(0)
		time.Sleep(5 * time.Second)
		a := l.action(csisnapshot.WaitOptions{SafetyRead: time.Hour})
		ask := func(n int) (last operations.Progress) {
			for range n {
				p, err := a.Progress(t.Context(), l.id(0))
				if err != nil {
					t.Fatal(err)
				}
				last = p
				time.Sleep(time.Second)
			}
			return last
		}
		reads := func() int { return l.counter.Requests()["get volumesnapshots"] }
		ask(3)
		if got := l.counter.Requests()["watch volumesnapshots"]; got != 0 || reads() != 3 {
			t.Errorf("without Run %d watches and %d reads, want 0 and 3", got, reads())
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		l.all.Go(func() { ended <- a.Run(ctx) })
		time.Sleep(5 * time.Second)
		if err := a.Run(ctx); err == nil {
			t.Error("a second Run is no error")
		}
		l.counter.Reset()
		if p := ask(60); p.State != operations.StateRunning || reads() > 2 {
			t.Errorf("%v after %d reads in a minute without a change", p.State, reads())
		}
		time.Sleep(30 * time.Minute)
		if p := ask(1); p.State != operations.StateCompleted {
			t.Errorf("after the event: %+v, want completed", p)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestActionRunWithoutAWatch(t *testing.T) {
	t.Parallel()
	// S11 S1: where no watch may be opened, and where one ends, every call reads; the watch is tried again.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{ReadyAfter: 10 * time.Minute}), 1)
		l.create(0)
		undo := l.cluster.Fault(backuptest.Fault{Verb: "watch", Resource: "volumesnapshots", Code: 403})
		a := l.action(csisnapshot.WaitOptions{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		l.all.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Minute)
		l.counter.Reset()
		for range 3 {
			if _, err := a.Progress(t.Context(), l.id(0)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got := l.counter.Requests()["get volumesnapshots"]; got != 3 {
			t.Errorf("%d reads, want 3", got)
		}
		undo()
		time.Sleep(10 * time.Minute)
		if got := l.counter.Requests()["watch volumesnapshots"]; got < 1 {
			t.Error("the watch was not tried again")
		}
	})
}

// pluginProgress stands for velero.OperationProgress, backupItem for runtime.Unstructured, and resourceID for
// velero.ResourceIdentifier.
type pluginProgress struct {
	Completed          bool
	Err                string
	NCompleted, NTotal int64
	OperationUnits     string
	Description        string
	Started, Updated   time.Time
}

type backupItem interface{ UnstructuredContent() map[string]any }

type resourceID struct{ Resource, Namespace, Name string }

type veleroBackup struct{ Name, UID string }

// snapshotPlugin has the three methods of a Velero BackupItemAction v2 that starts an operation.
type snapshotPlugin struct {
	take   func(ctx context.Context, item backupItem, backup *veleroBackup) (csisnapshot.Snapshot, error)
	action *csisnapshot.Action
	limit  time.Duration // of one call: the plugin interface has no context
	base   context.Context
}

func (p snapshotPlugin) Execute(item backupItem, backup *veleroBackup) (backupItem, []resourceID, string, []resourceID, error) {
	ctx, cancel := context.WithTimeout(p.base, p.limit)
	defer cancel()
	vs, err := p.take(ctx, item, backup)
	if err != nil {
		return nil, nil, "", nil, err
	}
	made := []resourceID{{Resource: "volumesnapshots.snapshot.storage.k8s.io", Namespace: vs.Namespace, Name: vs.Name}}
	return item, nil, csisnapshot.OperationID(vs.Ref(), vs.Created), made, nil
}

func (p snapshotPlugin) Progress(operationID string, _ *veleroBackup) (pluginProgress, error) {
	ctx, cancel := context.WithTimeout(p.base, p.limit)
	defer cancel()
	got, err := p.action.Progress(ctx, operationID)
	if err != nil {
		return pluginProgress{}, err
	}
	return pluginProgress{
		Completed: got.State != operations.StateRunning, Err: got.Error, NCompleted: got.Completed, NTotal: got.Total,
		OperationUnits: got.Units, Description: got.Description, Started: got.Started, Updated: got.Updated,
	}, nil
}

func (p snapshotPlugin) Cancel(operationID string, _ *veleroBackup) error {
	ctx, cancel := context.WithTimeout(p.base, p.limit)
	defer cancel()
	return p.action.Cancel(ctx, operationID)
}

func TestVeleroPlugin(t *testing.T) {
	t.Parallel()
	// S11: the same action serves a plugin of Velero's second interface for backup items, which has no context.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(2, backuptest.Script{ReadyAfter: time.Minute}), 2)
		next := 0
		p := snapshotPlugin{
			action: l.action(csisnapshot.WaitOptions{}), limit: time.Minute, base: t.Context(),
			take: func(context.Context, backupItem, *veleroBackup) (csisnapshot.Snapshot, error) {
				next++
				return l.create(next - 1), nil
			},
		}
		var ids []string
		for range 2 {
			_, _, id, made, err := p.Execute(nil, &veleroBackup{})
			if err != nil || len(made) != 1 || made[0].Namespace != "app" {
				t.Fatalf("Execute = %v, %v", made, err)
			}
			ids = append(ids, id)
		}
		time.Sleep(10 * time.Second)
		if err := p.Cancel(ids[1], nil); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		want := []string{`{"done":true,"n":1}`, `{"done":true,"n":0}`}
		for i, id := range ids {
			got, err := p.Progress(id, nil)
			text, _ := json.Marshal(map[string]any{"done": got.Completed, "n": got.NCompleted})
			if err != nil || string(text) != want[i] || (got.Err == "") != (i == 0) {
				t.Errorf("%s: %+v, %v, want %s", id, got, err, want[i])
			}
		}
		if _, err := p.Progress("nonsense", nil); err == nil {
			t.Error("nonsense is no error")
		}
	})
}

func ExampleEventReason() {
	text := `Failed to create snapshot: failed to take snapshot of the volume v: "rpc error: code = Internal desc = disk full"`
	fmt.Println(csisnapshot.EventReason(text), csisnapshot.GRPCCode(text), csisnapshot.GRPCMessage(text))
	// Output: SnapshotCreationFailed Internal disk full
}
