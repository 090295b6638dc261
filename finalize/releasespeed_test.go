package finalize_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

// oneAtATime is a Releaser that hands on one snapshot after the other.
type oneAtATime struct{ finalize.Releaser }

func (o oneAtATime) Release(ctx context.Context, owner csisnapshot.Owner, refs ...csisnapshot.Ref) (*csisnapshot.ReleaseReport, error) {
	all := &csisnapshot.ReleaseReport{}
	for _, ref := range refs {
		report, err := o.Releaser.Release(ctx, owner, ref)
		if err != nil {
			return report, err
		}
		all.Items = append(all.Items, report.Items...)
	}
	return all, nil
}

// slow is a network on which each answer takes 20 ms.
type slow struct{ next http.RoundTripper }

func (s slow) RoundTrip(req *http.Request) (*http.Response, error) {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.next.RoundTrip(req)
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// release releases n ready snapshots over a slow network, and returns the time it took, and when each request was sent. qps
// is the rate of the client's limiter, which has bursts of as many; less than zero: it is off.
func release(t *testing.T, n int, qps float32, wrap func(finalize.Releaser) finalize.Releaser) (took time.Duration, sent []time.Time) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		var ops []operations.Operation
		for i := range n {
			name := fmt.Sprintf("s%04d", i)
			claim := csisnapshot.ClaimRef{Namespace: "app", Name: name, UID: backuptest.UIDOf("PersistentVolumeClaim", "app", name)}
			s := backuptest.Snapshot{Namespace: "app", Name: name, Claim: name}
			vs := s.VS()
			vs.SetLabels(csisnapshot.Names{}.Labels(owner, claim))
			vs.SetAnnotations(csisnapshot.Names{}.Annotations(owner, claim))
			objects = append(objects, vs, s.VSC())
			ops = append(ops, operation(name, operations.PhaseCompleted, ""))
		}
		cluster := backuptest.New(t, backuptest.Options{Objects: objects})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		driver := backuptest.NewDriver(backuptest.DriverOptions{})
		controller := backuptest.NewSnapshotController(dynamic.NewForConfigOrDie(cluster.Config()), driver, backuptest.ControllerOptions{})
		running.Go(func() { _ = controller.Run(ctx) })
		defer func() { stop(); running.Wait() }()

		const user = "releaser"
		config := cluster.ConfigFor(user, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
		config.QPS, config.Burst = qps, int(qps)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return slow{next} })
		snaps, err := csisnapshot.New(kubernetes.NewForConfigOrDie(config), csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(config)), csisnapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		known := opsMap(t, ops...)
		start := time.Now()
		report := runOnce(t, finalize.ReleaseSnapshots(wrap(snaps), owner, known, key))
		took = time.Since(start)
		if report.Errors() != 0 {
			t.Fatalf("%d errors, the first: %s", report.Errors(), report.Hooks[0].Error)
		}
		for _, e := range cluster.Log().By(user) {
			sent = append(sent, e.At)
		}
	})
	slices.SortFunc(sent, time.Time.Compare)
	return took, sent
}

// F5: releasing 1000 snapshots is at least ten times faster than one at a time, whose time per snapshot is that of fifty. So
// is a share of them.
func TestReleaseSpeed(t *testing.T) {
	t.Parallel()
	const n, few = 1000 / share, 50 / share
	single, _ := release(t, few, -1, func(r finalize.Releaser) finalize.Releaser { return oneAtATime{r} })
	all, _ := release(t, n, -1, func(r finalize.Releaser) finalize.Releaser { return r })
	ratio := float64(single) * n / few / float64(all)
	t.Logf("%d snapshots: %v; one at a time: %v each; %.1f times faster", n, all, single/few, ratio)
	if ratio < 10 {
		t.Errorf("%.1f times faster than one at a time, want 10", ratio)
	}
}

// F5: with the client's limiter on, the rate is never passed, in no window of time.
func TestReleaseRate(t *testing.T) {
	t.Parallel()
	const qps = 50
	_, sent := release(t, 200/min(share, 2), qps, func(r finalize.Releaser) finalize.Releaser { return r })
	if len(sent) < 3*qps {
		t.Fatalf("%d requests, want more than a few bursts", len(sent))
	}
	for i := range sent {
		for j := i; j < len(sent); j++ {
			if allowed := qps + qps*sent[j].Sub(sent[i]).Seconds() + 1; float64(j-i+1) > allowed {
				t.Fatalf("%d requests in %v, the limiter allows %.0f", j-i+1, sent[j].Sub(sent[i]), allowed)
			}
		}
	}
}
