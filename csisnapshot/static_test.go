package csisnapshot_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// restorer is who restores what the lab's owner backed up.
var restorer = csisnapshot.Owner{UID: "77777777-5b2f-4d55-a1c8-7a2f8f1b7c11", Namespace: "restores", Name: "again"}

// content reads the content of a snapshot.
func (l *waitLab) content(ref csisnapshot.Ref) csisnapshot.Content {
	l.Helper()
	vs, err := l.client.Snapshots().Get(l.Context(), ref.Namespace, ref.Name)
	if err != nil {
		l.Fatal(err)
	}
	vsc, err := l.client.Contents().Get(l.Context(), "", *vs.Status.BoundContent)
	if err != nil {
		l.Fatal(err)
	}
	return vsc
}

func (l *waitLab) core() kubernetes.Interface {
	l.Helper()
	core, err := kubernetes.NewForConfig(l.cluster.Config())
	if err != nil {
		l.Fatal(err)
	}
	return core
}

func (l *waitLab) addNamespace(name string) {
	l.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := l.core().CoreV1().Namespaces().Create(l.Context(), namespace, metav1.CreateOptions{}); err != nil {
		l.Fatal(err)
	}
}

// deleteNamespace deletes a namespace and waits until it is gone.
func (l *waitLab) deleteNamespace(name string) {
	l.Helper()
	namespaces := l.core().CoreV1().Namespaces()
	if err := namespaces.Delete(l.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.Fatal(err)
	}
	for range 100 {
		if _, err := namespaces.Get(l.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return
		}
		time.Sleep(time.Second)
	}
	l.Fatalf("namespace %s stays", name)
}

// recordOf is what a backup writes down of a snapshot that is ready.
func (l *waitLab) recordOf(ref csisnapshot.Ref) csisnapshot.VolumeRecord {
	l.Helper()
	r, err := csisnapshot.RecordOf(l.content(ref))
	if err != nil {
		l.Fatal(err)
	}
	r.Claim = csisnapshot.ClaimRef{Namespace: ref.Namespace, Name: claimName(0), UID: claimUID(0)}
	return r
}

func TestRestoreInAnotherNamespace(t *testing.T) {
	t.Parallel()
	// S10 snap-43: after a release the pair of the record gets ready in another namespace; deleting its objects, with whatever
	// is asked for, leaves the physical snapshot.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		ref := l.ready(1)[0]
		record := l.recordOf(ref)
		s := l.snapshotter(csisnapshot.WaitOptions{})
		if _, err := s.Release(t.Context(), l.owner, ref); err != nil {
			t.Fatal(err)
		}
		l.addNamespace("elsewhere")
		for range 2 { // k repeats are one
			made, err := s.Restore(t.Context(), restorer, "elsewhere", record)
			if err != nil || made[0].Ref.Namespace != "elsewhere" {
				t.Fatalf("Restore = %+v, %v", made, err)
			}
			outcomes, err := s.Wait(t.Context(), restorer, csisnapshot.StageReady, made[0].Ref)
			if err != nil || outcomes[0].Err != nil || outcomes[0].Result.Handle != record.Handle {
				t.Fatalf("Wait = %+v, %v", outcomes, err)
			}
		}
		made, err := s.Restore(t.Context(), restorer, "elsewhere", record)
		if err != nil {
			t.Fatal(err)
		}
		l.deleteNamespace("elsewhere")
		if left, err := l.client.Contents().Get(t.Context(), "", made[0].Content); err != nil || left.DeletionPolicy != csisnapshot.DeletionPolicyRetain {
			t.Errorf("after the namespace the content is %+v, %v", left, err)
		}
		if _, ok := l.driver.Snapshot(record.Handle); !ok {
			t.Error("the physical snapshot went with the namespace")
		}
		if _, err := s.Destroy(t.Context(), restorer, made[0].Ref); err != nil {
			t.Error(err)
		}
		if got := l.left(); got != "0 snapshots, 0 contents, 1 physical" {
			t.Errorf("left %s", got)
		}
	})
}

func TestCloneKeepsWhatTheStackNeeds(t *testing.T) {
	t.Parallel()
	// snap-47: class, the annotations that name secrets, the group handle and the mode of the volume are kept; marks of work
	// and foreign annotations are not. A content that has no mode gives a pair that has none.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		ref := l.ready(1)[0]
		kept := map[string]string{
			"snapshot.storage.kubernetes.io/deletion-secret-name":      "s",
			"snapshot.storage.kubernetes.io/deletion-secret-namespace": "vault",
			"groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle":   "group-1",
		}
		given := maps.Clone(kept)
		given["snapshot.storage.kubernetes.io/volumesnapshot-being-created"] = "yes"
		given["example.dev/other"] = "x"
		vsc := l.content(ref)
		vsc.Annotations = given
		record, err := csisnapshot.RecordOf(vsc)
		if err != nil || record.GroupHandle != "group-1" || record.Class != backuptest.DefaultSnapshotClass {
			t.Fatalf("record %+v, %v", record, err)
		}
		pair, err := l.names.Static(restorer, "elsewhere", record)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range kept {
			if pair.Content.Annotations[key] != value {
				t.Errorf("annotation %s = %q, want %q", key, pair.Content.Annotations[key], value)
			}
		}
		for _, key := range []string{"snapshot.storage.kubernetes.io/volumesnapshot-being-created", "example.dev/other"} {
			if _, ok := pair.Content.Annotations[key]; ok {
				t.Errorf("annotation %s was taken over", key)
			}
		}
		if c := pair.Content; c.DeletionPolicy != csisnapshot.DeletionPolicyRetain || *c.Class != backuptest.DefaultSnapshotClass || *c.SnapshotHandle != record.Handle {
			t.Errorf("content %+v", c)
		}
		if mode := pair.Content.SourceVolumeMode; mode == nil || *mode != corev1.PersistentVolumeFilesystem {
			t.Errorf("mode %v, want the volume's", mode)
		}
		vsc.SourceVolumeMode = nil
		if record, err := csisnapshot.RecordOf(vsc); err != nil || record.SourceVolumeMode != nil {
			t.Errorf("record %+v, %v, want no mode", record, err)
		} else if pair, err := l.names.Static(restorer, "elsewhere", record); err != nil || pair.Content.SourceVolumeMode != nil {
			t.Errorf("pair %+v, %v, want no mode", pair, err)
		}
		l.addNamespace("elsewhere")
		s := l.snapshotter(csisnapshot.WaitOptions{})
		made, err := s.Clone(t.Context(), restorer, ref, "elsewhere")
		if err != nil || made.Content != pair.Content.Name || made.Ref != pair.Snapshot.Ref() {
			t.Errorf("Clone = %+v, %v, want %s", made, err, pair.Content.Name)
		}
		if got, err := l.client.Contents().Get(t.Context(), "", made.Content); err != nil || got.SourceVolumeMode == nil || *got.SourceVolumeMode != corev1.PersistentVolumeFilesystem {
			t.Errorf("the clone's mode is %v, %v", got.SourceVolumeMode, err)
		}
		if _, err := s.Wait(t.Context(), restorer, csisnapshot.StageReady, made.Ref); err != nil {
			t.Error(err)
		}
		if _, err := s.Clone(t.Context(), restorer, l.ref(0), "Not A Namespace"); err == nil {
			t.Error("a wrong namespace is no error")
		}
	})
}

func ExampleNames_Static() {
	record := csisnapshot.VolumeRecord{Driver: "ebs.csi.aws.com", Handle: "snap-0abc", Class: "ebs"}
	pair, err := csisnapshot.Names{}.Static(csisnapshot.Owner{UID: "r-1", Name: "restore"}, "copy", record)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pair.Content.DeletionPolicy, *pair.Content.SnapshotHandle, *pair.Content.Class)
	fmt.Println(pair.Snapshot.Namespace, pair.Snapshot.SourceContent == pair.Content.Name)
	// Output:
	// Retain snap-0abc ebs
	// copy true
}
