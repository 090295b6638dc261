package loadtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
)

// workload is one thing that is done through both.
type workload struct {
	name string
	// virtual says that it runs in a bubble of testing/synctest, where waiting takes no time.
	virtual bool
	run     func(t *testing.T, b *bench)
}

// all are the workloads in the order of the output. The one that compares times of milliseconds with each other is the first: the
// others leave a heap in pieces.
func all() []workload {
	return []workload{
		{name: "volume-records", run: volumeRecords},
		{name: "cut", virtual: true, run: cut},
		{name: "freeze-window", virtual: true, run: freezeWindow},
		{name: "never-ready", virtual: true, run: neverReady},
		{name: "default-rate", virtual: true, run: defaultRate},
		{name: "overload", virtual: true, run: overload},
		{name: "scale-snapshots", virtual: true, run: scaleSnapshots},
		{name: "waiter", run: waiter},
		{name: "uploads", run: uploads},
		{name: "hung-key", run: hungKey},
		{name: "get", run: get},
		{name: "encode", run: encode},
		{name: "decode", run: decode},
		{name: "memory", run: memory},
		{name: "scale-operations", run: scaleOperations},
		{name: "release", virtual: true, run: release},
		{name: "failure-track", run: failureTrack},
	}
}

// seed is the seed of every random choice.
const seed = 20261201

// bench is what a workload reports to. It is not safe for concurrent use.
type bench struct {
	// short asks for sizes that take seconds in all.
	short bool

	workload string
	report   *table.Report
}

// measure runs the workload and adds what it found to the report.
func (w workload) measure(t *testing.T, short bool, report *table.Report) {
	t.Helper()
	b := &bench{short: short, workload: w.name, report: report}
	if w.virtual {
		synctest.Test(t, func(t *testing.T) { w.run(t, b) })
		return
	}
	w.run(t, b)
}

// size is whole, or short with -short.
func (b *bench) size(whole, short int) int {
	if b.short {
		return short
	}
	return whole
}

func (b *bench) row(what string, velero, ours *table.Figure, target table.Target) {
	b.report.Rows = append(b.report.Rows, table.Row{Workload: b.workload, What: what, Velero: velero, Ours: ours, Target: target})
}

// noisy is row for a figure of real time that what else the machine does may spoil in so few rounds as -short has: there it
// is shown and not judged.
func (b *bench) noisy(what string, velero, ours *table.Figure, target table.Target) {
	if b.short {
		what, target = what+" (judged without -short)", table.Target{}
	}
	b.row(what, velero, ours, target)
}

func (b *bench) curve(what string, points []table.Point) {
	b.report.Curves = append(b.report.Curves, table.Curve{Workload: b.workload, What: what, Points: points})
}

func (b *bench) note(format string, args ...any) {
	b.report.Notes = append(b.report.Notes, table.Note{Workload: b.workload, Text: fmt.Sprintf(format, args...)})
}

// must ends the workload if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// random returns a source of the fixed seed, another for each stream.
func random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// median is the median of what measure returns in n calls.
func median(n int, measure func() time.Duration) time.Duration {
	took := make([]time.Duration, 0, n)
	for range n {
		took = append(took, measure())
	}
	slices.Sort(took)
	return took[n/2]
}

// medians is median of two, measured in turn, so that what else the machine does meets both.
func medians(n int, one, other func() time.Duration) (time.Duration, time.Duration) {
	ones, others := inTurn(n, one, other)
	return ones[n/2], others[n/2]
}

// inTurn calls one and other n times in turn and returns what they return, the shortest first.
func inTurn(n int, one, other func() time.Duration) (ones, others []time.Duration) {
	for range n {
		ones, others = append(ones, one()), append(others, other())
	}
	slices.Sort(ones)
	slices.Sort(others)
	return ones, others
}

// cpu is the processor time that f takes, of the whole process, so that the collector's part counts too.
func cpu(f func()) time.Duration {
	runtime.GC()
	before := processTime()
	f()
	return processTime() - before
}

func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// wall is the time that f takes.
func wall(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// live is the heap that is in use after a collection.
func live() int64 {
	runtime.GC()
	runtime.GC() // the first may only have queued finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// percentile is the pth part of the sorted durations.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(len(sorted)-1, int(math.Ceil(p*float64(len(sorted))))-1)]
}

// parallel calls f for 0 to n-1 at once and returns when all have returned.
func parallel(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
