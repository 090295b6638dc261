package csisnapshot_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

func TestCallTimeoutBoundsAPageNotAList(t *testing.T) {
	t.Parallel()
	// S3 S8: a cluster with contents of others in two pages, each of which takes twenty of the thirty seconds of one request. The
	// list ends, whoever makes it.
	const own, foreign = 51, 600
	tests := map[string]func(t *testing.T, l *waitLab, made []csisnapshot.Snapshot){
		"wait": func(t *testing.T, l *waitLab, made []csisnapshot.Snapshot) {
			t.Helper()
			var targets []csisnapshot.Target
			for i := range made {
				targets = append(targets, csisnapshot.Target{Snapshot: &made[i], Driver: backuptest.DefaultDriver})
			}
			for _, o := range l.waiter(csisnapshot.WaitOptions{Mode: csisnapshot.ModePoll}).Wait(t.Context(), targets, csisnapshot.StageCut) {
				if o.Err != nil {
					t.Fatal(o.Err)
				}
			}
		},
		"action": func(t *testing.T, l *waitLab, made []csisnapshot.Snapshot) {
			t.Helper()
			a, err := csisnapshot.NewAction(l.client, l.names, csisnapshot.WaitOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, vs := range made {
				ids = append(ids, csisnapshot.OperationID(vs.Ref(), vs.Created))
			}
			answers, err := a.ProgressMany(t.Context(), ids)
			if err != nil {
				t.Fatal(err)
			}
			for id, p := range answers {
				if p.Err != nil || p.Progress.State != operations.StateCompleted {
					t.Fatalf("%s: %+v", id, p)
				}
			}
		},
		"release": func(t *testing.T, l *waitLab, made []csisnapshot.Snapshot) {
			t.Helper()
			var refs []csisnapshot.Ref
			for _, vs := range made {
				refs = append(refs, vs.Ref())
			}
			if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, refs...); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, own)
				var others []runtime.Object
				for i := range foreign {
					others = append(others, backuptest.Snapshot{Namespace: "other", Name: claimName(i), Claim: "x", Policy: "Retain"}.VSC())
				}
				var made []csisnapshot.Snapshot
				for i := range own {
					made = append(made, l.create(i))
				}
				time.Sleep(time.Minute) // all are ready
				if err := l.cluster.Add(others...); err != nil {
					t.Fatal(err)
				}
				l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: "volumesnapshotcontents", Latency: 20 * time.Second})
				test(t, l, made)
			})
		})
	}
}
