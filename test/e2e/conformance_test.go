package e2e_test

import (
	"context"
	"testing"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/internal/conformance"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// scenariosAtOnce is how many scenarios share the stack: more would make its columns drift by more than a second.
const scenariosAtOnce = 4

// racing are scenarios in which two workers of the real controllers may meet on one object, which leaves an error that passes and its
// event in the outcome: on a busy machine one try of a few shows the sequence without.
var racing = map[string]int{"group": 4}

// B2 B3 all-6: a real snapshot stack takes its objects through the same sequences as backuptest's fake controller and provisioner:
// both are compared with the same golden files. No other test runs meanwhile, and the controllers' rates are high, so that a snapshot
// follows its content in time.
func TestStackConforms(t *testing.T) {
	t.Parallel()
	busy(t)
	s := cluster(t).Stack
	must(t, rates(t.Context(), map[string][]string{stack.SnapshotController: fast, stack.Snapshotter: fast}))
	client, _ := clients(t, stack.Admin)
	world := conformance.World{
		Client: client, Driver: stack.DriverName, StorageClass: stack.StorageClass, Node: stack.NodeName,
		SetScript: func(ctx context.Context, claim string, script backuptest.Script) error {
			return s.Driver().SetScript(ctx, claim, driver.Script{Script: script})
		},
	}
	slots := make(chan struct{}, scenariosAtOnce)
	for _, scenario := range conformance.Scenarios() {
		t.Run(scenario.Name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			want, diff := scenario.Want(), ""
			for range max(racing[scenario.Name], 1) {
				outcome, err := conformance.Run(t.Context(), world, scenario)
				if err != nil {
					t.Fatalf("%s: %v", scenario.Reason, err)
				}
				if outcome == want {
					return
				}
				diff = conformance.Diff(want, outcome)
				t.Logf("not as it should be:\n%s", diff)
			}
			t.Errorf("%s\n%s", scenario.Reason, diff)
		})
	}
}
