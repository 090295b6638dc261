package backuptest_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: every state of the real stack's tables can be built, as real clients read it.
func TestSnapshotsOfEveryKind(t *testing.T) {
	t.Parallel()
	const prefix = "snapshot.storage.kubernetes.io/"
	tests := map[string]struct {
		reason   string
		snapshot backuptest.Snapshot
		want     string // of snapshot and content: finalizers, annotations, status
	}{
		"being created": {
			"the sidecar has marked the content and waits for the driver",
			backuptest.Snapshot{State: backuptest.SnapshotBeingCreated},
			"vs: volumesnapshot-as-source-protection\n" +
				"vsc: volumesnapshotcontent-bound-protection volumesnapshot-being-created",
		},
		"error": {
			"the first error of a driver, copied to the snapshot",
			backuptest.Snapshot{State: backuptest.SnapshotBound, Error: "no", ContentError: "no"},
			"vs: volumesnapshot-as-source-protection volumesnapshot-bound-protection bound ready=false error=no\n" +
				"vsc: volumesnapshotcontent-bound-protection ready=false error=no",
		},
		"stale error": {
			"an error stays beside a handle until ready",
			backuptest.Snapshot{State: backuptest.SnapshotCut, Error: "no", ContentError: "no"},
			"vs: volumesnapshot-as-source-protection volumesnapshot-bound-protection bound cut ready=false error=no\n" +
				"vsc: volumesnapshotcontent-bound-protection handle=snap-app-snap cut ready=false error=no",
		},
		"stuck": {
			"deleted while the driver was asked: nobody looks at it again",
			backuptest.Snapshot{State: backuptest.SnapshotBeingCreated, Deleting: true},
			"vs: volumesnapshot-as-source-protection deleting\n" +
				"vsc: volumesnapshotcontent-bound-protection volumesnapshot-being-created volumesnapshot-being-deleted deleting",
		},
		"retain": {
			"the snapshot gets no second finalizer",
			backuptest.Snapshot{Policy: "Retain"},
			"vs: volumesnapshot-as-source-protection bound cut ready=true\n" +
				"vsc: volumesnapshotcontent-bound-protection handle=snap-app-snap cut ready=true",
		},
		"leftover": {
			"the content stays, ready and with its handle",
			backuptest.Snapshot{Leftover: true},
			"vsc: volumesnapshotcontent-bound-protection volumesnapshot-being-deleted handle=snap-app-snap cut ready=true",
		},
		"static": {
			"source and name are an administrator's",
			backuptest.Snapshot{Static: true, Handle: "old"},
			"vs: volumesnapshot-as-source-protection volumesnapshot-bound-protection from=content-snap bound cut ready=true\n" +
				"vsc: volumesnapshotcontent-bound-protection from=old handle=old cut ready=true",
		},
		"group member": {
			"the group owns it, and its handle is on the content",
			backuptest.Snapshot{Group: "all"},
			"vs: volumesnapshot-as-source-protection volumesnapshot-bound-protection volumesnapshot-in-group-protection owner=all bound cut ready=true\n" +
				"vsc: volumesnapshotcontent-bound-protection groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle handle=snap-app-snap cut ready=true",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.snapshot.Namespace, tc.snapshot.Name, tc.snapshot.Claim = "app", "snap", "data"
			inBubble(t, backuptest.Options{Objects: backuptest.Objects(tc.snapshot)}, func(c clients) {
				t := c.t
				var lines []string
				vs, err := c.snaps.SnapshotV1().VolumeSnapshots("app").List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range vs.Items {
					lines = append(lines, "vs: "+describeVS(s))
				}
				vsc, err := c.snaps.SnapshotV1().VolumeSnapshotContents().List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range vsc.Items {
					lines = append(lines, "vsc: "+describeVSC(s))
					if s.Name != tc.snapshot.ContentName() || s.Spec.VolumeSnapshotRef.Name != "snap" {
						t.Errorf("content %s of snapshot %s", s.Name, s.Spec.VolumeSnapshotRef.Name)
					}
				}
				got := strings.ReplaceAll(strings.Join(lines, "\n"), prefix, "")
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s -want +got:\n%s", tc.reason, diff)
				}
			})
		})
	}
}

func describeMeta(m metav1.ObjectMeta) []string {
	words := slices.Clone(m.Finalizers)
	for _, name := range []string{
		"snapshot.storage.kubernetes.io/volumesnapshot-being-created", "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
		"groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle",
	} {
		if m.Annotations[name] != "" {
			words = append(words, name)
		}
	}
	for _, owner := range m.OwnerReferences {
		words = append(words, "owner="+owner.Name)
	}
	if m.DeletionTimestamp != nil {
		words = append(words, "deleting")
	}
	return words
}

func describeStatus(words []string, ready *bool, fault *snapshotv1.VolumeSnapshotError) string {
	if ready != nil {
		words = append(words, "ready="+strconv.FormatBool(*ready))
	}
	if fault != nil {
		words = append(words, "error="+*fault.Message)
	}
	return strings.Join(words, " ")
}

func describeVS(s snapshotv1.VolumeSnapshot) string {
	words := describeMeta(s.ObjectMeta)
	if from := s.Spec.Source.VolumeSnapshotContentName; from != nil {
		words = append(words, "from="+*from)
	}
	if s.Status == nil {
		return strings.Join(words, " ")
	}
	if s.Status.BoundVolumeSnapshotContentName != nil {
		words = append(words, "bound")
	}
	if s.Status.CreationTime != nil {
		words = append(words, "cut")
	}
	return describeStatus(words, s.Status.ReadyToUse, s.Status.Error)
}

func describeVSC(s snapshotv1.VolumeSnapshotContent) string {
	words := describeMeta(s.ObjectMeta)
	if from := s.Spec.Source.SnapshotHandle; from != nil {
		words = append(words, "from="+*from)
	}
	if s.Status == nil {
		return strings.Join(words, " ")
	}
	if s.Status.SnapshotHandle != nil {
		words = append(words, "handle="+*s.Status.SnapshotHandle)
	}
	if s.Status.CreationTime != nil {
		words = append(words, "cut")
	}
	return describeStatus(words, s.Status.ReadyToUse, s.Status.Error)
}

// B2: a member of a group without a name has the one the snapshot-controller would give it, and members differ.
func TestGroupMemberNames(t *testing.T) {
	t.Parallel()
	name := func(group, claim string) string {
		return backuptest.Snapshot{Namespace: "app", Claim: claim, Group: group}.VS().GetName()
	}
	a, b, c := name("g", "a"), name("g", "b"), name("h", "a")
	if len(a) != len("snapshot-")+64 || a == b || a == c || a != name("g", "a") {
		t.Errorf("names %q, %q, %q; want three that differ and stay", a, b, c)
	}
}

// B2: claims that lost their volume, volumes that lost their claim, and classes that wait.
func TestClaimsThatAreNotBound(t *testing.T) {
	t.Parallel()
	lost := backuptest.Claim{Namespace: "app", Name: "data", Lost: true}
	if pvc := lost.PVC(); pvc.Status.Phase != corev1.ClaimLost || pvc.Spec.VolumeName == "" || lost.PV() != nil || len(lost.Objects()) != 1 {
		t.Errorf("lost claim is %s, of volume %q, with %v", pvc.Status.Phase, pvc.Spec.VolumeName, lost.PV())
	}
	released := backuptest.Claim{Namespace: "app", Name: "data", Released: true}
	pv := released.PV()
	if pv.Status.Phase != corev1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		pv.Spec.ClaimRef == nil || released.PVC() != nil || len(released.Objects()) != 1 {
		t.Errorf("released volume is %s, of %v", pv.Status.Phase, pv.Spec.ClaimRef)
	}
	for wait, want := range map[bool]storagev1.VolumeBindingMode{true: storagev1.VolumeBindingWaitForFirstConsumer, false: storagev1.VolumeBindingImmediate} {
		if got := *(backuptest.StorageClass{WaitForFirstConsumer: wait}).Object().VolumeBindingMode; got != want {
			t.Errorf("binding mode %s, want %s", got, want)
		}
	}
}

// B2: the pods, claims and volumes of a StatefulSet belong together, and the server takes them.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	set := backuptest.StatefulSet{
		Namespace: "app", Name: "db", Replicas: 2, Templates: []string{"data", "wal"},
		Pod: backuptest.Pod{Annotations: map[string]string{"hooks": "yes"}}, Claim: backuptest.Claim{Size: "5Gi"},
	}
	inBubble(t, backuptest.Options{Objects: backuptest.Objects(set, backuptest.StatefulSet{Namespace: "app", Name: "web"})}, func(c clients) {
		t := c.t
		made, err := c.core.AppsV1().StatefulSets("app").Get(t.Context(), "db", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pods, err := c.core.CoreV1().Pods("app").List(t.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(made.Spec.Selector)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pod := range pods.Items {
			if owner := metav1.GetControllerOf(&pod); owner == nil || owner.UID != made.UID || pod.Annotations["hooks"] != "yes" {
				t.Errorf("pod %s has owner %v and annotations %v", pod.Name, owner, pod.Annotations)
			}
			for _, v := range pod.Spec.Volumes {
				claim, err := c.core.CoreV1().PersistentVolumeClaims("app").Get(t.Context(), v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				size := claim.Status.Capacity[corev1.ResourceStorage]
				got = append(got, pod.Name+" "+claim.Name+" "+size.String())
			}
		}
		want := []string{"db-0 data-db-0 5Gi", "db-0 wal-db-0 5Gi", "db-1 data-db-1 5Gi", "db-1 wal-db-1 5Gi"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pods and claims -want +got:\n%s", diff)
		}
		if templates := made.Spec.VolumeClaimTemplates; len(templates) != 2 || made.Spec.Template.Spec.Containers[0].VolumeMounts[1].Name != "wal" {
			t.Errorf("claim templates %v, mounts %v", templates, made.Spec.Template.Spec.Containers[0].VolumeMounts)
		}
		if claims := (backuptest.StatefulSet{Name: "web"}).Claims(); len(claims) != 1 || claims[0].Name != "data-web-0" {
			t.Errorf("default claims %v", claims)
		}
	})
}
