package finalize_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

// P7 S5: a pod that was not thawed is an error that outlives the process, whatever became of its volumes.
func TestCutResults(t *testing.T) {
	t.Parallel()
	pod := csisnapshot.PodRef{Namespace: "app", Name: "db-0", UID: "u"}
	failed := &csisnapshot.HookError{Pod: pod, Stage: "post", Hook: "thaw", Err: errors.New("exit 1")}
	passed := &csisnapshot.HookError{Pod: pod, Stage: "pre", Hook: "sync", Err: errors.New("exit 2")}
	one := func(message string) map[string][]string { return map[string][]string{"app": {message}} }
	for name, tc := range map[string]struct {
		reason           string
		report           *csisnapshot.Report
		errors, warnings map[string][]string
	}{
		"nil report": {reason: "nothing was done"},
		"failed volume": {
			reason: "its operation brings the error",
			report: &csisnapshot.Report{Volumes: []csisnapshot.VolumeReport{{Namespace: "app", Claim: "data", Err: errors.New("no")}}},
		},
		"failed thaw": {
			reason: "the pod may be frozen still",
			report: &csisnapshot.Report{Batches: []csisnapshot.BatchReport{{Pods: []csisnapshot.PodReport{
				{Namespace: "app", Name: "db-0", HookErrors: []*csisnapshot.HookError{failed}, Err: errors.Join(nil, failed)},
			}}}},
			errors: one("cut: app/db-0: post hook thaw in pod app/db-0: exit 1"),
		},
		"hook that may fail": {
			reason: "its owner said Continue",
			report: &csisnapshot.Report{Batches: []csisnapshot.BatchReport{{Pods: []csisnapshot.PodReport{
				{Namespace: "app", Name: "db-0", HookErrors: []*csisnapshot.HookError{passed}},
			}}}},
			warnings: one("cut: app/db-0: pre hook sync in pod app/db-0: exit 2"),
		},
		"cut outside the window": {
			reason:   "the snapshot is good but not what the hooks were meant for",
			report:   &csisnapshot.Report{Volumes: []csisnapshot.VolumeReport{{Namespace: "app", Claim: "data", NotCutInWindow: true}}},
			warnings: one("cut: app/data: the snapshot was not cut while the pod was frozen"),
		},
		"cut in an earlier freeze": {
			reason:   "a crash came between the freezes of one pod",
			report:   &csisnapshot.Report{Volumes: []csisnapshot.VolumeReport{{Namespace: "app", Claim: "data", NotCutInWindow: true, Adopted: true}}},
			warnings: one("cut: app/data: the snapshot was cut by an earlier process, not in the same freeze as the pod's others"),
		},
		"hooks that could not be run": {
			reason: "the snapshots are taken, but not as the pod's owner wished",
			report: &csisnapshot.Report{Batches: []csisnapshot.BatchReport{{Pods: []csisnapshot.PodReport{
				{Namespace: "app", Name: "db-0", Note: "container db does not run"},
			}}}},
			warnings: one("cut: app/db-0: its hooks were not run: container db does not run"),
		},
		"leftover that stays frozen": {
			reason: "somebody must look",
			report: &csisnapshot.Report{Leftovers: []csisnapshot.ThawReport{{Pod: pod, Outcome: csisnapshot.ThawFailed, Err: failed}}},
			errors: one("cut: app/db-0: left frozen by an earlier process and not thawed: post hook thaw in pod app/db-0: exit 1"),
		},
		"leftover that is another pod now": {
			reason:   "it was not touched",
			report:   &csisnapshot.Report{Leftovers: []csisnapshot.ThawReport{{Pod: pod, Outcome: csisnapshot.ThawPodRecreated}}},
			warnings: one("cut: app/db-0: left frozen by an earlier process: pod recreated"),
		},
		"leftover that was thawed": {
			reason: "all is well",
			report: &csisnapshot.Report{Leftovers: []csisnapshot.ThawReport{{Pod: pod, Outcome: csisnapshot.ThawDone}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := finalize.CutResults(tc.report)
			if diff := cmp.Diff(tc.errors, got.Errors.Namespaces); diff != "" {
				t.Errorf("%s: errors (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.warnings, got.Warnings.Namespaces); diff != "" {
				t.Errorf("%s: warnings (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// F4: what is in the file stays, and the same again writes nothing.
func TestAddResults(t *testing.T) {
	t.Parallel()
	store := &countingStore{Store: operations.NewMemoryStore()}
	doc := operations.NewSlot(store, "results")
	message := func(text string) finalize.Results {
		var r finalize.Results
		r.Errors.Add("app", text)
		return r
	}
	for i, text := range []string{"first", "second", "first"} {
		got, err := finalize.AddResults(t.Context(), doc, message(text))
		if err != nil {
			t.Fatal(err)
		}
		if want := min(i+1, 2); got.Errors.Len() != want {
			t.Errorf("after %q there are %d errors, want %d", text, got.Errors.Len(), want)
		}
	}
	if store.writes != 2 {
		t.Errorf("%d writes, want 2: the third changed nothing", store.writes)
	}
	if err := doc.Save(t.Context(), []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	if _, err := finalize.AddResults(t.Context(), doc, message("third")); err == nil {
		t.Error("a file that cannot be read was merged into")
	}
	if data, err := doc.Load(t.Context()); err != nil || string(data) != "garbage" {
		t.Errorf("the unreadable file is now %q, %v, want it untouched", data, err)
	}
}

type countingStore struct {
	operations.Store

	writes int
}

func (s *countingStore) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	s.writes++
	return s.Store.Write(ctx, name, data, old)
}
