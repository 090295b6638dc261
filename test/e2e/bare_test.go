package e2e_test

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
)

// What the library may be slower than a bare watch: by this factor, or by this much.
const (
	slowerFactor = 1.2
	slowerBy     = 50 * time.Millisecond
)

// sightings are when handles were first seen. Its methods may be called from several goroutines.
type sightings struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (s *sightings) see(handle string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.seen[handle]; handle != "" && !known {
		if s.seen == nil {
			s.seen = map[string]time.Time{}
		}
		s.seen[handle] = now
	}
}

func (s *sightings) all() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.seen)
}

// watchBare is the shortest way to learn of cuts: one watch of all contents, by client-go alone. It ends with the test.
func watchBare(t *testing.T, a *app.App) *sightings {
	t.Helper()
	objects, _ := clients(t, a.User)
	contents := objects.Resource(snapshotv1.SchemeGroupVersion.WithResource("volumesnapshotcontents"))
	now, err := contents.List(t.Context(), metav1.ListOptions{Limit: 1})
	must(t, err)
	watch, err := contents.Watch(t.Context(), metav1.ListOptions{ResourceVersion: now.GetResourceVersion()})
	must(t, err)
	var s sightings
	var reader sync.WaitGroup
	reader.Go(func() {
		for event := range watch.ResultChan() {
			if content, ok := event.Object.(*unstructured.Unstructured); ok {
				handle, _, _ := unstructured.NestedString(content.Object, "status", "snapshotHandle")
				s.see(handle)
			}
		}
	})
	t.Cleanup(func() {
		watch.Stop()
		reader.Wait()
	})
	return &s
}

// answered are when the driver's first good answer about each snapshot of the application was ready, by handle.
func answered(t *testing.T, a *app.App) map[string]time.Time {
	t.Helper()
	calls, err := cluster(t).Stack.Driver().Calls(t.Context(), driver.CallFilter{Method: "CreateSnapshot", Claim: a.Pattern(), Code: "OK"})
	must(t, err)
	first := map[string]time.Time{}
	for _, call := range calls {
		if _, known := first[call.ID]; !known {
			first[call.ID] = call.Answered
		}
	}
	return first
}

// latencies are the times from the driver's answers to the sightings, sorted. Each answer must have been seen.
func latencies(t *testing.T, from, to map[string]time.Time) []time.Duration {
	t.Helper()
	var all []time.Duration
	for handle, answer := range from {
		seen, ok := to[handle]
		if !ok {
			t.Errorf("%s was never seen", handle)
		}
		all = append(all, seen.Sub(answer))
	}
	slices.Sort(all)
	return all
}

// percentile is the smallest value that p percent of the sorted values do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)*p+99)/100-1]
}
