package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	runtimepkg "runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	fakev6 "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
)

// fakeControl is what a user's test does in place of the snapshot-controller, on a generated fake: it has no UIDs and no
// versions, and its lists and watches leave a gap.
type fakeControl struct {
	client csisnapshot.Client
	// cut makes the content with a handle, ready the snapshot's status.
	cut, ready func(ctx context.Context, vs csisnapshot.Snapshot) error
}

var fakeGroup = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}

// fakes are the bare generated fakes that users have in their tests.
var fakes = map[string]func() fakeControl{
	"client/v6": v6Fake,
	"dynamic":   dynamicFake,
}

func v6Fake() fakeControl {
	clients := fakev6.NewSimpleClientset()
	api := clients.SnapshotV1()
	return fakeControl{
		client: snapv6.New(clients),
		cut: func(ctx context.Context, vs csisnapshot.Snapshot) error {
			_, err := api.VolumeSnapshotContents().Create(ctx, &v1.VolumeSnapshotContent{
				ObjectMeta: metav1.ObjectMeta{Name: "content-of-" + vs.Name},
				Spec: v1.VolumeSnapshotContentSpec{
					DeletionPolicy:    v1.VolumeSnapshotContentDelete,
					VolumeSnapshotRef: corev1.ObjectReference{Namespace: vs.Namespace, Name: vs.Name, UID: vs.UID},
				},
				Status: &v1.VolumeSnapshotContentStatus{SnapshotHandle: new("handle-" + vs.Name)},
			}, metav1.CreateOptions{})
			return err
		},
		ready: func(ctx context.Context, vs csisnapshot.Snapshot) error {
			o, err := api.VolumeSnapshots(vs.Namespace).Get(ctx, vs.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			o.Status = &v1.VolumeSnapshotStatus{ReadyToUse: new(true), BoundVolumeSnapshotContentName: new("content-of-" + vs.Name)}
			_, err = api.VolumeSnapshots(vs.Namespace).UpdateStatus(ctx, o, metav1.UpdateOptions{})
			return err
		},
	}
}

func dynamicFake() fakeControl {
	kinds := map[schema.GroupVersionResource]string{
		fakeGroup.WithResource("volumesnapshots"): "VolumeSnapshotList", fakeGroup.WithResource("volumesnapshotcontents"): "VolumeSnapshotContentList",
		fakeGroup.WithResource("volumesnapshotclasses"): "VolumeSnapshotClassList",
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	plain := csisnapshot.NewDynamic(client)
	contents, snapshots := client.Resource(fakeGroup.WithResource("volumesnapshotcontents")), client.Resource(fakeGroup.WithResource("volumesnapshots"))
	return fakeControl{
		client: plain,
		cut: func(ctx context.Context, vs csisnapshot.Snapshot) error {
			_, err := plain.Contents().Create(ctx, csisnapshot.Content{
				Meta:     csisnapshot.Meta{Name: "content-of-" + vs.Name},
				Snapshot: csisnapshot.SnapshotRef{Namespace: vs.Namespace, Name: vs.Name, UID: vs.UID}, DeletionPolicy: csisnapshot.DeletionPolicyDelete,
			})
			if err != nil {
				return err
			}
			o, err := contents.Get(ctx, "content-of-"+vs.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			o.Object["status"] = map[string]any{"snapshotHandle": "handle-" + vs.Name}
			_, err = contents.UpdateStatus(ctx, o, metav1.UpdateOptions{})
			return err
		},
		ready: func(ctx context.Context, vs csisnapshot.Snapshot) error {
			o, err := snapshots.Namespace(vs.Namespace).Get(ctx, vs.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			o.Object["status"] = map[string]any{"readyToUse": true, "boundVolumeSnapshotContentName": "content-of-" + vs.Name}
			_, err = snapshots.Namespace(vs.Namespace).UpdateStatus(ctx, o, metav1.UpdateOptions{})
			return err
		},
	}
}

func TestWaitOnBareFakes(t *testing.T) {
	t.Parallel()
	// B4 S3: waits work on the generated fakes, which give no UID, no version, and no initial events.
	for name, newFake := range fakes {
		for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { waitOnFake(t, newFake(), mode) })
			})
		}
	}
}

var (
	fakeOwner = csisnapshot.Owner{UID: "owner-1", Name: "nightly"}
	fakeNames = csisnapshot.Names{}
)

// fakeObject is the nth snapshot.
func fakeObject(n int) csisnapshot.Snapshot {
	name := fmt.Sprintf("data-%d", n)
	claim := csisnapshot.ClaimRef{Namespace: "app", Name: name}
	claim.UID = "uid-of-" + "claim"
	vs := fakeNames.NewSnapshot(fakeOwner, claim, "class")
	vs.Name += fmt.Sprint(n)
	return vs
}

func waitOnFake(t *testing.T, f fakeControl, mode csisnapshot.Mode) {
	t.Helper()
	w, err := csisnapshot.NewWaiter(f.client, csisnapshot.WaitOptions{Mode: mode}, fakeOwner, fakeNames, []string{"app"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	<-w.Opened()
	var pending []*csisnapshot.Pending
	for n := range 3 {
		vs, err := f.client.Snapshots().Create(t.Context(), fakeObject(n))
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, w.Add(csisnapshot.Target{Snapshot: &vs, Created: true}, csisnapshot.StageReady))
		go func() {
			time.Sleep(time.Duration(n+1) * 2 * time.Second)
			if err := errors.Join(f.cut(t.Context(), vs)); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * time.Second)
			if err := f.ready(t.Context(), vs); err != nil {
				t.Error(err)
			}
		}()
	}
	start := time.Now()
	for n, p := range pending {
		res, err := p.Wait(t.Context(), csisnapshot.StageCut)
		want := time.Duration(n+1) * 2 * time.Second
		if took := time.Since(start); err != nil || res.Handle != "handle-"+fakeObject(n).Name || took < want || took > want+time.Second {
			t.Errorf("cut after %v: %+v, %v, want handle after %v", took, res, err, want)
		}
	}
	for _, p := range pending {
		if res, err := p.Wait(t.Context(), csisnapshot.StageReady); err != nil || !res.Ready {
			t.Errorf("ready: %+v, %v", res, err)
		}
	}
	w.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWaitHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	// S8: a server that asks for time gets it.
	synctest.Test(t, func(t *testing.T) {
		clients := fakev6.NewSimpleClientset()
		start := time.Now()
		var rounds []time.Duration
		clients.PrependReactor("list", "volumesnapshots", func(clienttesting.Action) (bool, runtime.Object, error) {
			rounds = append(rounds, time.Since(start))
			return true, nil, apierrors.NewTooManyRequests("busy", 7)
		})
		opts := csisnapshot.WaitOptions{Mode: csisnapshot.ModePoll, MaxWait: 20 * time.Second}
		w, err := csisnapshot.NewWaiter(snapv6.New(clients), opts, fakeOwner, fakeNames, []string{"app"})
		if err != nil {
			t.Fatal(err)
		}
		outcomes := w.Wait(t.Context(), []csisnapshot.Target{{Ref: csisnapshot.Ref{Namespace: "app", Name: "x"}, Snapshot: &csisnapshot.Snapshot{}, Created: true}}, csisnapshot.StageCut)
		if !errors.Is(outcomes[0].Err, csisnapshot.ErrTimeout) || !apierrors.IsTooManyRequests(outcomes[0].Err) {
			t.Errorf("error %v, want a timeout that tells of the server's trouble", outcomes[0].Err)
		}
		if want := []time.Duration{time.Second, 8 * time.Second, 15 * time.Second}; !slices.Equal(rounds, want) {
			t.Errorf("rounds at %v, want %v", rounds, want)
		}
	})
}

func TestWaitGoroutines(t *testing.T) {
	// S3 snap-6: the number of goroutines does not depend on the number of snapshots.
	synctest.Test(t, func(t *testing.T) {
		f := v6Fake()
		w, err := csisnapshot.NewWaiter(f.client, csisnapshot.WaitOptions{}, fakeOwner, fakeNames, []string{"app"})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- w.Run(t.Context()) }()
		<-w.Opened()
		var pending []*csisnapshot.Pending
		counts := map[int]int{}
		for n := range 300 {
			vs := fakeObject(n)
			pending = append(pending, w.Add(csisnapshot.Target{Snapshot: &vs, Created: true}, csisnapshot.StageReady))
			synctest.Wait()
			counts[runtimepkg.NumGoroutine()]++
		}
		if len(counts) != 1 {
			t.Errorf("goroutines, by number of times seen: %v", counts)
		}
		for _, p := range pending {
			p.Drop()
			if _, err := p.Outcome(csisnapshot.StageReady); !errors.Is(err, csisnapshot.ErrCanceled) {
				t.Errorf("dropped: %v", err)
			}
		}
		w.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWaitOnBareFakesDeleted(t *testing.T) {
	t.Parallel()
	// S8 B4: on fakes, too, a deletion is known within one event.
	for name, newFake := range fakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				w, err := csisnapshot.NewWaiter(f.client, csisnapshot.WaitOptions{}, fakeOwner, fakeNames, []string{"app"})
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() { done <- w.Run(t.Context()) }()
				<-w.Opened()
				vs, err := f.client.Snapshots().Create(t.Context(), fakeObject(0))
				if err != nil {
					t.Fatal(err)
				}
				p := w.Add(csisnapshot.Target{Snapshot: &vs, Created: true}, csisnapshot.StageReady)
				if err := f.client.Snapshots().Delete(t.Context(), "app", vs.Name, csisnapshot.Preconditions{}); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if _, err := p.Wait(t.Context(), csisnapshot.StageCut); !errors.Is(err, csisnapshot.ErrDeleted) || time.Since(start) > 0 {
					t.Errorf("after %v: %v, want ErrDeleted at once", time.Since(start), err)
				}
				w.Close()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
