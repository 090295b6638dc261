package backuptest

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/internal/apiserver"
)

// Cluster is a Kubernetes API server in memory. Make one with [Start] or [New]; inside a testing/synctest bubble make it
// there. It is safe for concurrent use. The requests to the zero Cluster, and what it is to store, fail.
type Cluster struct {
	server  *apiserver.Server
	faults  *faultTransport
	counter apirequest.Counter
	rt      http.RoundTripper
	test    TB // of New, else nil
}

// errNoCluster is the error of the zero Cluster.
var errNoCluster = errors.New("cluster: it was not made by Start or New")

// noTransport is the transport of the zero Cluster.
type noTransport struct{}

func (noTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, errNoCluster
}

// Start makes a cluster. Its errors name the option, the object or the file that is wrong. Call [Cluster.Close] when done.
func Start(opts Options) (*Cluster, error) {
	server, err := opts.server()
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{server: server, faults: &faultTransport{server: server, latency: opts.Latency}}
	c.rt = c.counter.Wrap(c.faults)
	if err := c.add(true, opts.Objects); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	return c, nil
}

// TB is the part of testing.TB that [New] needs.
type TB interface {
	Helper()
	Cleanup(cleanup func())
	Fatalf(format string, args ...any)
}

// New is [Start] for a test, which it ends when that fails. The cluster is closed when the test ends. At most one Options
// may be given.
func New(t TB, opts ...Options) *Cluster {
	t.Helper()
	var o Options
	if len(opts) > 1 {
		t.Fatalf("backuptest.New: %d Options given, want at most one", len(opts))
	}
	if len(opts) == 1 {
		o = opts[0]
	}
	c, err := Start(o)
	if err != nil {
		t.Fatalf("backuptest.New: %v", err)
		return nil
	}
	c.test = t
	t.Cleanup(c.Close)
	return c
}

// Close ends all watches and hanging requests and refuses later ones as a server that is gone does. It may be called more
// than once.
func (c *Cluster) Close() {
	if c.server != nil {
		c.server.Close()
	}
}

// Config returns a new configuration for any real client: clients made from it talk to this cluster, without a socket and
// without a rate limit of their own. The caller may change it.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{Host: "http://cluster.invalid", Transport: c.RoundTripper(), QPS: -1}
}

// RoundTripper is the transport of [Cluster.Config]: counting, faults, server.
func (c *Cluster) RoundTripper() http.RoundTripper {
	if c.rt == nil {
		return noTransport{}
	}
	return c.rt
}

// Requests returns how many requests reached the transport, retries included, by verb and resource, for example
// "create volumesnapshots", "update pods/status", "watch volumesnapshotcontents" (once a watch) and, for paths that name
// no resource, "get /apis". The caller owns the map.
func (c *Cluster) Requests() map[string]int { return c.counter.Requests() }

// ResetRequests starts counting anew.
func (c *Cluster) ResetRequests() { c.counter.Reset() }

// Compact forgets all past changes: a watch or a continued list from an earlier resourceVersion then gets 410 Gone, as
// after a compaction of etcd. Running watches go on.
func (c *Cluster) Compact() { c.server.Compact() }

// EndWatches ends the running watches of a resource, for example "volumesnapshots", or all for "", as a restarting server
// or a proxy does: their clients see the end of the stream.
func (c *Cluster) EndWatches(resource string) { c.server.EndWatches(resource) }
