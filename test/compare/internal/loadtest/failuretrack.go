package loadtest

import (
	"testing"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/tracktest"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// failureTrack is what each ends with in the failures that were found in Velero's main branch in May 2026.
func failureTrack(t *testing.T, b *bench) {
	t.Helper()
	b.report.Outcomes = append(b.report.Outcomes, tracktest.Outcomes(t)...)
	b.note("scenarios A to O of the list of failures reproduced in Velero; %q: its own code of %s in this process (I in a child process, which dies), %q: what its source does.", "run", velerotest.Version(), "read in source")
}
