package loadtest

import (
	"context"
	"net/http"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/vmware-tanzu/velero/pkg/util/csi"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// callLatency is how long each API request of the two takes while snapshots are released.
const callLatency = 20 * time.Millisecond

const (
	releaseAtOnce = 48  // snapshots that ours works on at the same time
	writeRate     = 100 // writes a second, where there is a limit
)

// release clears away the objects of many snapshots and keeps the physical ones.
func release(t *testing.T, b *bench) {
	t.Helper()
	n := &namespace{Volumes: b.size(1000, 100)}
	c, stop := n.cluster(t)
	run := n.velero(t, c, manyFrozen)
	if run.Failed > 0 {
		t.Fatalf("%d of Velero's cuts failed", run.Failed)
	}
	cl, err := velerotest.NewClient(slow(config(c, userVelero)))
	must(t, err)
	var list snapshotv1.VolumeSnapshotList
	must(t, cl.List(t.Context(), &list, client.InNamespace(app)))
	asked := len(c.Log().By(userVelero))
	theirs := wall(func() {
		for _, vs := range list.Items { // as its finalizer goes through the items of operations
			csi.DeleteReadyVolumeSnapshot(vs, cl, velerotest.Logger())
		}
	})
	asked = len(c.Log().By(userVelero)) - asked
	stop()
	ours, log := n.release(t, csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyRetain, Concurrency: releaseAtOnce})
	calls := len(log)
	limited, log := n.release(t, csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyRetain, Concurrency: releaseAtOnce, MinInterval: time.Second / writeRate})
	count := table.Number(n.Volumes).String()
	b.row(count+" released, 20 ms a call, no limit of the rate", table.Time(theirs), table.Time(ours), table.Target{Kind: table.TimesBetter, Limit: float64(b.size(10, 5))})
	b.row("requests of a released snapshot", table.Number(float64(asked)/float64(n.Volumes)), table.Number(float64(calls)/float64(n.Volumes)), table.Target{})
	b.row("the same with at most "+table.Number(writeRate).String()+" writes a second", table.Time(theirs), table.Time(limited), table.Target{})
	b.row("the most writes in any second of that", nil, table.Number(mostInASecond(log)), table.Target{Kind: table.AtMost, Limit: writeRate})
	b.note("virtual time, no rate limit in the client; each request of the two takes %v, the controllers' take none; RemoveOptions.Concurrency %d (its default is 8). Velero %s calls csi.DeleteReadyVolumeSnapshot for one item after the other and waits for nothing; ours reads back the policy Retain and waits until the objects are gone. At most %d writes a second is RemoveOptions.MinInterval %v.", callLatency, releaseAtOnce, velerotest.Version(), writeRate, time.Second/writeRate)
}

// release takes the snapshots and releases them as the options say. It returns how long that takes and the requests for it.
func (n *namespace) release(t *testing.T, opts csisnapshot.RemoveOptions) (time.Duration, backuptest.Log) {
	t.Helper()
	c, stop := n.cluster(t)
	defer stop()
	_, report := n.anchor(t, c, csisnapshot.Options{})
	must(t, report.Err())
	var refs []csisnapshot.Ref
	for _, v := range report.Volumes {
		refs = append(refs, csisnapshot.Ref{Namespace: v.Namespace, Name: v.Snapshot})
	}
	as := slow(config(c, userAnchor))
	s, err := csisnapshot.New(kubernetes.NewForConfigOrDie(as), csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(as)), csisnapshot.Options{})
	must(t, err)
	before := len(c.Log().By(userAnchor))
	start := time.Now()
	released, err := s.Remove(t.Context(), anchorOwner, opts, refs...)
	took := time.Since(start)
	must(t, err)
	kept := 0
	for _, item := range released.Items {
		if item.Handle != "" && item.Gone {
			kept++
		}
	}
	if kept != n.Volumes {
		t.Fatalf("%d of %d snapshots were released and kept", kept, n.Volumes)
	}
	return took, c.Log().By(userAnchor)[before:]
}

// mostInASecond is the largest number of writes that began within one second.
func mostInASecond(log backuptest.Log) int {
	writes := log.Of(backuptest.Request{Verb: "write"})
	most, first := 0, 0
	for i, w := range writes {
		for w.At.Sub(writes[first].At) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// slow makes each request of the configuration's clients take callLatency longer.
func slow(c *rest.Config) *rest.Config {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return late{next} })
	return c
}

type late struct{ next http.RoundTripper }

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	timer := time.NewTimer(callLatency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return l.next.RoundTrip(r)
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}
