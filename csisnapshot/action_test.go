package csisnapshot_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

func (l *waitLab) action(opts csisnapshot.WaitOptions) *csisnapshot.Action {
	l.Helper()
	a, err := csisnapshot.NewAction(l.client, l.names, opts)
	if err != nil {
		l.Fatal(err)
	}
	return a
}

// id is the operation of the snapshot of claim i.
func (l *waitLab) id(i int) string { return csisnapshot.OperationID(l.ref(i), l.start) }

func TestActionFollowsASnapshot(t *testing.T) {
	t.Parallel()
	// S11: running until ready, then completed, and completed it stays although it is released meanwhile.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{CutAfter: 5 * time.Second, ReadyAfter: 20 * time.Second}), 1)
		l.create(0)
		a := l.action(csisnapshot.WaitOptions{})
		for _, want := range []struct {
			after       time.Duration
			state       operations.State
			completed   int64
			description string
		}{
			{time.Second, operations.StateRunning, 0, "being cut"},
			{10 * time.Second, operations.StateRunning, 0, "cut, not ready to use yet"},
			{time.Minute, operations.StateCompleted, 1, "ready to use"},
		} {
			time.Sleep(want.after)
			p, err := a.Progress(t.Context(), l.id(0))
			if err != nil || p.State != want.state || p.Completed != want.completed || p.Total != 1 || p.Description != want.description || p.Started.IsZero() {
				t.Errorf("at %v: %+v, %v, want %v %q", l.at(), p, err, want.state, want.description)
			}
		}
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, l.ref(0)); err != nil {
			t.Fatal(err)
		}
		if p, err := a.Progress(t.Context(), l.id(0)); err != nil || p.State != operations.StateCompleted {
			t.Errorf("released: %+v, %v, want it still completed", p, err)
		}
		if p, err := l.action(csisnapshot.WaitOptions{}).Progress(t.Context(), l.id(0)); err != nil || p.State != operations.StateFailed || p.Error == "" {
			t.Errorf("a process that never saw it: %+v, %v, want failed", p, err)
		}
	})
}

func TestActionAnswersManyAtOnce(t *testing.T) {
	t.Parallel()
	// S11 S3: one round for all: a list of the namespace, and one list of contents if more than 50 are not cut.
	onEachAdapter(t, func(t bubble) {
		const n = 60
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, n)
		ids := []string{"nonsense"}
		for i := range n {
			l.create(i)
			ids = append(ids, l.id(i))
		}
		time.Sleep(time.Minute)
		l.counter.Reset()
		answers, err := l.action(csisnapshot.WaitOptions{}).ProgressMany(t.Context(), ids)
		if err != nil || len(answers) != n+1 {
			t.Fatalf("%d answers, %v", len(answers), err)
		}
		for id, got := range answers {
			if id == "nonsense" {
				if !operations.IsPermanent(got.Err) {
					t.Errorf("%s: %v, want a permanent error", id, got.Err)
				}
			} else if got.Err != nil || got.Progress.State != operations.StateCompleted {
				t.Errorf("%s: %+v", id, got)
			}
		}
		if got, want := fmt.Sprint(l.counter.Requests()), "map[list volumesnapshotcontents:1 list volumesnapshots:1]"; got != want {
			t.Errorf("requests %s, want %s", got, want)
		}
	})
}

func TestActionFailures(t *testing.T) {
	t.Parallel()
	// S11 S8 S9: what ends an operation, what is permanent, and what is only trouble.
	onEachAdapter(t, func(t bubble) {
		bad := backuptest.Script{Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no such volume"}}}
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data-000": bad}}, 4)
		l.create(0)
		l.create(1)
		foreign := l.object(2)
		foreign.Annotations = nil
		if _, err := l.client.Snapshots().Create(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		lenient, strict := l.action(csisnapshot.WaitOptions{}), l.action(csisnapshot.WaitOptions{Classifier: csisnapshot.FinalCodes("InvalidArgument")})
		if p, err := lenient.Progress(t.Context(), l.id(0)); err != nil || p.State != operations.StateRunning || !strings.Contains(p.Description, "no such volume") {
			t.Errorf("an error without a classifier: %+v, %v, want running", p, err)
		}
		if p, err := strict.Progress(t.Context(), l.id(0)); err != nil || p.State != operations.StateFailed || !strings.Contains(p.Error, "no such volume") {
			t.Errorf("a final error: %+v, %v, want failed", p, err)
		}
		if _, err := lenient.Progress(t.Context(), l.id(2)); !operations.IsPermanent(err) || !errors.Is(err, csisnapshot.ErrForeign) {
			t.Errorf("a foreign snapshot: %v, want a permanent ErrForeign", err)
		}
		if p, err := lenient.Progress(t.Context(), l.id(3)); err != nil || p.State != operations.StateFailed {
			t.Errorf("no snapshot: %+v, %v, want failed", p, err)
		}
		remove := l.cluster.Fault(backuptest.Fault{Verb: "get", Resource: "volumesnapshots", Action: backuptest.FaultRefuse})
		if _, err := lenient.Progress(t.Context(), l.id(1)); err == nil || operations.IsPermanent(err) {
			t.Errorf("a server that is down: %v, want an error to try again", err)
		}
		remove()
		if p, err := lenient.Progress(t.Context(), l.id(1)); err != nil || p.State != operations.StateCompleted {
			t.Errorf("afterwards: %+v, %v", p, err)
		}
	})
}

func TestActionCancel(t *testing.T) {
	t.Parallel()
	// S11: canceling is written down, so that every later process answers canceled; a ready snapshot is not canceled.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data-000": {ReadyAfter: time.Hour}}}, 2)
		l.create(0)
		l.create(1)
		time.Sleep(10 * time.Second)
		a := l.action(csisnapshot.WaitOptions{})
		l.cluster.Fault(backuptest.Fault{Verb: "patch", Resource: "volumesnapshots", Code: 409, Nth: 1, Times: 1})
		for i := range 2 {
			for range 2 {
				if err := a.Cancel(t.Context(), l.id(i)); err != nil {
					t.Errorf("Cancel: %v", err)
				}
			}
		}
		for i, want := range []operations.State{operations.StateCanceled, operations.StateCompleted} {
			if p, err := l.action(csisnapshot.WaitOptions{}).Progress(t.Context(), l.id(i)); err != nil || p.State != want {
				t.Errorf("snapshot %d: %+v, %v, want %v", i, p, err, want)
			}
		}
		if got := l.counter.Requests()["patch volumesnapshots"]; got != 2 { // one of them a conflict
			t.Errorf("%d patches, want 2", got)
		}
		if err := a.Cancel(t.Context(), csisnapshot.OperationID(csisnapshot.Ref{Namespace: "app", Name: "gone"}, l.start)); err != nil {
			t.Errorf("Cancel of a snapshot that is gone: %v", err)
		}
		if err := a.Cancel(t.Context(), "nonsense"); !operations.IsPermanent(err) {
			t.Errorf("Cancel of nonsense: %v", err)
		}
	})
}

func ExampleFinalCodes() {
	c := csisnapshot.FinalCodes("InvalidArgument", "OutOfRange")
	for _, text := range []string{
		`failed to take snapshot of the volume v: "rpc error: code = InvalidArgument desc = no such volume"`,
		`failed to take snapshot of the volume v: "rpc error: code = Unavailable desc = busy"`,
	} {
		code := csisnapshot.GRPCCode(text)
		fmt.Println(code, c.Classify(csisnapshot.ErrorInfo{Text: text, Code: code}).Final)
	}
	// Output:
	// InvalidArgument true
	// Unavailable false
}

func TestActionForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
		l.ready(1)
		a := l.action(csisnapshot.WaitOptions{})
		if p, err := a.Progress(t.Context(), l.id(0)); err != nil || p.State != operations.StateCompleted {
			t.Fatalf("%+v, %v", p, err)
		}
		l.counter.Reset()
		if _, err := a.Progress(t.Context(), l.id(0)); err != nil || len(l.counter.Requests()) != 0 {
			t.Errorf("asked again: %v, %v, want no request", err, l.counter.Requests())
		}
		time.Sleep(2 * time.Hour)
		if _, err := a.Progress(t.Context(), l.id(0)); err != nil || len(l.counter.Requests()) == 0 {
			t.Errorf("asked after two hours: %v, %v, want it read again", err, l.counter.Requests())
		}
	})
}

func TestActionOfAnEarlierSnapshot(t *testing.T) {
	t.Parallel()
	// S2 S11: a snapshot was destroyed and made anew under its name. To a process that never saw the first one, its operation
	// has failed: it neither completes with the new snapshot nor cancels it.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{ReadyAfter: time.Minute}), 1)
		id := func(vs csisnapshot.Snapshot) string { return csisnapshot.OperationID(vs.Ref(), vs.Created) }
		first := l.create(0)
		time.Sleep(10 * time.Second)
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Destroy(t.Context(), l.owner, first.Ref()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		second := l.create(0)
		if err := l.action(csisnapshot.WaitOptions{}).Cancel(t.Context(), id(first)); err != nil {
			t.Errorf("Cancel: %v", err)
		}
		time.Sleep(10 * time.Minute)
		never := csisnapshot.OperationID(first.Ref(), time.Time{})
		answers, err := l.action(csisnapshot.WaitOptions{}).ProgressMany(t.Context(), []string{id(first), id(second), never})
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]operations.State{
			id(first): operations.StateFailed, id(second): operations.StateCompleted, never: operations.StateFailed,
		} {
			if got := answers[id]; got.Err != nil || got.Progress.State != want {
				t.Errorf("%s: %+v, want %v", id, got, want)
			}
		}
	})
}

// S3 S11: what an operation costs at a tick does not grow with their number.
func BenchmarkActionProgressMany(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			cluster := backuptest.New(b, backuptest.Options{})
			cluster.Fault(backuptest.Fault{Verb: "list", Code: 500}) // one list that fails: the rest is the action's own work
			client, err := dynamic.NewForConfig(cluster.Config())
			if err != nil {
				b.Fatal(err)
			}
			a, err := csisnapshot.NewAction(csisnapshot.NewDynamic(client), csisnapshot.Names{}, csisnapshot.WaitOptions{})
			if err != nil {
				b.Fatal(err)
			}
			var ids []string
			for _, name := range numbered("s", n) {
				ids = append(ids, csisnapshot.OperationID(csisnapshot.Ref{Namespace: "app", Name: name}, time.Unix(1, 0)))
			}
			for b.Loop() {
				if _, err := a.ProgressMany(b.Context(), ids); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/operation")
		})
	}
}
