package csisnapshot_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// bothClients are the two adapters on one cluster.
func bothClients(t *testing.T, builders ...backuptest.Builder) (*backuptest.Cluster, map[string]csisnapshot.Client) {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(builders...)})
	clients := map[string]csisnapshot.Client{}
	for name, adapter := range adapters {
		clients[name] = adapter(t, cluster.Config())
	}
	return cluster, clients
}

func TestClientsReadTheSame(t *testing.T) {
	t.Parallel()
	// S1 S8: the two adapters give the same plain objects, whatever part of a status is there.
	var builders []backuptest.Builder
	for _, name := range []string{"fresh", "bound", "cut", "ready"} {
		builders = append(builders, backuptest.Claim{Namespace: "app", Name: name})
	}
	cluster, clients := bothClients(t, append(builders, backuptest.SnapshotClass{Default: true})...)
	for _, text := range []string{
		`{"metadata":{"name":"a","namespace":"app"},"spec":{"source":{"persistentVolumeClaimName":"data"}}}`,
		`{"metadata":{"name":"b","namespace":"app","labels":{"x":"y"},"finalizers":["example.dev/keep"]},"spec":{"source":{"volumeSnapshotContentName":"c"},"volumeSnapshotClassName":"fast"},"status":{}}`,
		`{"metadata":{"name":"c","namespace":"app"},"spec":{"source":{}},"status":{"readyToUse":false,"error":{}}}`,
		`{"metadata":{"name":"d","namespace":"app"},"spec":{"source":{}},"status":{"readyToUse":true,"restoreSize":"10Gi","creationTime":"2026-01-01T12:00:00Z","boundVolumeSnapshotContentName":"c","error":{"message":"old","time":"2026-01-01T11:00:00Z"}}}`,
	} {
		add(t, cluster, "VolumeSnapshot", text)
	}
	for _, text := range []string{
		`{"metadata":{"name":"a"},"spec":{"deletionPolicy":"Delete","driver":"d","source":{"volumeHandle":"v"},"volumeSnapshotRef":{"namespace":"app","name":"a","uid":"u"}}}`,
		`{"metadata":{"name":"b"},"spec":{"deletionPolicy":"Retain","driver":"d","source":{"snapshotHandle":"h"},"volumeSnapshotRef":{}},"status":{}}`,
		`{"metadata":{"name":"c"},"spec":{"deletionPolicy":"Retain","driver":"d","volumeSnapshotClassName":"fast","sourceVolumeMode":"Block","source":{},"volumeSnapshotRef":{}},"status":{"snapshotHandle":"h","creationTime":1767268800000000001,"restoreSize":1073741824,"readyToUse":true,"error":{"message":"old"}}}`,
	} {
		add(t, cluster, "VolumeSnapshotContent", text)
	}
	dynamic, typed := clients["dynamic"], clients["snapv6"]
	compare(t, dynamic.Snapshots(), typed.Snapshots(), "app", 4)
	compare(t, dynamic.Contents(), typed.Contents(), "", 3)
	compare(t, dynamic.Classes(), typed.Classes(), "", 1)
	d, err := dynamic.Snapshots().Get(t.Context(), "app", "d")
	if err != nil || *d.Status.RestoreSize != 10<<30 || !d.Status.CreationTime.Equal(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)) || *d.Status.Error.Message != "old" {
		t.Errorf("snapshot d: %+v, %v", d.Status, err)
	}
	c, err := typed.Contents().Get(t.Context(), "", "c")
	if err != nil || c.Handle() != "h" || c.Status.CreationTime.UnixNano() != 1767268800000000001 || c.DeletionPolicy != csisnapshot.DeletionPolicyRetain {
		t.Errorf("content c: %+v, %v", c, err)
	}
	if a, err := typed.Contents().Get(t.Context(), "", "a"); err != nil || a.SourceVolumeMode != nil || c.SourceVolumeMode == nil || *c.SourceVolumeMode != corev1.PersistentVolumeBlock {
		t.Errorf("modes %v and %v, %v, want none and Block", a.SourceVolumeMode, c.SourceVolumeMode, err)
	}
}

// add stores an object as it is.
func add(t *testing.T, cluster *backuptest.Cluster, kind, text string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(`{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"` + kind + `",` + text[1:])); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Add(u); err != nil {
		t.Fatal(err)
	}
}

// compare reads everything through both, in pages of two.
func compare[T any](t *testing.T, a, b csisnapshot.Resource[T], namespace string, n int) {
	t.Helper()
	var lists [2][]T
	for i, r := range []csisnapshot.Resource[T]{a, b} {
		opts := csisnapshot.ListOptions{Limit: 2}
		for {
			page, err := r.List(t.Context(), namespace, opts)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Items) > 2 || page.ResourceVersion == "" {
				t.Errorf("page of %d objects, version %q", len(page.Items), page.ResourceVersion)
			}
			lists[i] = append(lists[i], page.Items...)
			if opts.Continue = page.Continue; opts.Continue == "" {
				break
			}
		}
	}
	if diff := cmp.Diff(lists[0], lists[1]); diff != "" || len(lists[0]) != n {
		t.Errorf("%d objects, want %d; the adapters differ: %s", len(lists[0]), n, diff)
	}
}

func TestClientsWriteTheSame(t *testing.T) {
	t.Parallel()
	// S9 S10: creates carry what a user may set; patches and deletes hold to their preconditions.
	names, owner := csisnapshot.Names{}, csisnapshot.Owner{UID: "u", Name: "b"}
	for name := range adapters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, clients := bothClients(t, backuptest.Claim{Namespace: "app", Name: "data"})
			client := clients[name]
			ctx := t.Context()
			object := names.NewSnapshot(owner, csisnapshot.ClaimRef{Namespace: "app", Name: "data", UID: "claim"}, "fast")
			vs, err := client.Snapshots().Create(ctx, object)
			if err != nil || vs.UID == "" || vs.ResourceVersion == "" || vs.Created.IsZero() {
				t.Fatalf("create: %+v, %v", vs, err)
			}
			want := vs
			want.UID, want.ResourceVersion, want.Created = "", "", time.Time{}
			if diff := cmp.Diff(object, want); diff != "" {
				t.Errorf("created: %s", diff)
			}
			if _, err := client.Snapshots().Create(ctx, object); !apierrors.IsAlreadyExists(err) {
				t.Errorf("created twice: %v", err)
			}
			vsc, err := client.Contents().Create(ctx, csisnapshot.Content{
				Meta: csisnapshot.Meta{Name: "content"}, Driver: "d", DeletionPolicy: csisnapshot.DeletionPolicyDelete, VolumeHandle: new("v"),
				Snapshot: csisnapshot.SnapshotRef{Namespace: vs.Namespace, Name: vs.Name, UID: vs.UID}, Class: new("fast"),
				SourceVolumeMode: new(corev1.PersistentVolumeBlock),
			})
			if err != nil || vsc.SourceVolumeMode == nil || *vsc.SourceVolumeMode != corev1.PersistentVolumeBlock || vsc.Snapshot.UID != vs.UID || *vsc.VolumeHandle != "v" || *vsc.Class != "fast" {
				t.Errorf("create content: %+v, %v", vsc, err)
			}
			class := csisnapshot.Class{Meta: csisnapshot.Meta{Name: "class"}, Driver: "d", DeletionPolicy: csisnapshot.DeletionPolicyRetain, Parameters: map[string]string{"k": "v"}}
			if got, err := client.Classes().Create(ctx, class); err != nil || got.Parameters["k"] != "v" || got.IsDefault() {
				t.Errorf("create class: %+v, %v", got, err)
			}
			patched, err := client.Contents().Patch(ctx, "", vsc.Name, []byte(`{"metadata":{"resourceVersion":"`+vsc.ResourceVersion+`"},"spec":{"deletionPolicy":"Retain"}}`))
			if err != nil || patched.DeletionPolicy != csisnapshot.DeletionPolicyRetain {
				t.Errorf("patch: %+v, %v", patched, err)
			}
			if _, err := client.Contents().Patch(ctx, "", vsc.Name, []byte(`{"metadata":{"resourceVersion":"`+vsc.ResourceVersion+`"},"spec":{"deletionPolicy":"Delete"}}`)); !apierrors.IsConflict(err) {
				t.Errorf("a patch of an old version: %v, want a conflict", err)
			}
			for _, stale := range []csisnapshot.Preconditions{{UID: "other"}, {UID: vsc.UID, ResourceVersion: vsc.ResourceVersion}} {
				if err := client.Contents().Delete(ctx, "", vsc.Name, stale); !apierrors.IsConflict(err) {
					t.Errorf("delete with %+v: %v, want a conflict", stale, err)
				}
			}
			if err := client.Contents().Delete(ctx, "", vsc.Name, csisnapshot.Preconditions{UID: vsc.UID, ResourceVersion: patched.ResourceVersion}); err != nil {
				t.Errorf("delete: %v", err)
			}
			if _, err := client.Contents().Get(ctx, "", vsc.Name); !apierrors.IsNotFound(err) {
				t.Errorf("get after delete: %v", err)
			}
		})
	}
}

func TestClientsWatchTheSame(t *testing.T) {
	t.Parallel()
	// S1: events, the end of a version and what is left out by a selector come through both adapters alike.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 2)
		l.stopController()
		w, err := l.client.Snapshots().Watch(t.Context(), "app", csisnapshot.WatchOptions{Selector: l.names.OwnerSelector(l.owner.UID)})
		if err != nil {
			t.Fatal(err)
		}
		foreign := l.object(1)
		foreign.Labels = nil
		if _, err := l.client.Snapshots().Create(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		vs := l.create(0)
		e := w.Decode(<-w.ResultChan())
		if e.Type != watch.Added || e.Object.UID != vs.UID || e.ResourceVersion == "" || e.Err != nil {
			t.Errorf("event %+v", e)
		}
		if err := l.client.Snapshots().Delete(t.Context(), "app", vs.Name, csisnapshot.Preconditions{}); err != nil {
			t.Fatal(err)
		}
		if e := w.Decode(<-w.ResultChan()); e.Type != watch.Deleted || e.Object.UID != vs.UID {
			t.Errorf("event %+v", e)
		}
		w.Stop()
		l.cluster.Fault(backuptest.Fault{Verb: "watch", Action: backuptest.FaultExpireWatch})
		w, err = l.client.Snapshots().Watch(t.Context(), "app", csisnapshot.WatchOptions{ResourceVersion: vs.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if e := w.Decode(<-w.ResultChan()); e.Type != watch.Error || !apierrors.IsResourceExpired(e.Err) && !apierrors.IsGone(e.Err) {
			t.Errorf("event %+v, want 410", e)
		}
	})
}

// FuzzDynamicDecoding holds that no object, however wrong its fields are, makes the dynamic adapter or the judgement panic.
func FuzzDynamicDecoding(f *testing.F) {
	f.Add(`{"status":{"readyToUse":true,"restoreSize":"10Gi","error":{"message":"x","time":"2026-01-01T12:00:00Z"}}}`)
	f.Add(`{"status":{"readyToUse":"yes","restoreSize":{},"error":[1],"creationTime":17,"boundVolumeSnapshotContentName":null}}`)
	f.Add(`{"spec":{"source":7,"volumeSnapshotRef":"x"},"status":{"snapshotHandle":[],"creationTime":1.5e300}}`)
	f.Add(`{"spec":null,"status":[],"metadata":{"finalizers":"x","labels":{"a":1},"deletionTimestamp":{}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		client := csisnapshot.NewDynamic(fake.NewSimpleDynamicClient(runtime.NewScheme(), fuzzObject(t, "VolumeSnapshot", "app", text), fuzzObject(t, "VolumeSnapshotContent", "", text)))
		vs, err := client.Snapshots().Get(t.Context(), "app", "x")
		if err != nil {
			return
		}
		vsc, err := client.Contents().Get(t.Context(), "", "x")
		if err != nil {
			return
		}
		s := csisnapshot.NewState(csisnapshot.Target{Ref: vs.Ref()})
		s = csisnapshot.Judge(s, csisnapshot.Look{Snapshot: &vs, Content: &vsc, Now: time.Unix(0, 0)})
		if s.Ready && s.Handle == "" {
			t.Errorf("ready without a handle: %s", text)
		}
	})
}

// fuzzObject is an object named x with the fields of the text.
func fuzzObject(t *testing.T, kind, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(`{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"x"}}`)); err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Skip()
	}
	for _, key := range []string{"spec", "status"} {
		if value, ok := body[key]; ok {
			u.Object[key] = value
		}
	}
	metadata, _ := body["metadata"].(map[string]any)
	for key, value := range metadata {
		if key != "name" && key != "namespace" {
			u.Object["metadata"].(map[string]any)[key] = value
		}
	}
	u.SetNamespace(namespace)
	return u
}
