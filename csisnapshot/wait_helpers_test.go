package csisnapshot_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// adapters make a snapshot client on a cluster; every test of waiting and removing runs on each.
var adapters = map[string]func(*testing.T, *rest.Config) csisnapshot.Client{
	"dynamic": func(t *testing.T, config *rest.Config) csisnapshot.Client {
		t.Helper()
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return csisnapshot.NewDynamic(client)
	},
	"snapv6": func(t *testing.T, config *rest.Config) csisnapshot.Client {
		t.Helper()
		client, err := versioned.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return snapv6.New(client)
	},
}

// bubble is a test in a bubble on one adapter.
type bubble struct {
	*testing.T

	adapter string
}

// onEachAdapter runs the test in a bubble for each adapter.
func onEachAdapter(t *testing.T, test func(t bubble)) {
	t.Helper()
	for name := range adapters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(bubble{T: t, adapter: name}) })
		})
	}
}

// waitLab is a cluster with claims data-000 and so on in namespace app, a class, and a controller that may be started.
type waitLab struct {
	*testing.T

	cluster    *backuptest.Cluster
	client     csisnapshot.Client
	counter    *apirequest.Counter // of the client's requests, not of the controller's
	driver     *backuptest.Driver
	controller *backuptest.SnapshotController
	start      time.Time
	trouble    func(*http.Request, apirequest.Info) error // met by the client's requests, not by the controller's
	names      csisnapshot.Names
	owner      csisnapshot.Owner
	stop       context.CancelFunc
	all        sync.WaitGroup
}

// answeredInTime gives up on requests, except watches, that have no answer after ten seconds, as the real controllers' do: a
// fault that holds requests meets the controller's, too, and would keep it from its work for ever.
func answeredInTime(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if apirequest.Parse(r).Verb == "watch" {
			return next.RoundTrip(r)
		}
		ctx, giveUp := context.WithCancel(r.Context())
		defer time.AfterFunc(10*time.Second, giveUp).Stop() // the answer's body is read under ctx
		return next.RoundTrip(r.WithContext(ctx))
	})
}

func newWaitLab(t *testing.T, adapter string, opts backuptest.ControllerOptions, claims int) *waitLab {
	t.Helper()
	builders := []backuptest.Builder{backuptest.SnapshotClass{}}
	for i := range claims {
		builders = append(builders, backuptest.Claim{Namespace: "app", Name: claimName(i)})
	}
	cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(builders...)})
	controllers := cluster.Config()
	controllers.Wrap(answeredInTime)
	control, err := dynamic.NewForConfig(controllers)
	if err != nil {
		t.Fatal(err)
	}
	config := cluster.Config()
	counter := &apirequest.Counter{}
	config.Wrap(counter.Wrap)
	l := &waitLab{
		T: t, cluster: cluster, counter: counter, driver: backuptest.NewDriver(backuptest.DriverOptions{}),
		start: time.Now(), owner: csisnapshot.Owner{UID: "0c2e9e0a-5b2f-4d55-a1c8-7a2f8f1b7c11", Namespace: "backups", Name: "nightly"},
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if l.trouble != nil {
				if err := l.trouble(r, apirequest.Parse(r)); err != nil {
					return nil, err
				}
			}
			return next.RoundTrip(r)
		})
	})
	l.client = adapters[adapter](t, config)
	l.controller = backuptest.NewSnapshotController(control, l.driver, opts)
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	l.all.Go(func() {
		if err := l.controller.Run(ctx); err != nil {
			t.Errorf("controller: %v", err)
		}
	})
	t.Cleanup(l.stopController)
	return l
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stopController ends the controller, as when it is not installed.
func (l *waitLab) stopController() { l.stop(); l.all.Wait() }

func claimName(i int) string { return fmt.Sprintf("data-%03d", i) }

func claimUID(i int) types.UID {
	return backuptest.UIDOf("PersistentVolumeClaim", "app", claimName(i))
}

// object is the snapshot of claim i as the library creates it.
func (l *waitLab) object(i int) csisnapshot.Snapshot {
	return l.names.NewSnapshot(l.owner, csisnapshot.ClaimRef{Namespace: "app", Name: claimName(i), UID: claimUID(i)}, backuptest.DefaultSnapshotClass)
}

func (l *waitLab) ref(i int) csisnapshot.Ref { return l.object(i).Ref() }

// create creates the snapshot of claim i.
func (l *waitLab) create(i int) csisnapshot.Snapshot {
	l.Helper()
	vs, err := l.client.Snapshots().Create(l.Context(), l.object(i))
	if err != nil {
		l.Fatalf("create: %v", err)
	}
	return vs
}

func (l *waitLab) waiter(opts csisnapshot.WaitOptions) *csisnapshot.Waiter {
	l.Helper()
	w, err := csisnapshot.NewWaiter(l.client, opts, l.owner, l.names, []string{"app"})
	if err != nil {
		l.Fatal(err)
	}
	return w
}

// running is a waiter that runs and is open.
type running struct {
	*csisnapshot.Waiter

	lab  *waitLab
	done chan error
}

// run starts a waiter and waits until it is open.
func (l *waitLab) run(ctx context.Context, opts csisnapshot.WaitOptions) *running {
	l.Helper()
	r := &running{Waiter: l.waiter(opts), lab: l, done: make(chan error, 1)}
	l.all.Go(func() { r.done <- r.Run(ctx) })
	<-r.Opened()
	return r
}

// add creates the snapshot of claim i and waits for it.
func (r *running) add(i int, until csisnapshot.Stage) *csisnapshot.Pending {
	r.lab.Helper()
	vs := r.lab.create(i)
	return r.Add(csisnapshot.Target{Snapshot: &vs, Driver: backuptest.DefaultDriver, Created: true}, until)
}

// finish closes the waiter and waits for its end.
func (r *running) finish() error {
	r.Close()
	return <-r.done
}

// at is the time since the start of the lab.
func (l *waitLab) at() time.Duration { return time.Since(l.start) }

// scripts gives every claim the same script.
func scripts(n int, s backuptest.Script) backuptest.ControllerOptions {
	all := map[string]backuptest.Script{}
	for i := range n {
		all[claimName(i)] = s
	}
	return backuptest.ControllerOptions{Scripts: all}
}
