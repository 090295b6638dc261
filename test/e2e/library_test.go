package e2e_test

import (
	"net/http"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
)

// connected are the transports of clients, by which connections are closed that were not idle yet at the end of their test.
var connected sync.Map

func closeConnections() {
	connected.Range(func(transport, _ any) bool {
		utilnet.CloseIdleConnectionsFor(transport.(http.RoundTripper))
		return true
	})
}

// clients are those of one user; their connections end with the test, or with the last one.
func clients(t *testing.T, user string) (dynamic.Interface, kubernetes.Interface) {
	t.Helper()
	config := cluster(t).Stack.Config(user)
	connections, err := rest.HTTPClientFor(config)
	must(t, err)
	connected.Store(connections.Transport, nil)
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(connections.Transport) })
	objects, err := dynamic.NewForConfigAndClient(config, connections)
	must(t, err)
	core, err := kubernetes.NewForConfigAndClient(config, connections)
	must(t, err)
	return objects, core
}

// library is a snapshotter in the hands of the application's user, with the hooks of Velero's annotations.
func library(t *testing.T, a *app.App, opts csisnapshot.Options) *csisnapshot.Snapshotter {
	t.Helper()
	quiescer, err := podexec.New(cluster(t).Stack.Config(a.User), podexec.Options{})
	must(t, err)
	opts.Quiescer, opts.Intents = quiescer, operations.NewSlot(operations.NewMemoryStore(), "intents.json")
	objects, core := clients(t, a.User)
	snapshots, err := csisnapshot.New(core, csisnapshot.NewDynamic(objects), opts)
	must(t, err)
	return snapshots
}

// ownerOf is a backup of the application by that name.
func ownerOf(a *app.App, name string) csisnapshot.Owner {
	return csisnapshot.Owner{UID: types.UID(a.Namespace + "-" + name), Namespace: a.Namespace, Name: name}
}

// cut plans and cuts the whole application. Every volume must be cut.
func cut(t *testing.T, s *csisnapshot.Snapshotter, a *app.App, owner csisnapshot.Owner) *csisnapshot.Report {
	t.Helper()
	plan, err := s.Plan(t.Context(), a.Namespace)
	must(t, err)
	report, err := s.Cut(within(t, 2*bound), owner, plan)
	must(t, err)
	must(t, report.Err())
	return report
}

// refs are the snapshots of a report.
func refs(volumes []csisnapshot.VolumeReport) []csisnapshot.Ref {
	var all []csisnapshot.Ref
	for _, v := range volumes {
		all = append(all, csisnapshot.Ref{Namespace: v.Namespace, Name: v.Snapshot})
	}
	return all
}
