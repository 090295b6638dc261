package e2e_test

import (
	"testing"

	"github.com/sheetanchor/sheetanchor/test/e2e/app"
)

// judge asks the driver what it ever cut of the application, and what of that it holds: it is the judge of what was lost or leaked.
func judge(t *testing.T, a *app.App, created, held int) {
	t.Helper()
	cuts, err := cluster(t).Stack.Driver().Cuts(t.Context(), a.Pattern())
	must(t, err)
	holds := 0
	for _, cut := range cuts {
		if cut.Held {
			holds++
		}
	}
	t.Logf("by the driver's list: created %d, destroyed %d, held %d; leaked %d, lost %d",
		len(cuts), len(cuts)-holds, holds, max(holds-held, 0), max(held-holds, 0))
	if len(cuts) != created || holds != held {
		t.Errorf("S10: the driver cut %d and holds %d, want %d and %d", len(cuts), holds, created, held)
	}
}
