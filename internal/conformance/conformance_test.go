package conformance_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/internal/conformance"
)

func TestScenariosHaveGoldenFiles(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range conformance.Scenarios() {
		if s.Want() == "" || s.Reason == "" || seen[s.Name] {
			t.Errorf("scenario %q: golden file of %d bytes, reason %q, seen before %t", s.Name, len(s.Want()), s.Reason, seen[s.Name])
		}
		seen[s.Name] = true
	}
	if (conformance.Scenario{Name: "nothing"}).Want() != "" {
		t.Error("a scenario without file has an outcome")
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	got := conformance.Diff("a\nb\nc\nd", "a\nc\nx\nd")
	if diff := cmp.Diff("  a\n- b\n  c\n+ x\n  d\n", got); diff != "" {
		t.Errorf("Diff (-want +got):\n%s", diff)
	}
}

// all-6: a world that does not do as the real one is found out: here nobody takes snapshots, and the error says what was waited for and
// what there is.
func TestRunFindsDeadWorld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		world := fakeWorld(t)
		world.Patience = time.Minute
		set := world.SetScript
		world.SetScript = func(ctx context.Context, claim string, script backuptest.Script) error {
			script.Silent = true
			return set(ctx, claim, script)
		}
		for _, s := range conformance.Scenarios() {
			if s.Name != "slow-cut" {
				continue
			}
			_, err := conformance.Run(t.Context(), world, s)
			if err == nil || !strings.Contains(err.Error(), "wait for snapshot snap to be ready: not within 1m0s") || !strings.Contains(err.Error(), "content of snap") {
				t.Errorf("Run = %v, want what was waited for and the content's state", err)
			}
		}
	})
}

// all-6: an outcome that differs from the golden file is seen: a driver that says sooner that it is ready.
func TestOutcomeShowsDifference(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		world := fakeWorld(t)
		world.SetScript = func(context.Context, string, backuptest.Script) error { return nil }
		for _, s := range conformance.Scenarios() {
			if s.Name != "slow-ready" {
				continue
			}
			outcome, err := conformance.Run(t.Context(), world, s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := conformance.Diff(s.Want(), outcome); !strings.Contains(diff, "- ") || strings.Contains(diff, "+ ") {
				t.Errorf("the difference is\n%s\nwant states that are missing", diff)
			}
		}
	})
}
