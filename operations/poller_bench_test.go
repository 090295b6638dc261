package operations_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// runs says of one operation that it runs.
type runs struct{ nothing }

func (runs) Progress(context.Context, string) (operations.Progress, error) {
	return operations.Progress{State: operations.StateRunning}, nil
}

// BenchmarkPollerStep is one Step over operations of which none is due, or all are: asked one by one, or in one call.
func BenchmarkPollerStep(b *testing.B) {
	actions := map[string]operations.Action{"one": runs{}, "many": allRun{}}
	for _, n := range []int{100, 1000, 10_000} {
		for name, action := range actions {
			m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
			if err != nil {
				b.Fatal(err)
			}
			p, err := operations.NewPoller(m, map[string]operations.Action{"test": action}, operations.PollerOptions{
				Fast: time.Hour, Slow: time.Hour, Concurrency: 64, ReadInterval: time.Hour, WriteInterval: time.Hour,
			})
			if err != nil {
				b.Fatal(err)
			}
			ops := make([]operations.Operation, n)
			for i := range ops {
				ops[i] = op(fmt.Sprintf("app/snapshot-%d", i))
			}
			if err := p.Register(b.Context(), testKey, ops...); err != nil {
				b.Fatal(err)
			}
			if _, err := p.Step(b.Context(), testKey); err != nil {
				b.Fatal(err)
			}
			step := func(b *testing.B, due bool) {
				b.Helper()
				b.ReportAllocs()
				for b.Loop() {
					if due {
						p.Wake(testKey)
					}
					if res, err := p.Step(b.Context(), testKey); err != nil || res.Summary.Running != n {
						b.Fatal(res, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/operation")
			}
			if name == "one" {
				b.Run(fmt.Sprintf("none due/%d", n), func(b *testing.B) { step(b, false) })
			}
			b.Run(fmt.Sprintf("all due/%s/%d", name, n), func(b *testing.B) { step(b, true) })
		}
	}
}
