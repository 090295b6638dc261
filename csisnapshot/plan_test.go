package csisnapshot_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
)

// veleroHooks reads Velero's annotations and only logs what it would run.
type veleroHooks struct{ *scriptedQuiescer }

func (veleroHooks) Hooks(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
	hooks, err := podexec.Annotations{}.Hooks(pod)
	for i := range hooks.Pre {
		hooks.Pre[i].Name = "pre"
	}
	for i := range hooks.Post {
		hooks.Post[i].Name = "post"
	}
	return hooks, err
}

const shopPlan = `batch 1 (hooks)
  pod cache-0 (hooks)
  volume data-cache-0 (cache-0)  class csi-delete  driver csi.example.dev
batch 2 (hooks)
  pod cache-1 (hooks)
  volume data-cache-1 (cache-1)  class csi-delete  driver csi.example.dev
batch 3 (hooks)
  pod cache-2 (hooks)
  volume data-cache-2 (cache-2)  class csi-delete  driver csi.example.dev
batch 4 (hooks)
  pod pg-0 (hooks)
  volume pg-data (pg-0)  class csi-delete  driver csi.example.dev
  volume pg-wal (pg-0)  class csi-delete  driver csi.example.dev
batch 5 (no hooks)
  pod web-1
  pod web-2
  pod worker-pending
  volume media (web-1, web-2)  class csi-delete  driver csi.example.dev
  volume orphan (worker-pending)  class csi-delete  driver csi.example.dev
skipped legacy: not CSI (nfs)
skipped pending: not bound (Pending)
`

// S4, S5, S12: the plan of a namespace taken from a real API server, and its Cut.
func TestPlanOfARealNamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newBareLab(t, backuptest.ControllerOptions{})
		dump, err := os.Open("../backuptest/testdata/cluster-dump.json")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dump.Close() }()
		if _, err := l.cluster.Load(dump); err != nil {
			t.Fatal(err)
		}
		s := l.snapshotter(csisnapshot.Options{Quiescer: veleroHooks{l.quiescer}, Intents: l.intents})
		synctest.Wait() // the controller's own requests are done
		l.cluster.ResetRequests()
		plan, err := s.Plan(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(shopPlan, plan.String()); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
		// S3: one list per kind, so that pods are listed once for the namespace, whatever its volumes and batches (snap-32).
		want := map[string]int{"list pods": 1, "list persistentvolumeclaims": 1, "list persistentvolumes": 1, "list volumesnapshotclasses": 1}
		if diff := cmp.Diff(want, l.cluster.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		report, err := s.Cut(t.Context(), cutOwner, plan)
		if err != nil {
			t.Fatal(err)
		}
		checkWhole(t, report)
		if n := l.cluster.Requests()["list pods"]; n != 1 {
			t.Errorf("pods were listed %d times, want once for the plan and never for its batches", n)
		}
		order := "cache-0/pre cache-1/pre cache-2/pre pg-0/pre pg-0/post"
		if got := l.quiescer.order(); got != order {
			t.Errorf("hooks ran %q, want %q", got, order)
		}
	})
}

// S3, S8: a list of many pages takes as long as they do, and is begun again when it expires between two of them.
func TestPlanReadsClassesPageByPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		builders := claims("a")
		for i := range 501 { // one more than a page
			builders = append(builders, backuptest.SnapshotClass{Name: fmt.Sprintf("class-%03d", i), Driver: secondDriver})
		}
		l := newCutLab(t, backuptest.ControllerOptions{}, builders...)
		const classes = "volumesnapshotclasses"
		l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: classes, Nth: 2, Code: 410, Reason: metav1.StatusReasonExpired})
		l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: classes, Latency: 20 * time.Second})
		synctest.Wait()
		l.cluster.ResetRequests()
		plan, err := l.snapshotter(csisnapshot.Options{}).Plan(t.Context(), "app")
		if err != nil || plan.Err() != nil || len(plan.Batches) != 1 {
			t.Fatalf("Plan = %v, %v", plan, err)
		}
		if got := l.cluster.Requests()["list "+classes]; got != 4 {
			t.Errorf("%d lists of classes, want a page, one that expired, and two pages", got)
		}
	})
}

// A namespace that does not exist, and a cluster without the snapshot API, are clear errors, at once.
func TestPlanErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		opts      backuptest.Options
		namespace string
		fault     *backuptest.Fault
		want      error
		text      string
	}{
		"unknown namespace":  {namespace: "nowhere", want: csisnapshot.ErrNamespaceNotFound, text: "plan namespace nowhere: namespace not found"},
		"no snapshot API":    {opts: backuptest.Options{NoSnapshotCRDs: true}, namespace: "app", want: csisnapshot.ErrNoSnapshotAPI, text: "plan namespace app: the cluster has no API snapshot.storage.k8s.io/v1"},
		"no namespace given": {text: "plan: namespace is empty"},
		"pods forbidden":     {namespace: "app", fault: &backuptest.Fault{Verb: "list", Resource: "pods", Code: 403}, text: "plan namespace app: list pods: "},
		"no answer": {
			namespace: "app", fault: &backuptest.Fault{Verb: "list", Resource: "pods", Action: backuptest.FaultRefuse},
			text: "plan namespace app: list pods: no answer within 1m0s",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tc.opts.Objects = backuptest.Objects(claims("a")...)
				l := &cutLab{t: t, cluster: backuptest.New(t, tc.opts), intents: &memoryDoc{}, quiescer: &scriptedQuiescer{}}
				if tc.fault != nil {
					l.cluster.Fault(*tc.fault)
				}
				plan, err := l.snapshotter(csisnapshot.Options{}).Plan(t.Context(), tc.namespace)
				if plan != nil || tc.want != nil && !errors.Is(err, tc.want) || err == nil || !strings.HasPrefix(err.Error(), tc.text) {
					t.Errorf("Plan = %v, %v, want an error that begins with %q", plan, err, tc.text)
				}
			})
		})
	}
}
