package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
	"github.com/sheetanchor/sheetanchor/internal/golden"
	"github.com/sheetanchor/sheetanchor/phase"
)

// runHere is the program in virtual time.
func runHere(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return programtest.Run(t, run, args...)
}

func decode(t *testing.T, stdout string) result {
	t.Helper()
	return programtest.Decode[result](t, stdout)
}

func TestCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		stdout, stderr, code := runHere(t, "-o", "json", "-store", dir)
		if code != program.ExitCompleted || stderr != "" {
			t.Fatalf("exit %d, stderr %q, want 0 and nothing", code, stderr)
		}
		r := decode(t, stdout)
		var path []string
		for _, tr := range r.Transitions {
			path = append(path, tr.From+" "+tr.Event+" "+tr.To)
		}
		want := []string{
			"New Start InProgress",
			"InProgress Wait WaitingForPluginOperations",
			"WaitingForPluginOperations Finalize Finalizing",
			"Finalizing Completed Completed",
		}
		if diff := cmp.Diff(want, path); diff != "" {
			t.Errorf("transitions (-want +got):\n%s", diff)
		}
		if len(r.Batches) != 2 || len(r.Batches[0].Pods) != 1 || r.Batches[0].FrozenSeconds["db-0"] <= 0 || len(r.Batches[1].FrozenSeconds) != 0 {
			t.Errorf("batches = %+v, want the frozen db-0 alone and then the rest unfrozen", r.Batches)
		}
		if got := r.Requests["create volumesnapshots"]; got != 7 {
			t.Errorf("%d volumesnapshots were created, want 7", got)
		}
		if diff := cmp.Diff([]skipped{{"legacy", "not CSI (nfs)"}, {"pending", "not bound (Pending)"}}, r.Skipped); diff != "" {
			t.Errorf("skipped (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(operationCount{Total: 7, Completed: 7}, r.Operations); diff != "" {
			t.Errorf("operations (-want +got):\n%s", diff)
		}

		again, _, code := runHere(t, "-o", "json", "-store", dir)
		resumed := decode(t, again)
		if diff := cmp.Diff(r.Snapshots, resumed.Snapshots); code != program.ExitCompleted || diff != "" {
			t.Errorf("a run of what is complete exits %d and tells other snapshots (-want +got):\n%s", code, diff)
		}
		for request := range resumed.Requests {
			if !strings.HasPrefix(request, "get ") && !strings.HasPrefix(request, "list ") {
				t.Errorf("a run of what is complete sent %q", request)
			}
		}
	})
}

// The keys of the JSON object are what scripts rely on.
func TestJSONKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdout, _, _ := runHere(t, "-o", "json", "-store", t.TempDir())
		var object map[string]any
		if err := json.Unmarshal([]byte(stdout), &object); err != nil {
			t.Fatal(err)
		}
		want := []string{"batches", "errors", "hooks", "name", "namespace", "operations", "phase", "requests", "seconds", "skipped", "snapshots", "transitions", "warnings"}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(object))); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	})
}

func TestPartiallyFailed(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"watch", "poll"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stdout, _, code := runHere(t, "-o", "json", "-store", t.TempDir(), "-wait", wait, "-fail", "db-wal=the array is full")
				r := decode(t, stdout)
				if code != program.ExitPartiallyFailed || r.Phase != phase.PartiallyFailed || r.Operations.Failed != 1 || r.Operations.Completed != 6 {
					t.Errorf("exit %d, phase %s, operations %+v, want 2, PartiallyFailed and one of 7 failed", code, r.Phase, r.Operations)
				}
				for _, s := range r.Snapshots {
					failed := s.PVC == "db-wal"
					if failed != strings.Contains(s.Error, "the array is full") || failed == s.ReadyToUse || failed != (s.Handle == "") {
						t.Errorf("snapshot %+v: want the error on db-wal and only there", s)
					}
				}
			})
		})
	}
}

// The dump is of a real API server: see what design.md says of grouping. S4 S12.
func TestDump(t *testing.T) {
	t.Parallel()
	dump := filepath.Join("..", "..", "backuptest", "testdata", "cluster-dump.json")
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		plan, stderr, code := runHere(t, "-f", dump, "-plan", "-store", dir)
		if code != program.ExitCompleted {
			t.Fatalf("-plan: exit %d, stderr %q", code, stderr)
		}
		golden.Check(t, "plan.txt", []byte(plan))
		stdout, stderr, code := runHere(t, "-f", dump, "-o", "json", "-store", dir)
		if code != program.ExitCompleted {
			t.Fatalf("exit %d, stderr %q", code, stderr)
		}
		if r := decode(t, stdout); len(r.Snapshots) != 7 || len(r.Skipped) != 2 {
			t.Errorf("%d snapshots and %d skipped, want 7 and 2", len(r.Snapshots), len(r.Skipped))
		}
	})
}

// The window is over before a slow snapshot is cut: the pod is thawed on time, and the result says so. S5.
func TestMaxFreeze(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdout, _, code := runHere(t, "-o", "json", "-store", t.TempDir(), "-slow", "db-data=20s", "-max-freeze", "3s")
		r := decode(t, stdout)
		if frozen := r.Batches[0].FrozenSeconds["db-0"]; code != program.ExitCompleted || frozen != 3 {
			t.Errorf("exit %d, frozen for %v s, want 0 and 3 s", code, frozen)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "shop/db-data") {
			t.Errorf("warnings = %q, want one that names shop/db-data", r.Warnings)
		}
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdout, _, code := runHere(t, "-store", t.TempDir())
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if last := lines[len(lines)-1]; code != program.ExitCompleted || !strings.HasPrefix(last, "Completed after ") {
			t.Errorf("exit %d, last line %q, want 0 and Completed", code, last)
		}
		for _, want := range []string{"froze pod db-0", "thawed pod db-0 after", "VOLUME", "not CSI (nfs)"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("the output does not say %q:\n%s", want, stdout)
			}
		}
	})
}

// One directory has one embedded cluster and one process at a time.
func TestStoreInUse(t *testing.T) {
	t.Parallel()
	dump := filepath.Join("..", "..", "backuptest", "testdata", "cluster-dump.json")
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		lock, err := lockStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := runHere(t, "-store", dir); code != program.ExitOther || !strings.Contains(stderr, "another process") {
			t.Errorf("exit %d, stderr %q, want 1 and that another process uses the store", code, stderr)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := runHere(t, "-store", dir); code != program.ExitCompleted {
			t.Fatalf("exit %d, stderr %q after the lock was given back, want 0", code, stderr)
		}
		stdout, _, code := runHere(t, "-store", dir)
		if code != program.ExitCompleted || !strings.Contains(stdout, "Completed already, by an earlier run") {
			t.Errorf("exit %d, output %q, want 0 and that it was completed already", code, stdout)
		}
		_, stderr, code := runHere(t, "-store", dir, "-f", dump, "-name", "other")
		if code != program.ExitOther || !strings.Contains(stderr, "-f "+dump) {
			t.Errorf("another dump on a store that has a cluster: exit %d, stderr %q, want 1 and -f named", code, stderr)
		}
	})
}

func TestPlanJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdout, _, code := runHere(t, "-plan", "-o", "json", "-store", t.TempDir())
		var p planned
		if err := json.Unmarshal([]byte(stdout), &p); err != nil || code != program.ExitCompleted {
			t.Fatalf("exit %d, %v\n%s", code, err, stdout)
		}
		if len(p.Batches) != 2 || !p.Batches[0].Hooked || p.Batches[1].Hooked || len(p.Skipped) != 2 {
			t.Errorf("plan = %+v, want a hooked batch, an unhooked one, and two skipped claims", p)
		}
	})
}

// What a run leaves in a directory that nobody named is removed when there is nothing in it.
func TestTemporaryStore(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	left := func() int {
		entries, err := filepath.Glob(filepath.Join(tmp, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if _, stderr, code := runHere(t, "-plan"); code != program.ExitCompleted || left() != 0 || stderr != "" {
		t.Errorf("-plan: exit %d, %d entries left, stderr %q, want 0, none and nothing", code, left(), stderr)
	}
	if _, _, code := runHere(t, "-namespace", "nowhere"); code != program.ExitOther || left() != 0 {
		t.Errorf("a refused run: exit %d, %d entries left, want 1 and none", code, left())
	}
	if _, stderr, code := runHere(t); code != program.ExitCompleted || left() != 1 || !strings.Contains(stderr, "records in "+tmp) {
		t.Errorf("exit %d, %d entries left, stderr %q, want 0, one, and its name", code, left(), stderr)
	}
}
