package tracktest

import (
	"fmt"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/vmware-tanzu/velero/pkg/util/csi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

var owner = csisnapshot.Owner{UID: key.UID, Namespace: "app", Name: backupName}

// scene is a cluster with one snapshot that is not cut.
type scene struct {
	cluster  *backuptest.Cluster
	client   client.Client
	snapshot snapshotv1.VolumeSnapshot
	content  snapshotv1.VolumeSnapshotContent
}

// newScene makes the snapshot of ours in that state; what set changes in the two statuses is stored.
func newScene(t *testing.T, state backuptest.SnapshotState, set func(vs *snapshotv1.VolumeSnapshotStatus, vsc *snapshotv1.VolumeSnapshotContentStatus)) *scene {
	t.Helper()
	claim := csisnapshot.ClaimRef{Namespace: "app", Name: "data", UID: backuptest.UIDOf("PersistentVolumeClaim", "app", "data")}
	vs := csisnapshot.Names{}.NewSnapshot(owner, claim, backuptest.DefaultSnapshotClass)
	s := &scene{cluster: backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(
		backuptest.Claim{Namespace: "app", Name: "data"}, backuptest.SnapshotClass{Default: true},
		backuptest.Snapshot{Namespace: "app", Name: vs.Name, Claim: "data", Labels: vs.Labels, Annotations: vs.Annotations, State: state},
	)})}
	var err error
	s.client, err = velerotest.NewClient(s.cluster.Config())
	must(t, err)
	must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: "app", Name: vs.Name}, &s.snapshot))
	var contents snapshotv1.VolumeSnapshotContentList
	must(t, s.client.List(t.Context(), &contents))
	if len(contents.Items) != 1 {
		t.Fatalf("%d contents, want 1", len(contents.Items))
	}
	s.content = contents.Items[0]
	if set == nil {
		return s
	}
	if s.snapshot.Status == nil {
		s.snapshot.Status = &snapshotv1.VolumeSnapshotStatus{}
	}
	s.snapshot.Status.BoundVolumeSnapshotContentName = &s.content.Name
	if s.content.Status == nil {
		s.content.Status = &snapshotv1.VolumeSnapshotContentStatus{}
	}
	set(s.snapshot.Status, s.content.Status)
	must(t, s.client.Status().Update(t.Context(), &s.snapshot))
	must(t, s.client.Status().Update(t.Context(), &s.content))
	return s
}

func (s *scene) ref() csisnapshot.Ref {
	return csisnapshot.Ref{Namespace: s.snapshot.Namespace, Name: s.snapshot.Name}
}

func (s *scene) anchor() csisnapshot.Client {
	return csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(s.cluster.Config()))
}

// wait waits for the cut as ours does.
func (s *scene) wait(t *testing.T, opts csisnapshot.WaitOptions) (csisnapshot.Result, error) {
	t.Helper()
	w, err := csisnapshot.NewWaiter(s.anchor(), opts, owner, csisnapshot.Names{}, []string{"app"})
	must(t, err)
	out := w.Wait(t.Context(), []csisnapshot.Target{{Ref: s.ref()}}, csisnapshot.StageCut)
	return out[0].Result, out[0].Err
}

// silent keeps apimachinery from printing a panic that is expected.
func silent(f func()) {
	handlers := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = nil
	defer func() { utilruntime.PanicHandlers = handlers }()
	f()
}

func wordless(_ *snapshotv1.VolumeSnapshotStatus, vsc *snapshotv1.VolumeSnapshotContentStatus) {
	now := metav1.Now()
	vsc.SnapshotHandle = nil
	vsc.Error = &snapshotv1.VolumeSnapshotError{Time: &now}
}

func veleroM(t *testing.T) ending {
	t.Helper()
	s := newScene(t, backuptest.SnapshotBound, wordless)
	var text string
	silent(func() {
		text = caught(func() { _, _ = csi.WaitUntilVSCHandleIsReady(&s.snapshot, s.client, velerotest.Logger(), time.Minute) })
	})
	return ended(text == "", "panic: %s", text)
}

func oursM(t *testing.T) ending {
	t.Helper()
	s := newScene(t, backuptest.SnapshotBound, wordless)
	later := make(chan error, 1)
	go func() {
		<-time.NewTimer(10 * time.Second).C
		handle := "handle"
		s.content.Status.SnapshotHandle, s.content.Status.Error = &handle, nil
		later <- s.client.Status().Update(t.Context(), &s.content)
	}()
	start := time.Now()
	res, err := s.wait(t, csisnapshot.WaitOptions{})
	must(t, <-later)
	return ended(err == nil && res.Handle == "handle", "waits on, and returns the handle when it is there, after %v", time.Since(start))
}

func veleroN(t *testing.T) ending {
	t.Helper()
	s := newScene(t, backuptest.SnapshotReady, nil)
	s.cluster.Fault(backuptest.Fault{Verb: "get", Resource: "volumesnapshots", Nth: 1, Times: 1, Code: 500})
	s.cluster.ResetRequests()
	vsc, err := csi.WaitUntilVSCHandleIsReady(&s.snapshot, s.client, velerotest.Logger(), 10*time.Minute)
	return ended(vsc != nil && err == nil, "gives up after %d read, although the handle is there", s.cluster.Requests()["get volumesnapshots"])
}

func oursN(t *testing.T) ending {
	t.Helper()
	s := newScene(t, backuptest.SnapshotReady, nil)
	for _, verb := range []string{"get", "list", "watch"} {
		s.cluster.Fault(backuptest.Fault{Verb: verb, Resource: "volumesnapshots", Nth: 1, Times: 1, Code: 500})
	}
	start := time.Now()
	res, err := s.wait(t, csisnapshot.WaitOptions{})
	return ended(err == nil && res.Handle != "", "returns the handle after %v, with the first get, list and watch failing", time.Since(start))
}

// onOne puts an error of the driver on one of the two objects.
func onOne(content bool, text string) func(*snapshotv1.VolumeSnapshotStatus, *snapshotv1.VolumeSnapshotContentStatus) {
	return func(vs *snapshotv1.VolumeSnapshotStatus, vsc *snapshotv1.VolumeSnapshotContentStatus) {
		now, no := metav1.Now(), false
		failed := &snapshotv1.VolumeSnapshotError{Time: &now, Message: &text}
		vs.ReadyToUse, vsc.ReadyToUse, vsc.SnapshotHandle = &no, &no, nil
		if content {
			vs.Error, vsc.Error = nil, failed
		} else {
			vs.Error, vsc.Error = failed, nil
		}
	}
}

const (
	permanent = `Failed to create snapshot: failed to take snapshot of the volume vol: "rpc error: code = InvalidArgument desc = no such volume"`
	passing   = `Failed to create snapshot: failed to take snapshot of the volume vol: "rpc error: code = ResourceExhausted desc = rate limit"`
)

func veleroO(t *testing.T) ending {
	t.Helper()
	judge := func(content bool, text string) string {
		s := newScene(t, backuptest.SnapshotBound, onOne(content, text))
		actions, err := velerotest.NewActions(s.client)
		must(t, err)
		p, err := actions.Snapshots.Progress(s.ref().String()+"/2026-12-01T01:02:03Z", velerotest.NewBackup(backupName))
		must(t, err)
		if p.Completed {
			return "failed at first sight"
		}
		return "still running"
	}
	snapshot, content := judge(false, permanent), judge(true, passing)
	return ended(snapshot == content, "permanent on the snapshot: %s; passing on the content: %s", snapshot, content)
}

func oursO(t *testing.T) ending {
	t.Helper()
	judge := func(content bool, text string, opts csisnapshot.WaitOptions) operations.State {
		s := newScene(t, backuptest.SnapshotBound, onOne(content, text))
		action, err := csisnapshot.NewAction(s.anchor(), csisnapshot.Names{}, opts)
		must(t, err)
		p, err := action.Progress(t.Context(), csisnapshot.OperationID(s.ref(), s.snapshot.CreationTimestamp.Time))
		must(t, err)
		return p.State
	}
	var plain, final []operations.State
	codes := csisnapshot.WaitOptions{Classifier: csisnapshot.FinalCodes("InvalidArgument")}
	for _, content := range []bool{false, true} {
		plain = append(plain, judge(content, permanent, csisnapshot.WaitOptions{}), judge(content, passing, codes))
		final = append(final, judge(content, permanent, codes))
	}
	good := true
	for _, state := range plain {
		good = good && state == operations.StateRunning
	}
	for _, state := range final {
		good = good && state == operations.StateFailed
	}
	return ended(good, "the same on either: %s", fmt.Sprintf("%s, and %s when the user's classifier calls the code final", plain[0], final[0]))
}
