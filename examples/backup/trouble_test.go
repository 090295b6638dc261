package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/internal/race"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// A write that is lost or fails, two of them, or kills of two processes in a row, with and without a volume that cannot be
// snapshotted: the backup ends, and its phase, records, results and the storage tell the same truth. P2 P5 P6 P7 O2 F2 V1.
func TestTrouble(t *testing.T) {
	t.Parallel()
	writes := 50
	random := rand.New(rand.NewPCG(7, 2026))
	kinds := []backuptest.Trouble{backuptest.CrashAfter, backuptest.LoseAnswer, backuptest.FailEffect}
	var cases [][]troubles // of each, the troubles of the processes in turn
	for k := 1; k <= writes; k += 2 {
		cases = append(cases, []troubles{{k: []backuptest.Trouble{backuptest.LoseAnswer, backuptest.FailEffect}[k/2%2]}})
	}
	for range 10 {
		k, j := 1+random.IntN(writes), 1+random.IntN(writes)
		cases = append(cases,
			[]troubles{{k: backuptest.CrashAfter}, {j: backuptest.CrashAfter}},
			[]troubles{{k: kinds[random.IntN(3)], j: kinds[random.IntN(3)]}},
		)
	}
	for i, processes := range cases {
		if i%race.Scaled(1, 4) != 0 { // even where the kinds take turns in pairs: each kind is met
			continue
		}
		var bad string
		if i%3 == 2 {
			bad = []string{"db-wal", "media"}[i%2]
		}
		t.Run(fmt.Sprintf("%d %v %s", i, processes, bad), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				scripts := slowScripts()
				if bad != "" {
					scripts[bad] = backuptest.Script{Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no way"}}}
				}
				w := newWorld(t, scripts)
				for _, at := range append(processes, nil, nil) {
					if r, _, err := w.run(at, testOptions(t)); err == nil {
						w.checkTruth(r, bad)
						return
					}
				}
				t.Errorf("the backup did not end")
			})
		})
	}
}

// checkTruth compares everything that a backup leaves.
func (w *world) checkTruth(r result, bad string) {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	stored := map[string]int{}
	for _, s := range w.driver.Snapshots() {
		stored[s.Claim.Name]++
	}
	failures := 0
	for _, record := range w.records() {
		switch {
		case record.Skipped:
			continue
		case record.Result == volumeinfo.Failed:
			failures++
		case record.Result != volumeinfo.Succeeded:
			t.Errorf("the record of claim %s has no final result", record.PVCName)
		case record.PVCName == bad:
			t.Errorf("claim %s cannot be snapshotted, and its record says that it was", bad)
		}
		if want := map[volumeinfo.Result]int{volumeinfo.Succeeded: 1}[record.Result]; stored[record.PVCName] != want {
			t.Errorf("claim %s %s (%s), and the storage holds %d snapshots of it", record.PVCName, record.Result, record.Error, stored[record.PVCName])
		}
	}
	if len(r.Snapshots) != 7 || len(r.Skipped) != 2 {
		t.Errorf("%d snapshots and %d skipped claims are recorded, want 7 and 2", len(r.Snapshots), len(r.Skipped))
	}
	if ops := r.Operations; ops.Total != ops.Completed+ops.Failed+ops.Canceled || ops.Failed != failures {
		t.Errorf("operations are %+v, and %d volume records failed", ops, failures)
	}
	switch troubled := failures > 0 || len(r.Errors) > 0; r.Phase {
	case phase.Completed:
		if troubled || bad != "" {
			t.Errorf("Completed with %d failed volumes and errors %q", failures, r.Errors)
		}
	case phase.PartiallyFailed:
		if !troubled {
			t.Error("PartiallyFailed, and nothing says why")
		}
	default:
		t.Errorf("phase %s", r.Phase)
	}
	if len(r.Errors) == 0 { // a thaw that failed is told, and tried again by the last steps
		w.checkThawed(ctx)
	}
	w.checkReleased(ctx)
}

func (w *world) records() []volumeinfo.BackupRecord {
	w.t.Helper()
	data, err := operations.NewSlot(w.store, newFiles("demo").volumes()).Load(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
	if err != nil {
		w.t.Fatal(err)
	}
	return records
}

// Post hooks that fail leave their pod frozen: the backup cannot be Completed, also when a later try thaws it. S5 P7.
func TestThawFails(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, 2, 1000} {
		t.Run(fmt.Sprintf("%d times", times), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slowScripts())
				thaws := 0
				remove := w.cluster.Fault(backuptest.Fault{
					Verb: "patch", Resource: "pods", Nth: 2, Times: times, Code: 500, Message: "no thaw",
					Observe: func(backuptest.Request) { thaws++ },
				})
				defer remove()
				r, code, err := w.run(nil, testOptions(t))
				if err != nil || code != program.ExitPartiallyFailed || len(r.Errors) == 0 {
					t.Errorf("exit %d, errors %q, %v, want 2 and errors that name the pod", code, r.Errors, err)
				}
				pods, err := w.core().CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				names := map[string]bool{}
				for _, pod := range pods.Items {
					if pod.Annotations[frozenAnnotation] == "true" {
						names[pod.Name] = true
					}
				}
				if frozen := slices.Collect(maps.Keys(names)); (len(frozen) > 0) != (times == 1000) {
					t.Errorf("frozen at the end: %v after %d failed thaws", frozen, thaws)
				}
			})
		})
	}
}
