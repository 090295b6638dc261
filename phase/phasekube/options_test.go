package phasekube_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// Bad input: every call names the field at fault, and nothing is sent.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fields phasekube.Fields
		hint   string
	}{
		"no phase":           {"there must be one", phasekube.Fields{Reason: "status.reason"}, "Fields.Phase"},
		"empty name":         {"a dot too many", phasekube.Fields{Phase: "status..phase"}, "Fields.Phase"},
		"the kind":           {"it is not ours", phasekube.Fields{Phase: "kind"}, "Fields.Phase"},
		"the API version":    {"it is not ours", phasekube.Fields{Phase: "apiVersion"}, "Fields.Phase"},
		"the name":           {"it is not ours", phasekube.Fields{Phase: "metadata.name"}, "Fields.Phase"},
		"all annotations":    {"they are a map", phasekube.Fields{Phase: "metadata.annotations"}, "Fields.Phase"},
		"one place twice":    {"one would overwrite the other", phasekube.Fields{Phase: "status.phase", Owner: "status.phase"}, "Fields.Owner"},
		"one in the other":   {"a text holds no fields", phasekube.Fields{Phase: "status.phase", Message: "status.phase.text"}, "Fields.Message"},
		"around the other":   {"a text holds no fields", phasekube.Fields{Phase: "status.phase", Completed: "status"}, "Fields.Completed"},
		"a nested key":       {"a ConfigMap holds texts", phasekube.Fields{Phase: "data.state.phase"}, "Fields.Phase"},
		"a key with a slash": {"the server refuses it", phasekube.Fields{Phase: "data.state/phase"}, "Fields.Phase"},
		"a status":           {"a ConfigMap has none", phasekube.Fields{Phase: "status.phase"}, "Fields.Phase"},
		"a time in a label":  {"the server refuses it", phasekube.Fields{Phase: "data.phase", Started: "metadata.labels.started"}, "Fields.Started"},
		"a text in a label":  {"the server refuses most", phasekube.Fields{Phase: "data.phase", Message: "metadata.labels.why"}, "Fields.Message"},
		"a list in a map":    {"a ConfigMap holds texts", phasekube.Fields{Phase: "data.phase", Conditions: "data.conditions"}, "Fields.Conditions"},
		"a list in metadata": {"an annotation is a text", phasekube.Fields{Phase: "data.phase", Conditions: "metadata.annotations.all"}, "Fields.Conditions"},
		"two faults at once": {"all are named", phasekube.Fields{Reason: "kind"}, "Fields.Reason"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newFake(t)
			object := phasekube.New[myPhase](client, configMaps, "app", "run-1", phasekube.Options{Fields: tc.fields})
			_, getErr := object.Get(t.Context())
			_, putErr := object.Update(t.Context(), phase.State[myPhase]{}, someChange)
			for _, err := range []error{getErr, putErr} {
				if !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), tc.hint) {
					t.Errorf("error = %v, want ErrInvalid that names %s: %s", err, tc.hint, tc.reason)
				}
			}
			if n := len(client.Actions()); n != 0 {
				t.Errorf("%d requests, want none", n)
			}
		})
	}
	annotated := phasekube.Options{StatusSubresource: true, Fields: phasekube.Fields{Phase: "status.phase", Owner: "metadata.labels.owner"}}
	_, err := phasekube.New[myPhase](newFake(t), runs, "app", "run-1", annotated).Get(t.Context())
	if !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), "Fields.Owner") {
		t.Errorf("a label through the status subresource: %v, want ErrInvalid that names Fields.Owner", err)
	}
	for name, object := range map[string]*phasekube.Object[myPhase]{
		"version": phasekube.New[myPhase](newFake(t), schema.GroupVersionResource{Group: "example.dev", Resource: "runs"}, "app", "run-1", phasekube.Options{}),
		"client":  phasekube.NewConfigMap[myPhase](nil, "app", "run-1"),
		"name":    phasekube.NewConfigMap[myPhase](newFake(t), "app", ""),
	} {
		if _, err := object.Get(t.Context()); !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v, want ErrInvalid that names it", name, err)
		}
	}
}

// Bad input: what stands in the fields is not what we write there.
func TestUnreadableObjects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		status any
	}{
		"phase is a number":   {"it is no text", map[string]any{"phase": int64(7)}},
		"status is a text":    {"it has no fields", "Completed"},
		"start is not a time": {"it cannot be read", map[string]any{"phase": phase.InProgress, "startTimestamp": "yesterday"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, client := newCluster(t)
			if err := cluster.Add(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": map[string]any{"namespace": "app", "name": "odd"}, "status": tc.status,
			}}); err != nil {
				t.Fatal(err)
			}
			object := phasekube.New[myPhase](client, backups, "app", "odd", phasekube.Options{})
			if _, err := object.Get(t.Context()); !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), "app/odd") {
				t.Errorf("Get = %v, want ErrInvalid that names the object: %s", err, tc.reason)
			}
		})
	}
}

func TestAbsentStatusIsNew(t *testing.T) {
	t.Parallel()
	_, client := newCluster(t)
	state, err := phasekube.New[myPhase](client, backups, "app", "run-1", phasekube.Options{}).Get(t.Context())
	if err != nil || state.Phase != "" || !state.Started.IsZero() || !state.Completed.IsZero() || state.UID == "" {
		t.Errorf("Get = %+v, %v, want an empty phase with UID", state, err)
	}
}
