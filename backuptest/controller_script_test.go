package backuptest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: an error may stand on one side alone, and goes there when the snapshot is ready.
func TestControllerErrorPlaces(t *testing.T) {
	t.Parallel()
	for place, want := range map[backuptest.ErrorPlace]struct{ content, snapshot bool }{
		backuptest.ErrorsOnBoth: {true, true}, backuptest.ErrorsOnContent: {true, false}, backuptest.ErrorsOnSnapshot: {false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, claimAndClass()...)
			l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{
				"data": {Errors: []backuptest.DriverError{{Text: "busy", Times: 2}}, ErrorsOn: place},
			}})
			vs := l.take("snap", "data", backuptest.DefaultSnapshotClass)
			l.wait(500 * time.Millisecond)
			content := l.get(contentsGVR, "", "snapcontent-"+string(vs.GetUID()))
			snapshot := l.get(snapshotsGVR, "app", "snap")
			if (errorText(content) != "") != want.content || (errorText(snapshot) != "") != want.snapshot {
				t.Errorf("place %d: content %q, snapshot %q; want %+v", place, errorText(content), errorText(snapshot), want)
			}
			l.wait(time.Minute)
			for _, object := range []string{"vs snap", "vsc snap"} {
				path := l.path(object)
				if last := path[len(path)-1]; strings.Contains(last, "error") || !slices.Contains(strings.Fields(last), "ready") {
					t.Errorf("place %d: %s ended as %q, want ready without error", place, object, last)
				}
			}
		})
	}
}

// B2: a ready snapshot may lack its bound finalizer for a while.
func TestControllerLateFinalizer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {CutAfter: time.Second, LateFinalizer: 3 * time.Second}}})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Minute)
		if ready, bound := l.when("vs snap", "ready"), l.when("vs snap", finBound); ready != time.Second || bound != 4*time.Second {
			t.Errorf("ready after %v and protected after %v, want 1s and 4s", ready, bound)
		}
	})
}

// B2: what others do to a snapshot and its content happens once, when the script says.
func TestControllerIncidents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason   string
		incident backuptest.Incident
		object   string // whose states are looked at
		want     []string
	}{
		"status removed": {
			reason: "and written again at once", object: "vs snap",
			incident: backuptest.Incident{After: time.Minute, Kind: backuptest.IncidentStatusRemoved},
			want:     []string{finSource + " " + finBound + " no-status", "bound cut " + finSource + " " + finBound + " ready size"},
		},
		"content's status removed": {
			reason: "the storage is asked again and answers as before", object: "vsc snap",
			incident: backuptest.Incident{After: time.Minute, Kind: backuptest.IncidentStatusRemoved, Content: true},
			want: []string{
				finContent + " no-status", "being-created:yes " + finContent + " no-status",
				"being-created:yes cut " + finContent + " handle ready size", "cut " + finContent + " handle ready size",
			},
		},
		"snapshot vanished": {
			reason: "without its finalizers", object: "vs snap",
			incident: backuptest.Incident{After: time.Minute, Kind: backuptest.IncidentVanished},
			want:     []string{"gone"},
		},
		"content vanished": {
			reason: "its snapshot says so, and is taken again", object: "vs snap",
			incident: backuptest.Incident{After: time.Minute, Kind: backuptest.IncidentVanished, Content: true},
			want: []string{
				"bound cut error " + finSource + " " + finBound + " size unready", "bound cut " + finSource + " " + finBound + " ready size",
			},
		},
		"content replaced": {
			reason: "another object by its name", object: "vsc snap",
			incident: backuptest.Incident{After: time.Minute, Kind: backuptest.IncidentReplaced, Content: true},
			want:     []string{"gone", "no-status", "cut " + finContent + " handle ready size"},
		},
		"snapshot replaced": {
			reason: "it is taken anew", object: "vs snap",
			incident: backuptest.Incident{After: time.Minute, Kind: backuptest.IncidentReplaced},
			want:     []string{"gone", "no-status", "bound cut " + finSource + " " + finBound + " ready size"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, claimAndClass()...)
				l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {Incidents: []backuptest.Incident{tc.incident}}}})
				l.take("snap", "data", backuptest.DefaultSnapshotClass)
				l.wait(30 * time.Second)
				before := len(l.path(tc.object))
				l.wait(30*time.Second - time.Millisecond)
				if now := len(l.path(tc.object)); now != before {
					t.Errorf("%s: %d states more before the time", tc.reason, now-before)
				}
				l.wait(time.Hour)
				rest := l.path(tc.object)[before:]
				for _, want := range tc.want {
					i := slices.Index(rest, want)
					if i < 0 {
						t.Fatalf("%s: states %q lack %q", tc.reason, l.path(tc.object)[before:], want)
					}
					rest = rest[i+1:]
				}
				if last := l.path(tc.object); last[len(last)-1] != tc.want[len(tc.want)-1] {
					t.Errorf("%s: ended as %q, want %q", tc.reason, last[len(last)-1], tc.want[len(tc.want)-1])
				}
			})
		})
	}
}

// B2: a removed status stays away as long as the script says.
func TestControllerStatusStaysAway(t *testing.T) {
	t.Parallel()
	for _, content := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, claimAndClass()...)
			l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {Incidents: []backuptest.Incident{
				{After: time.Minute, Kind: backuptest.IncidentStatusRemoved, Content: content, Lasts: 10 * time.Second},
			}}}})
			vs := l.take("snap", "data", backuptest.DefaultSnapshotClass)
			read := func() *unstructured.Unstructured {
				if content {
					return l.get(contentsGVR, "", "snapcontent-"+string(vs.GetUID()))
				}
				return l.get(snapshotsGVR, "app", "snap")
			}
			l.wait(69 * time.Second)
			if status := read().Object["status"]; status != nil {
				t.Errorf("content %t: status %v after 9 s, want none", content, status)
			}
			l.wait(2 * time.Second)
			if ready, _, _ := unstructured.NestedBool(read().Object, "status", "readyToUse"); !ready {
				t.Errorf("content %t: not ready after 11 s", content)
			}
		})
	}
}

// B2: one snapshot costs the requests that were counted on the real controllers: nine on snapshot objects for the snapshot-controller,
// of which the rate takes account, four for the sidecar and two more a poll.
func TestControllerCountsRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script backuptest.Script
		most   int // writes on snapshot objects; one that is ready later has a state more on both sides
	}{
		"instant":          {most: 9},
		"three polls more": {script: backuptest.Script{ReadyAfter: 4 * time.Second}, most: 9 + 3*2 + 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, claimAndClass()...)
				l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": tc.script}})
				l.wait(time.Second)
				l.cluster.ResetRequests()
				l.take("snap", "data", backuptest.DefaultSnapshotClass)
				l.wait(20 * time.Second)
				writes := 0
				for request, n := range l.cluster.Requests() {
					verb, resource, _ := strings.Cut(request, " ")
					if strings.HasPrefix(resource, "volumesnapshot") && slices.Contains([]string{"create", "patch", "update"}, verb) {
						writes += n
					}
				}
				writes-- // the test's own
				// A write that another one was faster than is followed by a read, and done again.
				writes -= l.cluster.Requests()["get volumesnapshotcontents"] + l.cluster.Requests()["get volumesnapshots"]
				if l.when("vs snap", "ready"); writes > tc.most || writes < 6 {
					t.Errorf("%d writes on snapshot objects, want at most the %d of the real ones: %v", writes, tc.most, l.cluster.Requests())
				}
			})
		})
	}
}

// B2: a content made by hand whose handle the storage does not know says so, and is asked for again.
func TestControllerStaticErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{})
		l.static("lost", "no-such-handle", "lost")
		l.wait(time.Second)
		want := `Failed to check and update snapshot content: failed to list snapshot for content lost: "can not find snapshot for snapshotID no-such-handle"`
		for _, object := range []*unstructured.Unstructured{l.get(contentsGVR, "", "lost"), l.get(snapshotsGVR, "app", "lost")} {
			if got := errorText(object); got != want {
				t.Errorf("%s says %q\nwant %q", object.GetKind(), got, want)
			}
		}
		l.static("other", "no-such-handle", "somebody")
		vs := l.take("dynamic", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Second)
		l.staticSnapshot("dyn", "snapcontent-"+string(vs.GetUID()))
		l.staticSnapshot("missing", "nothing")
		l.wait(time.Second)
		for name, want := range map[string]string{
			"other":   "VolumeSnapshotContent [other] is bound to a different snapshot",
			"dyn":     "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one",
			"missing": "VolumeSnapshotContent is missing",
		} {
			if got := errorText(l.get(snapshotsGVR, "app", name)); got != want {
				t.Errorf("%s says %q, want %q", name, got, want)
			}
		}
		l.delete(contentsGVR, "", "other") // never bound: it goes, whatever its policy
		l.wait(time.Second)
		if _, err := l.client.Resource(contentsGVR).Get(t.Context(), "other", metav1.GetOptions{}); err == nil {
			t.Error("a content that was never bound is still there")
		}
	})
}

// static makes a content by hand for a snapshot, and a snapshot of its name that asks for it.
func (l *lab) static(name, handle, snapshot string) {
	l.t.Helper()
	content := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"deletionPolicy": "Delete", "driver": backuptest.DefaultDriver, "source": map[string]any{"snapshotHandle": handle},
			"volumeSnapshotRef": map[string]any{"namespace": "app", "name": snapshot},
		},
	}}
	if _, err := l.client.Resource(contentsGVR).Create(l.t.Context(), content, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.staticSnapshot(name, name)
}

func (l *lab) staticSnapshot(name, content string) {
	l.t.Helper()
	vs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": map[string]any{"namespace": "app", "name": name},
		"spec": map[string]any{"source": map[string]any{"volumeSnapshotContentName": content}},
	}}
	if _, err := l.client.Resource(snapshotsGVR).Namespace("app").Create(l.t.Context(), vs, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}
