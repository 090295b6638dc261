package phasekube_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

var withConditions = phasekube.Options{StatusSubresource: true, Fields: phasekube.Fields{
	Phase: "status.phase", Reason: "status.reason", Message: "status.message", Conditions: "status.conditions",
}}

// addRun stores an object with the status.
func addRun(t *testing.T, cluster *backuptest.Cluster, status map[string]any) {
	t.Helper()
	if err := cluster.Add(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.dev/v1", "kind": "Run", "metadata": map[string]any{"namespace": "app", "name": "run-2", "generation": int64(4)},
		"status": status,
	}}); err != nil {
		t.Fatal(err)
	}
}

func conditionsOf(t *testing.T, client dynamic.Interface) []any {
	t.Helper()
	obj, err := client.Resource(runs).Namespace("app").Get(t.Context(), "run-2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// P8: conditions come with the phase in one write. Entries of other controllers stay as they are, whatever is in them, and a
// time changes with its status only.
func TestConditionsAreWrittenWithThePhase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := newCluster(t)
		theirs := map[string]any{"type": "Synced", "status": "True", "extra": map[string]any{"keep": "me"}}
		odd := "not even a condition"
		ready := map[string]any{
			"type": "Ready", "status": "False", "lastTransitionTime": "1999-12-31T00:00:00Z", "reason": "Old", "message": "old",
			"observedGeneration": int64(1), "extra": "kept too",
		}
		addRun(t, cluster, map[string]any{"phase": phase.New, "conditions": []any{theirs, odd, ready}})
		a := newApplier(t, phasekube.New[myPhase](client, runs, "app", "run-2", withConditions))
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cluster.ResetRequests()
		if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
			t.Fatal(err)
		}
		if n := cluster.Requests()["patch runs/status"]; n != 1 {
			t.Errorf("%d patches, want one", n)
		}
		ours := func(kind, status, since string) map[string]any {
			return map[string]any{
				"type": kind, "status": status, "lastTransitionTime": since, "reason": "InProgress", "message": "InProgress",
				"observedGeneration": int64(4),
			}
		}
		const start = "2000-01-01T00:00:00Z"
		ready = ours("Ready", "False", "1999-12-31T00:00:00Z")
		ready["extra"] = "kept too"
		want := []any{theirs, odd, ready, ours("Reconciling", "True", start), ours("Stalled", "False", start), ours("Finished", "False", start)}
		if diff := cmp.Diff(want, conditionsOf(t, client)); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		if state, err = a.Advance(t.Context(), state, phase.Tally{}); err != nil {
			t.Fatal(err)
		}
		if _, err = a.Advance(t.Context(), state, phase.Tally{}); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, entry := range conditionsOf(t, client)[2:] {
			c := entry.(map[string]any)
			got[c["type"].(string)] = c["status"].(string) + " " + c["lastTransitionTime"].(string)
		}
		const end = "2000-01-01T01:00:00Z"
		ended := map[string]string{"Ready": "True " + end, "Reconciling": "False " + end, "Stalled": "False " + start, "Finished": "True " + end}
		if diff := cmp.Diff(ended, got); diff != "" {
			t.Errorf("at the end (-want +got):\n%s", diff)
		}
	})
}

// P5: X6: a condition that somebody adds between our read and our write is a conflict, not lost.
func TestConditionsOfOthersAreNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := newCluster(t)
		addRun(t, cluster, map[string]any{"phase": phase.New})
		a := newApplier(t, phasekube.New[myPhase](client, runs, "app", "run-2", withConditions))
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		add := func() {
			patch := []byte(`{"status":{"conditions":[{"type":"Theirs","status":"True"}]}}`)
			if _, err := client.Resource(runs).Namespace("app").Patch(t.Context(), "run-2", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
				t.Error(err)
			}
		}
		// After the read that the write begins with, before the write.
		cluster.Fault(backuptest.Fault{Verb: "get", Resource: "runs", Nth: 1, Observe: func(backuptest.Request) { add() }})
		if _, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
			t.Fatal(err)
		}
		types := []string{}
		for _, entry := range conditionsOf(t, client) {
			types = append(types, entry.(map[string]any)["type"].(string))
		}
		if diff := cmp.Diff([]string{"Theirs", "Ready", "Reconciling", "Stalled", "Finished"}, types); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	})
}

// P8: without a status subresource every write of a status is a new generation, so that none is claimed: kubectl wait would
// wait for ever for a condition of an old one.
func TestConditionsWithoutSubresource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newCluster(t)
		opts := withConditions
		opts.StatusSubresource = false
		a := newApplier(t, phasekube.New[myPhase](client, backups, "app", "run-1", opts))
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
			t.Fatal(err)
		}
		list, _, err := unstructured.NestedSlice(raw(t, client, backups).Object, "status", "conditions")
		if err != nil || len(list) != 4 {
			t.Fatalf("conditions = %v, %v, want four", list, err)
		}
		for _, entry := range list {
			if generation, ok := entry.(map[string]any)["observedGeneration"]; ok {
				t.Errorf("observedGeneration = %v, want none", generation)
			}
		}
	})
}

// P5: with conditions the write reads first: the conflict says who was first, and what cannot be read is not overwritten.
func TestConditionsReadFirst(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		status  map[string]any
		version string
		want    error
		found   string
	}{
		"ended by another": {
			reason: "phase-9: the winner is named", status: map[string]any{"phase": phase.Completed}, version: "1", want: phase.ErrConflict, found: phase.Completed,
		},
		"no list":      {reason: "it is somebody's text", status: map[string]any{"phase": phase.New, "conditions": "many"}, want: phase.ErrInvalid},
		"no phase":     {reason: "it is a number", status: map[string]any{"phase": int64(7)}, want: phase.ErrInvalid},
		"nobody's yet": {reason: "the version alone tells", status: map[string]any{"phase": phase.New}, version: "1", want: phase.ErrConflict, found: phase.New},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, client := newCluster(t)
			addRun(t, cluster, tc.status)
			object := phasekube.New[myPhase](client, runs, "app", "run-2", withConditions)
			_, err := object.Update(t.Context(), phase.State[myPhase]{Phase: phase.New, Version: tc.version}, someChange)
			if !errors.Is(err, tc.want) {
				t.Errorf("Update = %v, want %v: %s", err, tc.want, tc.reason)
			}
			if conflict, ok := errors.AsType[*phase.ConflictError](err); ok != (tc.found != "") || ok && conflict.Found != tc.found {
				t.Errorf("conflict = %+v, want the phase %q that was found", conflict, tc.found)
			}
			if n := cluster.Requests()["patch runs/status"]; n != 0 {
				t.Errorf("%d writes, want none", n)
			}
		})
	}
	_, client := newCluster(t)
	_, err := phasekube.New[myPhase](client, runs, "app", "none", withConditions).Update(t.Context(), phase.State[myPhase]{}, someChange)
	if !errors.Is(err, phase.ErrNotFound) {
		t.Errorf("Update of no object = %v, want ErrNotFound", err)
	}
}
