package tracktest_test

import (
	"os"
	"testing"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/tracktest"
)

func TestMain(m *testing.M) {
	if tracktest.Child() {
		return
	}
	os.Exit(m.Run())
}

// Each scenario runs, and ours keeps its promise in every one. What Velero ends with is reported, not demanded: a release
// that mends one changes the table and breaks nothing.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	outcomes := tracktest.Outcomes(t)
	if len(outcomes) != 15 {
		t.Errorf("%d outcomes, want those of A to O", len(outcomes))
	}
	for _, o := range outcomes {
		if !o.Kept || o.Velero == "" || o.Version == "" || o.How == "" {
			t.Errorf("%+v", o)
		}
		t.Logf("%s %s\n  Velero (%s): %s\n  ours: %s", o.ID, o.Scenario, o.How, o.Velero, o.Ours)
	}
}
