package backuptest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

var (
	groupsGVR        = schema.GroupVersionResource{Group: "groupsnapshot.storage.k8s.io", Version: "v1beta2", Resource: "volumegroupsnapshots"}
	groupContentsGVR = schema.GroupVersionResource{Group: "groupsnapshot.storage.k8s.io", Version: "v1beta2", Resource: "volumegroupsnapshotcontents"}
)

// groupLab is a lab with two claims with label set=db, and a class for their group.
func groupLab(t *testing.T, policy string) *lab {
	t.Helper()
	labels := map[string]string{"set": "db"}
	l := newLab(t, backuptest.Claim{Namespace: "app", Name: "data", Labels: labels}, backuptest.Claim{Namespace: "app", Name: "logs", Labels: labels},
		backuptest.Claim{Namespace: "app", Name: "other"})
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "groupsnapshot.storage.k8s.io/v1beta2", "kind": "VolumeGroupSnapshotClass", "metadata": map[string]any{"name": "groups"},
		"driver": backuptest.DefaultDriver, "deletionPolicy": policy,
	}}
	if err := l.cluster.Add(class); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) group(name, set string) {
	l.t.Helper()
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "groupsnapshot.storage.k8s.io/v1beta2", "kind": "VolumeGroupSnapshot", "metadata": map[string]any{"namespace": "app", "name": name},
		"spec": map[string]any{
			"volumeGroupSnapshotClassName": "groups", "source": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"set": set}}},
		},
	}}
	if _, err := l.client.Resource(groupsGVR).Namespace("app").Create(l.t.Context(), group, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) list(gvr schema.GroupVersionResource) []unstructured.Unstructured {
	l.t.Helper()
	list, err := l.client.Resource(gvr).List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return list.Items
}

// B2: a group cuts its claims after errors like a snapshot, has a snapshot for each, and takes them away with itself; with policy
// Retain the contents and the data stay.
func TestControllerGroups(t *testing.T) {
	t.Parallel()
	for policy, kept := range map[string]int{"Delete": 0, "Retain": 2} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := groupLab(t, policy)
				l.run(backuptest.ControllerOptions{Groups: true, Scripts: map[string]backuptest.Script{
					"logs": {Errors: []backuptest.DriverError{{Code: "Unavailable", Text: "down", Times: 2}}, CutAfter: time.Second, ReadyAfter: 2 * time.Second},
				}})
				l.group("pair", "db")
				l.wait(500 * time.Millisecond)
				failed := l.get(groupsGVR, "app", "pair")
				if got := errorText(failed); !strings.HasPrefix(got, "Failed to create group snapshot: failed to take group snapshot of the volumes [") {
					t.Errorf("error of the group = %q", got)
				}
				l.wait(time.Minute)
				group := l.get(groupsGVR, "app", "pair")
				if ready, _, _ := unstructured.NestedBool(group.Object, "status", "readyToUse"); !ready || errorText(group) != "" {
					t.Fatalf("group ended as %v", group.Object["status"])
				}
				members := l.list(snapshotsGVR)
				if len(members) != 2 || len(l.driver.Snapshots()) != 2 {
					t.Fatalf("%d members and %d physical snapshots, want two each", len(members), len(l.driver.Snapshots()))
				}
				for i := range members {
					m := &members[i]
					ready, _, _ := unstructured.NestedBool(m.Object, "status", "readyToUse")
					name, _, _ := unstructured.NestedString(m.Object, "status", "volumeGroupSnapshotName")
					if !ready || name != "pair" || !strings.HasPrefix(m.GetName(), "snapshot-") || len(m.GetName()) != len("snapshot-")+64 {
						t.Errorf("member %s is %v", m.GetName(), m.Object["status"])
					}
				}
				l.delete(snapshotsGVR, "app", members[0].GetName()) // not allowed alone
				l.wait(10 * time.Second)
				if left := len(l.list(snapshotsGVR)); left != 2 {
					t.Errorf("%d members while the group lives, want both", left)
				}
				l.delete(groupsGVR, "app", "pair")
				l.wait(time.Minute)
				if left := len(l.list(groupsGVR)) + len(l.list(snapshotsGVR)); left != 0 {
					t.Errorf("%d groups and members left", left)
				}
				if contents, held := len(l.list(contentsGVR)), len(l.driver.Snapshots()); contents != kept || held != kept {
					t.Errorf("%d contents and %d physical snapshots left, want %d", contents, held, kept)
				}
				if got := len(l.list(groupContentsGVR)); got != kept/2 {
					t.Errorf("%d group contents left, want %d", got, kept/2)
				}
			})
		})
	}
}

// B2: a group that finds no claim, and one whose storage refuses to delete.
func TestControllerGroupTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refuse := backuptest.Script{DeleteErrors: []backuptest.DriverError{{Text: "in use", Times: 2}}}
		l := groupLab(t, "Delete")
		l.run(backuptest.ControllerOptions{Groups: true, Scripts: map[string]backuptest.Script{"data": refuse}})
		l.group("empty", "nothing")
		l.group("pair", "db")
		l.wait(time.Minute)
		if got := errorText(l.get(groupsGVR, "app", "empty")); !strings.Contains(got, "label selector has not matched any claim") {
			t.Errorf("error of the empty group = %q", got)
		}
		l.delete(groupsGVR, "app", "pair")
		l.wait(500 * time.Millisecond)
		if len(l.list(groupContentsGVR)) != 1 {
			t.Error("the content is gone though the storage refused")
		}
		l.wait(time.Minute)
		if len(l.list(groupContentsGVR)) != 0 || len(l.driver.Snapshots()) != 0 {
			t.Errorf("%d contents and %d physical snapshots left, want none", len(l.list(groupContentsGVR)), len(l.driver.Snapshots()))
		}
	})
}

// B2: a controller that is stopped after any write for a group is continued by another one to the same end, and its deletion too.
func TestControllerResumesGroup(t *testing.T) {
	t.Parallel()
	for phase, least := range map[string]int{"creation": 20, "deletion": 8} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			for k := 1; ; k++ {
				var stopped bool
				synctest.Test(t, func(t *testing.T) { stopped = resumeGroup(t, phase == "deletion", k) })
				if t.Failed() {
					return
				}
				if !stopped {
					if k <= least {
						t.Errorf("only %d writes, want at least %d", k-1, least)
					}
					return
				}
			}
		})
	}
}

// resumeGroup stops the controller after write k, and reports whether there were as many.
func resumeGroup(t *testing.T, deletion bool, k int) (stopped bool) {
	t.Helper()
	l := groupLab(t, "Delete")
	if deletion {
		stop := l.run(backuptest.ControllerOptions{Groups: true})
		l.group("pair", "db")
		l.wait(time.Minute)
		stop()
		l.delete(groupsGVR, "app", "pair")
	} else {
		l.group("pair", "db")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	remove := l.cluster.Fault(backuptest.Fault{Verb: "write", Nth: k, Observe: func(backuptest.Request) { stopped = true; cancel() }})
	if err := backuptest.NewSnapshotController(l.client, l.driver, backuptest.ControllerOptions{Groups: true}).Run(ctx); err != nil {
		t.Fatal(err)
	}
	remove()
	l.run(backuptest.ControllerOptions{Groups: true})
	l.wait(time.Minute)
	if deletion {
		left := len(l.list(groupsGVR)) + len(l.list(snapshotsGVR)) + len(l.list(contentsGVR)) + len(l.list(groupContentsGVR)) + len(l.driver.Snapshots())
		if left != 0 {
			t.Errorf("write %d: %d objects and physical snapshots left", k, left)
		}
		return stopped
	}
	ready := 0
	for _, vs := range append(l.list(snapshotsGVR), l.list(contentsGVR)...) {
		if is, _, _ := unstructured.NestedBool(vs.Object, "status", "readyToUse"); is {
			ready++
		}
	}
	group := l.get(groupsGVR, "app", "pair")
	if is, _, _ := unstructured.NestedBool(group.Object, "status", "readyToUse"); !is || ready != 4 || len(l.driver.Snapshots()) != 2 {
		t.Errorf("write %d: group %v, %d ready objects of members, %d physical snapshots", k, group.Object["status"], ready, len(l.driver.Snapshots()))
	}
	return stopped
}
