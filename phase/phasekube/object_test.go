package phasekube_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

type myPhase string

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	backups    = schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}
	runs       = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "runs"}
)

// newCluster has a ConfigMap, a backup as Velero defines it (status is no subresource) and a run whose status is one.
func newCluster(t *testing.T) (*backuptest.Cluster, dynamic.Interface) {
	t.Helper()
	custom := func(apiVersion, kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind,
			"metadata": map[string]any{"namespace": "app", "name": "run-1", "labels": map[string]any{"keep": "me"}},
			"spec":     map[string]any{"keep": "me"},
		}}
	}
	cluster := backuptest.New(t, backuptest.Options{
		Resources: []backuptest.Resource{
			{Group: "velero.io", Version: "v1", Kind: "Backup", Plural: "backups", Namespaced: true},
			{Group: "example.dev", Version: "v1", Kind: "Run", Plural: "runs", Namespaced: true, Status: true},
		},
		Objects: []runtime.Object{
			&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "run-1", Labels: map[string]string{"keep": "me"}},
				Data:       map[string]string{"note": "keep me"},
			},
			custom("velero.io/v1", "Backup"),
			custom("example.dev/v1", "Run"),
		},
	})
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return cluster, client
}

func raw(t *testing.T, client dynamic.Interface, gvr schema.GroupVersionResource) *unstructured.Unstructured {
	t.Helper()
	obj, err := client.Resource(gvr).Namespace("app").Get(t.Context(), "run-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func newApplier(t *testing.T, object phase.Object[myPhase]) *phase.Applier[myPhase] {
	t.Helper()
	a, err := phase.NewApplier(phase.Backup[myPhase](), object, phase.ApplierOptions[myPhase]{Owner: "replica-1"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestConfigMapFromNewToFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newCluster(t)
		object := phasekube.NewConfigMap[myPhase](client, "app", "run-1")
		a := newApplier(t, object)
		state, err := a.Load(t.Context())
		if err != nil || state.Phase != phase.New || state.UID == "" || state.Version == "" {
			t.Fatalf("Load() = %+v, %v, want New with UID and version", state, err)
		}
		state, err = a.Apply(t.Context(), state, phase.EventStart, "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		state, err = a.Apply(t.Context(), state, phase.EventCancel, "asked by alice")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if state, err = a.Advance(t.Context(), state, phase.Tally{}); err != nil {
				t.Fatal(err)
			}
		}
		got := raw(t, client, configMaps)
		data, _, err := unstructured.NestedStringMap(got.Object, "data")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"note": "keep me", "phase": phase.Failed, "reason": phase.ReasonCanceled, "message": "asked by alice",
			"owner": "replica-1", "startTimestamp": "2000-01-01T00:00:00Z", "completionTimestamp": "2000-01-01T00:01:30Z",
			"enteredTimestamp": "2000-01-01T00:01:30Z", "changedTimestamp": "2000-01-01T00:01:30Z",
		}
		if diff := cmp.Diff(want, data); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
		if got.GetLabels()["keep"] != "me" {
			t.Errorf("labels = %v, want them kept", got.GetLabels())
		}
		read, err := object.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(state, read); diff != "" {
			t.Errorf("Get after Apply (-applied +read):\n%s", diff)
		}
	})
}

func TestCustomResources(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		gvr    schema.GroupVersionResource
		opts   phasekube.Options
		want   map[string]any // status
		note   map[string]string
	}{
		"status is part of the object": {
			reason: "Velero's fields are the default, with reason and message in failureReason",
			gvr:    backups,
			want: map[string]any{
				"phase": phase.WaitingForPluginOperationsPartiallyFailed, "failureReason": "FatalError: disk on fire",
				"startTimestamp": "2000-01-01T00:00:00Z",
			},
			note: nil,
		},
		"status is a subresource": {
			reason: "a resource of the user's own, with every field and the owner in the status",
			gvr:    runs,
			opts: phasekube.Options{StatusSubresource: true, Fields: phasekube.Fields{
				Phase: "status.state.name", Reason: "status.state.reason", Message: "status.state.message", Owner: "status.by",
			}},
			want: map[string]any{
				"state": map[string]any{
					"name": phase.WaitingForPluginOperationsPartiallyFailed, "reason": phase.ReasonFatal, "message": "disk on fire",
				},
				"by": "replica-1",
			},
		},
		"annotations": {
			reason: "a name may contain dots",
			gvr:    backups,
			opts: phasekube.Options{Fields: phasekube.Fields{
				Phase: `metadata.annotations.example\.dev/phase`, Owner: `metadata.annotations.example\.dev/owner`,
			}},
			note: map[string]string{
				"example.dev/phase": phase.WaitingForPluginOperationsPartiallyFailed, "example.dev/owner": "replica-1",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := newCluster(t)
				a := newApplier(t, phasekube.New[myPhase](client, tc.gvr, "app", "run-1", tc.opts))
				state, err := a.Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
					t.Fatal(err)
				}
				if _, err = a.Apply(t.Context(), state, phase.EventFatal, "disk on fire"); err != nil {
					t.Fatal(err)
				}
				obj := raw(t, client, tc.gvr)
				status, _, err := unstructured.NestedMap(obj.Object, "status")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, status); diff != "" {
					t.Errorf("%s: status (-want +got):\n%s", tc.reason, diff)
				}
				if diff := cmp.Diff(tc.note, obj.GetAnnotations()); diff != "" {
					t.Errorf("%s: annotations (-want +got):\n%s", tc.reason, diff)
				}
				spec, _, err := unstructured.NestedMap(obj.Object, "spec")
				if err != nil || spec["keep"] != "me" {
					t.Errorf("spec = %v, %v, want it kept", spec, err)
				}
			})
		})
	}
}

func TestUpdateComparesAndSwaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newCluster(t)
		object := phasekube.NewConfigMap[myPhase](client, "app", "run-1")
		old, err := object.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := phase.Change[myPhase]{From: phase.New, To: phase.InProgress, Event: phase.EventStart, At: time.Now()}
		if _, err := object.Update(t.Context(), old, start); err != nil {
			t.Fatal(err)
		}
		// P5: a stale version, and without a version a phase that is not the expected one.
		if _, err := object.Update(t.Context(), old, start); !errors.Is(err, phase.ErrConflict) {
			t.Errorf("Update at a stale version = %v, want ErrConflict", err)
		}
		if _, err := object.Update(t.Context(), phase.State[myPhase]{Phase: phase.New}, start); !errors.Is(err, phase.ErrConflict) {
			t.Errorf("Update without a version, from another phase = %v, want ErrConflict", err)
		}
		wait := phase.Change[myPhase]{From: phase.InProgress, To: phase.WaitingForPluginOperations, At: time.Now()}
		next, err := object.Update(t.Context(), phase.State[myPhase]{Phase: phase.InProgress}, wait)
		if err != nil || next.Phase != phase.WaitingForPluginOperations {
			t.Errorf("Update without a version, from the right phase = %+v, %v", next, err)
		}
		// P5: another object of the same name.
		_, err = object.Update(t.Context(), phase.State[myPhase]{Phase: next.Phase, UID: "another"}, wait)
		if conflict, ok := errors.AsType[*phase.ConflictError](err); !ok || !conflict.Replaced {
			t.Errorf("Update without a version, of another UID = %v, want a ConflictError with Replaced", err)
		}
		memory := phase.NewMemory(phase.State[myPhase]{Phase: phase.New})
		if _, err := memory.Update(t.Context(), phase.State[myPhase]{Phase: phase.New, UID: "another"}, start); !errors.Is(err, phase.ErrConflict) {
			t.Errorf("Update of Memory without a version, of another UID = %v, want ErrConflict", err)
		}
	})
}

func TestUnrelatedChangeIsNoConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newCluster(t)
		a := newApplier(t, phasekube.NewConfigMap[myPhase](client, "app", "run-1"))
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		patch := []byte(`{"metadata":{"labels":{"other":"writer"}}}`)
		if _, err := client.Resource(configMaps).Namespace("app").
			Patch(t.Context(), "run-1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil || state.Phase != phase.InProgress {
			t.Fatalf("Apply after a label was set = %+v, %v, want InProgress", state, err)
		}
		if got := raw(t, client, configMaps).GetLabels()["other"]; got != "writer" {
			t.Errorf("label of the other writer = %q, want it kept", got)
		}
	})
}

func TestReplacedObjectIsAConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := newCluster(t)
		a := newApplier(t, phasekube.NewConfigMap[myPhase](client, "app", "run-1"))
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Resource(configMaps).Namespace("app").Delete(t.Context(), "run-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "run-1"}}); err != nil {
			t.Fatal(err)
		}
		_, err = a.Apply(t.Context(), state, phase.EventStart, "")
		if conflict, ok := errors.AsType[*phase.ConflictError](err); !ok || !conflict.Replaced {
			t.Fatalf("Apply to an object of the same name = %v, want a ConflictError with Replaced", err)
		}
		if got := raw(t, client, configMaps); got.Object["data"] != nil {
			t.Errorf("data of the new object = %v, want none", got.Object["data"])
		}
	})
}
