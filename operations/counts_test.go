package operations_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

// O12, ops-1: the count of what did not end well, the list of work to retry and the entries of the results file all come
// from the operations and are always equal, abandoned operations included.
func TestCountsAgree(t *testing.T) {
	t.Parallel()
	phases := []operations.Phase{
		operations.PhaseNew, operations.PhaseInProgress, operations.PhaseCompleted, operations.PhaseFailed, operations.PhaseCanceled,
		operations.PhaseAbandoned, "FromTheFuture",
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		var ops []operations.Operation
		for i := range rng.IntN(30) {
			o := op(fmt.Sprintf("%d", i))
			o.Status.Phase = phases[rng.IntN(len(phases))]
			ops = append(ops, o)
		}
		m := newMap(t, operations.NewMemoryStore())
		rec := mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(ops...) })
		results, err := finalize.OperationResults(m, testKey)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sum := rec.Summary()
		bad := sum.Failed + sum.Canceled + sum.Abandoned
		if retry := len(rec.List.Failures()); retry != bad || results.Errors.Len() != bad || sum.Running+sum.Completed+bad != len(ops) {
			t.Fatalf("round %d: %+v counts %d that did not end well, %d are to be retried and %d are in the results", round, sum, bad, retry, results.Errors.Len())
		}
	}
}
