package csisnapshot_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// The scenario of the measurement: pods of a few volumes each, the first half of the pods with hooks that take no time, and
// cuts that take a time of a uniform distribution, drawn in the order of the volumes. The storage is the only thing that takes
// time.
const (
	measuredVolumes = 3 // of each pod
	measuredSeed    = 5
	measuredMinCut  = 200 * time.Millisecond
	measuredMaxCut  = 4 * time.Second
)

// measuredPods and measuredHooked are the pods of the measurement, and those with hooks.
func measuredPods() int   { return race.Scaled(40, 14) }
func measuredHooked() int { return race.Scaled(20, 11) }

// measured is the scenario, and the slowest cut of each pod.
func measured() (builders []backuptest.Builder, scripts map[string]backuptest.Script, slowest []time.Duration) {
	rnd := rand.New(rand.NewPCG(measuredSeed, 0))
	scripts = map[string]backuptest.Script{}
	for p := range measuredPods() {
		var names []string
		var most time.Duration
		for v := range measuredVolumes {
			name := fmt.Sprintf("claim%02d-%d", p, v)
			after := measuredMinCut + time.Duration(rnd.Int64N(int64(measuredMaxCut-measuredMinCut)))
			names, most = append(names, name), max(most, after)
			scripts[name] = backuptest.Script{CutAfter: after}
		}
		builders = append(builders, claims(names...)...)
		if pod := fmt.Sprintf("pod%02d", p); p < measuredHooked() {
			builders = append(builders, hookedPod(pod, names...))
		} else {
			builders = append(builders, plainPod(pod, names...))
		}
		slowest = append(slowest, most)
	}
	return builders, scripts, slowest
}

// listSchedule is how long jobs take that are begun in their order, each as soon as one of the places is free, and then the
// last of all when none is under way.
func listSchedule(jobs []time.Duration, places int, last time.Duration) time.Duration {
	free := make([]time.Duration, places)
	for _, job := range jobs {
		slices.Sort(free)
		free[0] += job
	}
	return slices.Max(free) + last
}

// countReads counts what the clients of a process read.
type countReads struct {
	next  http.RoundTripper
	reads *atomic.Int64
}

func (c countReads) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		c.reads.Add(1)
	}
	return c.next.RoundTrip(r)
}

// S4, S5, S3: how long 40 pods with 3 volumes each take, with one pod frozen at a time and with ten: no longer than the batches
// must take one after the other, each pod frozen for its slowest cut, and with a few reads for all.
func TestCutMeasured(t *testing.T) {
	t.Parallel()
	for _, frozen := range []int{1, 10} {
		t.Run(fmt.Sprintf("MaxFrozenPods %d", frozen), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				builders, scripts, slowest := measured()
				l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, builders...)
				var reads atomic.Int64
				config := l.cluster.Config()
				config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return countReads{rt, &reads} })
				s, err := csisnapshot.New(kubernetes.NewForConfigOrDie(config), csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(config)),
					csisnapshot.Options{Quiescer: l.quiescer, Intents: l.intents, MaxFrozenPods: frozen})
				if err != nil {
					t.Fatal(err)
				}
				plan, err := s.Plan(t.Context(), "app")
				if err != nil {
					t.Fatal(err)
				}
				report, err := s.Cut(t.Context(), cutOwner, plan)
				if err != nil {
					t.Fatal(err)
				}
				checkWhole(t, report)
				ideal := listSchedule(slowest[:measuredHooked()], frozen, slices.Max(slowest[measuredHooked():]))
				t.Logf("%d pods of %d volumes, %d at a time: %v in all, %.3f times the list schedule's %v; %d reads",
					measuredPods(), measuredVolumes, frozen, report.Duration, float64(report.Duration)/float64(ideal), ideal, reads.Load())
				if float64(report.Duration) > 1.05*float64(ideal) {
					t.Errorf("%v in all, want at most 1.05 times %v", report.Duration, ideal)
				}
				for p := range measuredHooked() {
					if got := podOf(t, report, fmt.Sprintf("pod%02d", p)).Frozen; got != slowest[p] {
						t.Errorf("pod %d was frozen for %v, want its slowest cut, %v", p, got, slowest[p])
					}
				}
				// Four lists for the plan; a list and two watches, the adoption, the claims; each hooked pod once; and what
				// time asks for: one safety read a minute, of one list and the contents not cut.
				if most := 12 + int64(measuredHooked()) + 8*(1+int64(report.Duration/time.Minute)); reads.Load() > most {
					t.Errorf("%d reads, want at most %d", reads.Load(), most)
				}
			})
		})
	}
}

// bareWatch watches contents, as little as can be done, until ctx ends, and returns when the last of them got its handle.
func (l *cutLab) bareWatch(ctx context.Context) (last time.Time, err error) {
	gvr := schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotcontents"}
	open, err := dynamic.NewForConfigOrDie(l.cluster.Config()).Resource(gvr).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return last, err
	}
	defer open.Stop()
	cut := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return last, nil
		case e, ok := <-open.ResultChan():
			if !ok {
				return last, nil
			}
			content, _ := e.Object.(*unstructured.Unstructured)
			handle, found, err := unstructured.NestedString(content.Object, "status", "snapshotHandle")
			if err != nil {
				return last, err
			}
			if found && handle != "" && !cut[content.GetName()] {
				cut[content.GetName()], last = true, time.Now()
			}
		}
	}
}

// S2, S5: a pod with six volumes on a cluster with the default rates is thawed when the last handle is there, as a bare watch
// sees it, up to a tenth.
func TestCutMeasuredSixVolumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := numbered("c", 6)
		l := newCutLab(t, backuptest.ControllerOptions{Rate: backuptest.RealRate, Workers: backuptest.RealWorkers},
			append(claims(names...), hookedPod("db", names...))...)
		ctx, stop := context.WithCancel(t.Context())
		var last time.Time
		var watched error
		var watcher sync.WaitGroup
		watcher.Go(func() { last, watched = l.bareWatch(ctx) })
		synctest.Wait()
		report := l.mustCut(csisnapshot.Options{})
		synctest.Wait() // the bare watch, too, has been told of what happened by now
		stop()
		watcher.Wait()
		if watched != nil {
			t.Fatal(watched)
		}
		checkWhole(t, report)
		bare := last.Sub(l.quiescer.start) - l.quiescer.find(t, "db", "pre", 0).end
		frozen := podOf(t, report, "db").Frozen
		t.Logf("pod with 6 volumes at the default rates: frozen for %v, %.3f times the bare watch's %v", frozen, float64(frozen)/float64(bare), bare)
		if bare <= 0 || float64(frozen) > 1.1*float64(bare) {
			t.Errorf("frozen for %v, want at most 1.1 times %v", frozen, bare)
		}
	})
}
