package csisnapshot_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// B4: Plan and Cut work on client-go's bare fakes, which give no UIDs and no resource versions and send no bookmarks.
func TestCutOnBareFakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := runtime.NewScheme() // the fake adds kinds to it
		if err := scheme.AddToScheme(own); err != nil {
			t.Fatal(err)
		}
		gvr := func(resource string) schema.GroupVersionResource {
			return schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: resource}
		}
		pod := hookedPod("db", "a", "b")
		builders := append(claims("a", "b", "w"), pod)
		objects := backuptest.Objects(append(builders, backuptest.SnapshotClass{})...)
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(own, map[schema.GroupVersionResource]string{
			gvr("volumesnapshots"): "VolumeSnapshotList", gvr("volumesnapshotcontents"): "VolumeSnapshotContentList",
			gvr("volumesnapshotclasses"): "VolumeSnapshotClassList",
		}, objects...)
		core := fake.NewClientset(backuptest.Objects(builders...)...)
		driver := backuptest.NewDriver(backuptest.DriverOptions{})
		controller := backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{
			Scripts: map[string]backuptest.Script{"b": {CutAfter: 2 * time.Second}},
		})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = controller.Run(ctx) })
		defer all.Wait()
		defer stop()

		q := &scriptedQuiescer{start: time.Now()}
		s, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{Quiescer: q, Intents: &memoryDoc{}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second Cut adopts
			plan, err := s.Plan(t.Context(), "app")
			if err != nil {
				t.Fatal(err)
			}
			report, err := s.Cut(t.Context(), cutOwner, plan)
			if err != nil {
				t.Fatal(err)
			}
			checkWhole(t, report)
		}
		if got := q.order(); got != "db/pre db/post" {
			t.Errorf("hooks ran %q", got)
		}
		var stored []string
		for _, held := range driver.Snapshots() {
			stored = append(stored, held.Claim.Name)
		}
		slices.Sort(stored)
		if want := []string{"a", "b", "w"}; !slices.Equal(stored, want) {
			t.Errorf("the storage has snapshots of %v, want %v", stored, want)
		}
	})
}
