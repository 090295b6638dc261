package phasekube_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// P7: on Velero's fields reason and message share one place. A text given for another event is not read back as a reason
// that decides the outcome, and people still can read it.
func TestTextIsNoReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		event         phase.Event
		text          string
		written       string
		reason, ended string
	}{
		"cancel in a text":      {phase.EventFinalizePartiallyFailed, "Canceled: the upstream closed the stream", "Unspecified: Canceled: the upstream closed the stream", "Unspecified", phase.PartiallyFailed},
		"cancel as a text":      {phase.EventFinalizePartiallyFailed, "Canceled", "Unspecified: Canceled", "Unspecified", phase.PartiallyFailed},
		"cancel behind a space": {phase.EventFinalizePartiallyFailed, " \tCanceled: eof", "Unspecified: Canceled: eof", "Unspecified", phase.PartiallyFailed},
		"fatal in a text":       {phase.EventFinalizePartiallyFailed, "FatalError: disk", "Unspecified: FatalError: disk", "Unspecified", phase.PartiallyFailed},
		"store in a text":       {phase.EventFinalizePartiallyFailed, "StoreUnavailable: bucket", "Unspecified: StoreUnavailable: bucket", "Unspecified", phase.PartiallyFailed},
		"a text twice":          {phase.EventFinalizePartiallyFailed, ": Canceled: eof", "Unspecified: Canceled: eof", "Unspecified", phase.PartiallyFailed},
		"another reason":        {phase.EventFinalizePartiallyFailed, "Timeout: 4h", "Timeout: 4h", "Timeout", phase.PartiallyFailed},
		"plain":                 {phase.EventFinalizePartiallyFailed, "two are gone", "Unspecified: two are gone", "Unspecified", phase.PartiallyFailed},
		"a text in success":     {phase.EventFinalize, "Canceled: was not", ": Canceled: was not", "", phase.Completed},
		"our cancel":            {phase.EventCancel, "FatalError: by alice", "Canceled: FatalError: by alice", phase.ReasonCanceled, phase.Failed},
		"our fatal error":       {phase.EventFatal, "Canceled: by the peer", "FatalError: Canceled: by the peer", phase.ReasonFatal, phase.Failed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := newCluster(t)
				a := newApplier(t, phasekube.New[myPhase](client, backups, "app", "run-1", phasekube.Options{}))
				state, err := a.Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
					t.Fatal(err)
				}
				if _, err = a.Apply(t.Context(), state, tc.event, tc.text); err != nil {
					t.Fatal(err)
				}
				written, _, err := unstructured.NestedString(raw(t, client, backups).Object, "status", "failureReason")
				if err != nil || written != tc.written {
					t.Errorf("failureReason = %q, %v, want %q", written, err, tc.written)
				}
				if state, err = a.Load(t.Context()); err != nil || state.Reason != tc.reason {
					t.Errorf("Load = %+v, %v, want the reason %q", state, err, tc.reason)
				}
				for !a.Machine().IsTerminal(state.Phase) {
					if state, err = a.Advance(t.Context(), state, phase.Tally{}); err != nil {
						t.Fatal(err)
					}
				}
				if string(state.Phase) != tc.ended {
					t.Errorf("the work ended in %q, want %q", state.Phase, tc.ended)
				}
			})
		})
	}
}

// X8: objects that earlier releases wrote: their reasons are read, and only where they can be theirs.
func TestReasonsOfEarlierReleases(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		why     string
		at      string
		written string
		reason  string
		message string
	}{
		"a cancel":    {"the form has not changed", phase.WaitingForPluginOperationsPartiallyFailed, "Canceled: by alice", phase.ReasonCanceled, "by alice"},
		"a word":      {"the form has not changed", phase.FinalizingPartiallyFailed, "FatalError", phase.ReasonFatal, ""},
		"not failing": {"a cancel moves the work to a failing phase: this was a text", phase.InProgress, "Canceled: was not", "", "Canceled: was not"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, client := newCluster(t)
			if err := cluster.Add(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": map[string]any{"namespace": "app", "name": "old"},
				"status": map[string]any{"phase": tc.at, "failureReason": tc.written},
			}}); err != nil {
				t.Fatal(err)
			}
			a := newApplier(t, phasekube.New[myPhase](client, backups, "app", "old", phasekube.Options{}))
			state, err := a.Load(t.Context())
			if err != nil || state.Reason != tc.reason || state.Message != tc.message {
				t.Errorf("Load = %+v, %v, want %q, %q: %s", state, err, tc.reason, tc.message, tc.why)
			}
		})
	}
}
