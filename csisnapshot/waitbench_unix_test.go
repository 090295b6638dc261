//go:build unix

package csisnapshot_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// BenchmarkWaiterEvents is what ten times as many events cost: the ratio of the CPU times is the median of five.
func BenchmarkWaiterEvents(b *testing.B) {
	const few = 2000
	for b.Loop() {
		var ratios, each []float64
		for range 5 {
			less, more := eventsCost(b, few), eventsCost(b, 10*few)
			ratios = append(ratios, more.Seconds()/less.Seconds())
			each = append(each, float64(more.Microseconds())/(10*few))
		}
		slices.Sort(ratios)
		slices.Sort(each)
		b.ReportMetric(ratios[2], "CPU/10×events")
		b.ReportMetric(each[2], "µs/snapshot")
	}
}

// eventsCost is the CPU time of a wait for n snapshots with three events each.
func eventsCost(b *testing.B, n int) time.Duration {
	b.Helper()
	s := runScripted(b, 0, csisnapshot.WaitOptions{Timeout: scriptTimeout})
	began := cpuTime(b)
	pending := s.addAll(n)
	for i := range n {
		s.api.contents.tell(made(i))
	}
	for _, p := range pending {
		if _, err := p.Wait(b.Context(), csisnapshot.StageCut); err != nil {
			b.Fatal(err)
		}
	}
	took := cpuTime(b) - began
	s.end(b, pending)
	return took
}

// cpuTime is what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
