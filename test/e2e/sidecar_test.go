package e2e_test

import (
	"context"
	"testing"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// A controller that does not run is diagnosed within the timeout, nothing of the attempt stays in the cluster once it runs
// again, and the driver holds nothing. S7, S10, snap-35.
func testMissing(t *testing.T) {
	t.Helper()
	tests := map[string]struct {
		component string
		diagnosis csisnapshot.Diagnosis
	}{
		"sidecar":    {component: stack.Snapshotter, diagnosis: csisnapshot.DiagnosisSidecarSilent},
		"controller": {component: stack.SnapshotController, diagnosis: csisnapshot.DiagnosisNeverPickedUp},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster(t)
			a := application(t, "no-"+name, app.Spec{Claims: app.Named("archive", "media")})
			must(t, c.Stack.Stop(within(t, bound), test.component))
			t.Cleanup(func() { start(t, test.component) })
			exit, err := backup(t, a).Run(within(t, bound), "-timeout", "10s")
			must(t, err)
			report := partial(t, exit)
			failed(t, report, string(test.diagnosis), "archive", "media")
			t.Logf("after %.1f s: %q", report.Seconds, report.Errors)
			start(t, test.component)
			idle(t)
			clean(t, a)
			cuts, err := c.Stack.Driver().Cuts(t.Context(), a.Pattern())
			must(t, err)
			for _, cut := range cuts {
				if cut.Held {
					t.Errorf("S10: the driver holds %s of %s, which is in no record", cut.ID, cut.Claim)
				}
			}
		})
	}
}

// start starts a component, also at the end of a test.
func start(t *testing.T, component string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), bound)
	defer cancel()
	if err := cluster(t).Stack.Start(ctx, component); err != nil {
		t.Error(err)
	}
}
