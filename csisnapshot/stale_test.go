package csisnapshot_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

var staleSnapshots = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}

// X6, all-10: a process whose lists are those of before the first one finds by the names what that has made: it creates
// nothing a second time.
func TestCutOnStaleLists(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"volumesnapshots", "volumesnapshotcontents"} {
		synctest.Test(t, func(t *testing.T) {
			l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b", "c"), hookedPod("pa", "a"))...)
			l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: resource, Action: backuptest.FaultStale})
			checkWhole(t, l.mustCut(csisnapshot.Options{}))
			l.cluster.Mark("again")
			checkWhole(t, l.mustCut(csisnapshot.Options{}))
			if want := []string{"a", "b", "c"}; !slices.Equal(l.stored(), want) {
				t.Errorf("stale lists of %s: the storage has snapshots of %v, want one of each of %v", resource, l.stored(), want)
			}
			for _, e := range l.cluster.Log().After("again").Of(backuptest.Request{Verb: "create", Resource: "volumesnapshots"}) {
				if e.Code != 409 {
					t.Errorf("stale lists of %s: %v, want that it exists", resource, e)
				}
			}
			backuptest.Check(t, l.cluster.Log().After("again").None(backuptest.Request{Verb: "delete"}))
		})
	}
}

// X6, all-10, S10: a process that knows of a snapshot only by a stale read does not delete the one that has its name now.
func TestDestroyOnStaleReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, claims("a")...)
		report := l.mustCut(csisnapshot.Options{})
		ref := csisnapshot.Ref{Namespace: "app", Name: report.Volumes[0].Snapshot}

		// A first process reads everything and is killed before it deletes anything: its reads are those of the second.
		l.cluster.Fault(backuptest.Fault{Resource: "volumesnapshots", Verb: "get", Action: backuptest.FaultStale})
		destroy := func(effects int) {
			ctx, p := backuptest.NewProcess(t.Context(), map[int]backuptest.Trouble{effects: backuptest.CrashBefore})
			defer p.Kill()
			ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			config := p.Config(l.cluster.Config())
			s, err := csisnapshot.New(kubernetes.NewForConfigOrDie(config), csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(config)), csisnapshot.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if report, err := s.Destroy(ctx, cutOwner, ref); err == nil && report.Items[0].Gone {
				t.Errorf("Destroy = %+v, and something has that name", report.Items[0])
			}
		}
		destroy(1)
		l.stop() // nobody else deletes anything, or takes another snapshot
		l.all.Wait()
		snapshots := dynamic.NewForConfigOrDie(l.cluster.Config()).Resource(staleSnapshots).Namespace("app")
		list, err := snapshots.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%d snapshots, %v", len(list.Items), err)
		}
		old := list.Items[0]
		old.SetFinalizers(nil)
		if _, err := snapshots.Update(t.Context(), &old, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := snapshots.Delete(t.Context(), ref.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		fresh := old.DeepCopy()
		fresh.SetUID("")
		fresh.SetResourceVersion("")
		made, err := snapshots.Create(t.Context(), fresh, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}

		l.cluster.Mark("second")
		destroy(0)
		if len(l.cluster.Log().After("second").Of(backuptest.Request{Verb: "delete", Resource: "volumesnapshots"})) == 0 {
			t.Fatal("nothing was deleted: the test lost its hold on the reads")
		}
		list, err = snapshots.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].GetUID() != made.GetUID() || list.Items[0].GetDeletionTimestamp() != nil {
			t.Errorf("snapshots %v, %v; want the new one, untouched", list.Items, err)
		}
	})
}
