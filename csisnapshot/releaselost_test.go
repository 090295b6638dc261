package csisnapshot_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// raw is a snapshot resource in the hands of someone else.
func (l *cutLab) raw(resource string) dynamic.NamespaceableResourceInterface {
	l.t.Helper()
	client, err := dynamic.NewForConfig(l.cluster.Config())
	if err != nil {
		l.t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: resource})
}

func TestReleaseSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	// S10: a handle counts as kept only if its content was read with Retain; what goes before is ErrLost.

	tests := map[string]struct {
		reason string
		do     func(t *testing.T, l *cutLab, ref csisnapshot.Ref, content string)
		fault  backuptest.Fault
	}{
		"deleted while the patch fails": {
			reason: "the patch was not done, and the content goes with its snapshot",
			do: func(t *testing.T, l *cutLab, ref csisnapshot.Ref, _ string) {
				t.Helper()
				time.Sleep(50 * time.Millisecond)
				if err := l.raw("volumesnapshots").Namespace("app").Delete(t.Context(), ref.Name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			},
			fault: backuptest.Fault{Verb: "patch", Resource: "volumesnapshotcontents", Code: 500, Nth: 1, Times: 1, Latency: 100 * time.Millisecond},
		},
		"content deleted before its snapshot was": {
			reason: "the snapshot still says that there was a physical one",
			do: func(t *testing.T, l *cutLab, _ csisnapshot.Ref, content string) {
				t.Helper()
				if err := l.raw("volumesnapshotcontents").Delete(t.Context(), content, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				patch := []byte(`{"metadata":{"finalizers":null}}`) // its finalizers hold it while the snapshot exists
				if _, err := l.raw("volumesnapshotcontents").Patch(t.Context(), content, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			},
			fault: backuptest.Fault{Verb: "get", Resource: "volumesnapshotcontents", Code: 500, Nth: 1, Times: 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, claims("a")...)
				report := l.mustCut(csisnapshot.Options{})
				time.Sleep(time.Minute)
				v := report.Volumes[0]
				ref := csisnapshot.Ref{Namespace: "app", Name: v.Snapshot}
				l.cluster.Fault(tt.fault)
				l.all.Go(func() { tt.do(t, l, ref, v.Content) })
				done, err := l.snapshotter(csisnapshot.Options{}).Release(t.Context(), cutOwner, ref)
				if !errors.Is(err, csisnapshot.ErrLost) {
					t.Errorf("Release = %+v, %v, want ErrLost; the storage holds %v: %s", done.Items, err, l.stored(), tt.reason)
				}
			})
		})
	}
}

func TestReleaseAfterAReleaseThatWasStopped(t *testing.T) {
	t.Parallel()
	// S10 X7: a Release was stopped when it had deleted the snapshot; a controller that had not seen Retain yet deletes the
	// content itself, and is behind with the snapshot. The next Release waits for that, and tells of no loss.
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, claims("a")...)
		v := l.mustCut(csisnapshot.Options{}).Volumes[0]
		time.Sleep(time.Minute)
		l.stop()
		l.all.Wait()
		snapshots, contents := l.raw("volumesnapshots").Namespace("app"), l.raw("volumesnapshotcontents")
		patch := func(resource dynamic.ResourceInterface, name, text string) {
			if _, err := resource.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		patch(contents, v.Content, `{"spec":{"deletionPolicy":"Retain"}}`)
		for _, err := range []error{
			snapshots.Delete(t.Context(), v.Snapshot, metav1.DeleteOptions{}),
			contents.Delete(t.Context(), v.Content, metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		patch(contents, v.Content, `{"metadata":{"finalizers":null}}`)
		l.all.Go(func() {
			time.Sleep(5 * time.Second)
			patch(snapshots, v.Snapshot, `{"metadata":{"finalizers":null}}`)
		})
		began := time.Now()
		report, err := l.snapshotter(csisnapshot.Options{}).Release(t.Context(), cutOwner, csisnapshot.Ref{Namespace: "app", Name: v.Snapshot})
		if err != nil || len(report.Items) != 1 || !report.Items[0].Gone || report.Items[0].Handle != "" {
			t.Errorf("Release = %+v, %v, want the snapshot gone, without a handle", report.Items, err)
		}
		if time.Since(began) < 5*time.Second {
			t.Errorf("it returned after %v, before the snapshot was gone", time.Since(began))
		}
	})
}

func TestReleaseDeletesOnlyTheContentThatSaysRetain(t *testing.T) {
	t.Parallel()
	// S10: someone sets the policy back after it was read: the content is not deleted by Release with its data.
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, claims("a")...)
		v := l.mustCut(csisnapshot.Options{}).Volumes[0]
		time.Sleep(time.Minute)
		config := l.cluster.Config()
		first := 0
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				mine := first == 0 && r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/volumesnapshotcontents/")
				if mine {
					patch := []byte(`{"spec":{"deletionPolicy":"Delete"}}`)
					if _, err := l.raw("volumesnapshotcontents").Patch(r.Context(), v.Content, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
						t.Error(err)
					}
				}
				resp, err := next.RoundTrip(r)
				if mine && err == nil {
					first = resp.StatusCode
				}
				return resp, err
			})
		})
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		core, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		s, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := s.Release(t.Context(), cutOwner, csisnapshot.Ref{Namespace: "app", Name: v.Snapshot})
		if first == http.StatusOK {
			t.Errorf("the content was deleted with the policy Delete; Release = %+v, %v", done.Items, err)
		}
		if first != http.StatusNotFound && (err == nil) != (len(l.stored()) == 1) { // else someone else deleted it
			t.Errorf("Release = %+v, %v after status %d; the storage holds %v", done.Items, err, first, l.stored())
		}
	})
}

func TestDestroyFindsTheOrphanBesideATrouble(t *testing.T) {
	t.Parallel()
	// S10: deleted means gone. One read of another snapshot fails once; the content that an earlier, stopped call left of
	// this one is found all the same.
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, claims("a", "b")...)
		report := l.mustCut(csisnapshot.Options{})
		s := l.snapshotter(csisnapshot.Options{})
		a, b := volumeOf(t, report, "a"), volumeOf(t, report, "b")
		refA, refB := csisnapshot.Ref{Namespace: "app", Name: a.Snapshot}, csisnapshot.Ref{Namespace: "app", Name: b.Snapshot}
		undo := l.cluster.Fault(backuptest.Fault{Verb: "delete", Resource: "volumesnapshotcontents", Code: 403})
		if _, err := s.Release(t.Context(), cutOwner, refB); err == nil {
			t.Fatal("the first call was not stopped")
		}
		undo()
		if _, err := l.raw("volumesnapshotcontents").Get(t.Context(), b.Content, metav1.GetOptions{}); err != nil {
			t.Fatalf("set-up: %v", err)
		}
		if _, err := s.Destroy(t.Context(), cutOwner, refA); err != nil {
			t.Fatal(err)
		}
		l.cluster.Fault(backuptest.Fault{Verb: "get", Resource: "volumesnapshots", Name: refA.Name, Code: 500, Nth: 1, Times: 1})
		done, err := s.Destroy(t.Context(), cutOwner, refA, refB)
		if _, left := l.raw("volumesnapshotcontents").Get(t.Context(), b.Content, metav1.GetOptions{}); left == nil || len(l.stored()) != 0 || err != nil {
			t.Errorf("Destroy = %+v, %v; content %s: %v; the storage holds %v", done.Items, err, b.Content, left, l.stored())
		}
	})
}
