package snapv6_test

import (
	"context"
	"fmt"
	"testing"

	v1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	fakev6 "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/fake"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReactorsThatAnswerNothing(t *testing.T) {
	t.Parallel()
	// snap-49 S8: a user's reactor that returns neither an object nor an error is an error, not an object without a name.
	clients := fakev6.NewSimpleClientset()
	clients.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	if vs, err := snapv6.New(clients).Snapshots().Get(t.Context(), "app", "x"); err == nil {
		t.Errorf("Get = %+v, nil, want an error", vs)
	}
}

func TestForeignEvents(t *testing.T) {
	t.Parallel()
	// S8: bookmarks have a version and no object; a status is an error; an object of another kind does not panic.
	w := watch.NewFakeWithChanSize(3, false)
	clients := fakev6.NewSimpleClientset()
	clients.PrependWatchReactor("*", clienttesting.DefaultWatchReactor(w, nil))
	open, err := snapv6.New(clients).Snapshots().Watch(t.Context(), "app", csisnapshot.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Stop()
	w.Action(watch.Bookmark, &v1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}})
	w.Action(watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"})
	w.Action(watch.Added, &v1.VolumeSnapshotClass{})
	if e := open.Decode(<-open.ResultChan()); e.Type != watch.Bookmark || e.ResourceVersion != "7" || e.Object.Name != "" || e.Err != nil {
		t.Errorf("bookmark: %+v", e)
	}
	for range 2 {
		if e := open.Decode(<-open.ResultChan()); e.Type != watch.Error || e.Err == nil {
			t.Errorf("event: %+v, want an error", e)
		}
	}
}

func ExampleNew() {
	class := &v1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Driver: "csi.example.dev", DeletionPolicy: v1.VolumeSnapshotContentDelete}
	client := snapv6.New(fakev6.NewSimpleClientset(class))
	got, err := client.Classes().Get(context.Background(), "", "fast")
	fmt.Println(got.Name, got.Driver, got.DeletionPolicy, err)
	// Output: fast csi.example.dev Delete <nil>
}
