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
	synctest.Test(t, func(t *testing.T) {
		const own, foreign = 51, 460 // more than are read one by one; more than a page
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, own)
		var (
			others  []runtime.Object
			targets []csisnapshot.Target
			refs    []csisnapshot.Ref
			ids     []string
		)
		for i := range foreign {
			others = append(others, backuptest.Snapshot{Namespace: "other", Name: claimName(i), Claim: "x", Policy: "Retain"}.VSC())
		}
		for i := range own {
			vs := l.create(i)
			targets = append(targets, csisnapshot.Target{Snapshot: &vs, Driver: backuptest.DefaultDriver})
			refs, ids = append(refs, vs.Ref()), append(ids, csisnapshot.OperationID(vs.Ref(), vs.Created))
		}
		time.Sleep(time.Minute) // all are ready
		if err := l.cluster.Add(others...); err != nil {
			t.Fatal(err)
		}
		l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: "volumesnapshotcontents", Latency: 20 * time.Second})
		for _, o := range l.waiter(csisnapshot.WaitOptions{Mode: csisnapshot.ModePoll}).Wait(t.Context(), targets, csisnapshot.StageCut) {
			if o.Err != nil {
				t.Fatalf("Wait: %v", o.Err)
			}
		}
		answers, err := l.action(csisnapshot.WaitOptions{}).ProgressMany(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		for id, p := range answers {
			if p.Err != nil || p.Progress.State != operations.StateCompleted {
				t.Fatalf("ProgressMany: %s: %+v", id, p)
			}
		}
		if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, refs...); err != nil {
			t.Fatalf("Release: %v", err)
		}
	})
}
