package csisnapshot_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestJudgeTakesNoContentOfAnUnknownSnapshot(t *testing.T) {
	t.Parallel()
	// S2: a content is found by the UID; by name only where neither side has one, as on fakes.
	ref := csisnapshot.Ref{Namespace: "app", Name: "s"}
	content := func(uid types.UID) *csisnapshot.Content {
		return &csisnapshot.Content{
			Meta:     csisnapshot.Meta{Name: "c"},
			Snapshot: csisnapshot.SnapshotRef{Namespace: "app", Name: "s", UID: uid},
			Status:   &csisnapshot.ContentStatus{Handle: new("h")},
		}
	}
	snapshot := func(uid types.UID) *csisnapshot.Snapshot {
		return &csisnapshot.Snapshot{Meta: csisnapshot.Meta{Namespace: "app", Name: "s", UID: uid}}
	}
	tests := map[string]struct {
		reason   string
		snapshot *csisnapshot.Snapshot
		content  *csisnapshot.Content
		cut      bool
	}{
		"none of the name, content with a UID":       {"it may be an earlier snapshot's", nil, content("old"), false},
		"none of the name, content without a UID":    {"nobody knows what it is of", nil, content(""), false},
		"snapshot with a UID, content of another":    {"it is an earlier snapshot's", snapshot("new"), content("old"), false},
		"snapshot with a UID, content without":       {"it is bound to no snapshot yet", snapshot("new"), content(""), false},
		"snapshot without a UID, content with one":   {"it is of an object with a UID", snapshot(""), content("old"), false},
		"snapshot and content without a UID":         {"the name decides on fakes", snapshot(""), content(""), true},
		"snapshot with a UID, content with the same": {"the UID decides", snapshot("new"), content("new"), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := csisnapshot.Judge(csisnapshot.NewState(csisnapshot.Target{Ref: ref}),
				csisnapshot.Look{Snapshot: tt.snapshot, Content: tt.content, Now: time.Unix(1, 0)})
			if got.Cut != tt.cut || got.Cut != (got.Handle != "") {
				t.Errorf("cut %v with handle %q, want %v: %s", got.Cut, got.Handle, tt.cut, tt.reason)
			}
		})
	}
}

func TestWaitTakesNoHandleOfAnEarlierSnapshot(t *testing.T) {
	t.Parallel()
	// S1 S2: the content that Release left of an earlier snapshot of the same name makes the new one neither cut nor ready,
	// however it is waited for, also while the snapshots cannot be listed.
	for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				names := csisnapshot.Names{}
				uid := backuptest.UIDOf("PersistentVolumeClaim", "app", "a")
				object := names.NewSnapshot(cutOwner, csisnapshot.ClaimRef{Namespace: "app", Name: "a", UID: uid}, "")
				old := backuptest.Snapshot{Namespace: "app", Name: object.Name, Claim: "a", UID: "old-uid", Handle: "old-handle", Policy: "Retain"}
				now := backuptest.Snapshot{
					Namespace: "app", Name: object.Name, Claim: "a", UID: "new-uid", State: backuptest.SnapshotCreated,
					Labels: object.Labels, Annotations: object.Annotations,
				}
				l := newCutLab(t, backuptest.ControllerOptions{}, claims("a")...)
				l.stop() // nothing is ever made of the new one
				if err := l.cluster.Add(old.VSC(), now.VS()); err != nil {
					t.Fatal(err)
				}
				l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: "volumesnapshots", Code: 500, Nth: 1, Times: 3})
				s := l.snapshotter(csisnapshot.Options{Wait: csisnapshot.WaitOptions{Mode: mode, Timeout: time.Minute}})
				l.all.Go(func() { // an event of the old content before the snapshot could be read
					time.Sleep(100 * time.Millisecond)
					patch := []byte(`{"metadata":{"annotations":{"someone":"touches it"}}}`)
					if _, err := l.raw("volumesnapshotcontents").Patch(t.Context(), old.VSC().GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
						t.Error(err)
					}
				})
				out, err := s.Wait(t.Context(), cutOwner, csisnapshot.StageCut, object.Ref())
				if err != nil {
					t.Fatal(err)
				}
				if !errors.Is(out[0].Err, csisnapshot.ErrTimeout) || out[0].Result.UID != "new-uid" || out[0].Result.Handle != "" {
					t.Errorf("Wait = %+v, %v, want a timeout of new-uid without a handle", out[0].Result, out[0].Err)
				}
			})
		})
	}
}

// lateBody delivers what it reads some time later, as a proxy that buffers does.
type lateBody struct {
	io.ReadCloser

	chunks chan lateChunk
	rest   []byte
}

type lateChunk struct {
	at   time.Time
	data []byte
	err  error
}

func newLateBody(b io.ReadCloser, late time.Duration) *lateBody {
	l := &lateBody{ReadCloser: b, chunks: make(chan lateChunk, 1000)}
	go func() {
		for {
			buf := make([]byte, 32<<10)
			n, err := b.Read(buf)
			l.chunks <- lateChunk{time.Now().Add(late), buf[:n], err}
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *lateBody) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		c := <-l.chunks
		if c.err != nil {
			return 0, c.err
		}
		time.Sleep(time.Until(c.at))
		l.rest = c.data
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func TestCutIsNotReplacedByALateEvent(t *testing.T) {
	t.Parallel()
	// S1 S2: events come 3 s late. The owner's earlier snapshot is being deleted when Cut begins; the new one is made when it
	// is gone, and then comes the event of the old one's last change.
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"a": {CutAfter: 20 * time.Second}}}, claims("a")...)
		first := l.mustCut(csisnapshot.Options{}).Volumes[0]
		time.Sleep(time.Minute)
		snapshots := l.raw("volumesnapshots").Namespace("app")
		patch := func(p string) {
			if _, err := snapshots.Patch(t.Context(), first.Snapshot, types.MergePatchType, []byte(p), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		}
		patch(`{"metadata":{"finalizers":["example.com/hold"]}}`)
		if err := snapshots.Delete(t.Context(), first.Snapshot, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		config := l.cluster.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil && r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/volumesnapshots") {
					resp.Body = newLateBody(resp.Body, 3*time.Second)
				}
				return resp, err
			})
		})
		core, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		s, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l.all.Go(func() {
			time.Sleep(6 * time.Second)
			patch(`{"metadata":{"annotations":{"someone":"touches it"}}}`)
			time.Sleep(100 * time.Millisecond)
			patch(`{"metadata":{"finalizers":null}}`)
		})
		plan, err := s.Plan(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		report, err := s.Cut(t.Context(), cutOwner, plan)
		time.Sleep(time.Minute) // the watches end late too
		if err != nil {
			t.Fatal(err)
		}
		v := volumeOf(t, report, "a")
		if v.Err != nil || !v.IsCut() || v.SnapshotUID == first.SnapshotUID {
			t.Errorf("claim a: snapshot %s (before %s), %v; the storage has %v", v.SnapshotUID, first.SnapshotUID, v.Err, l.stored())
		}
	})
}
