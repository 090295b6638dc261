package loadtest

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
)

// waiter is what waiting for many snapshots costs this process, fed by a scripted watch.
func waiter(t *testing.T, b *bench) {
	t.Helper()
	few, many := 100, b.size(10_000, 2000)
	small, large := wait(t, few), wait(t, many)
	b.row("live heap of a pending snapshot, "+table.Number(many).String()+" pending", nil, table.Size(large.heap), table.Target{Kind: table.AtMost, Limit: 4 << 10})
	b.row("goroutines of the wait beyond those for 100", nil, table.Number(large.goroutines-small.goroutines), table.Target{Kind: table.AtMost})
	events := b.size(10_000, 3000)
	rounds := b.size(5, 3)
	one, ten := medians(rounds, func() time.Duration { return feed(t, 1000, events) }, func() time.Duration { return feed(t, 1000, 10*events) })
	b.noisy("CPU of 10 × the events (1000 pending)", nil, table.Number(ten.Seconds()/one.Seconds()), table.Target{Kind: table.AtMost, Limit: 15})
	b.row("CPU of an event, 1000 pending", nil, table.Time(ten/time.Duration(10*events)), table.Target{})
	b.note("real time, a watch in memory that tells each snapshot's and content's states; Velero has no such wait: it has a goroutine and two reads per interval for each volume it waits for.")
}

// cost is what a wait needs.
type cost struct {
	heap       int64 // bytes of each snapshot
	goroutines int
}

// waiting is a wait under way.
type waiting struct {
	*csisnapshot.Waiter

	api     *scripted
	pending []*csisnapshot.Pending
	done    chan error
}

func begin(t *testing.T) *waiting {
	t.Helper()
	w := &waiting{api: newScripted(), done: make(chan error, 1)}
	var err error
	w.Waiter, err = csisnapshot.NewWaiter(csisnapshot.NewDynamic(w.api), csisnapshot.WaitOptions{}, anchorOwner, csisnapshot.Names{}, []string{app})
	must(t, err)
	go func() { w.done <- w.Run(t.Context()) }()
	<-w.Opened()
	return w
}

// add adds n snapshots and tells the states in which they wait for their cut.
func (w *waiting) add(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		vs := pendingSnapshot(i)
		w.pending = append(w.pending, w.Add(csisnapshot.Target{Snapshot: &vs, Driver: "csi.example.dev", Created: true}, csisnapshot.StageReady))
	}
	for i := range n {
		must(t, w.api.tell("volumesnapshots", snapshotObject(i)))
		must(t, w.api.tell("volumesnapshotcontents", contentObject(i, 0)))
	}
}

// end drops all, and checks that each was still waited for.
func (w *waiting) end(t *testing.T) {
	t.Helper()
	for _, p := range w.pending {
		if now := p.Now(); !now.Begun || now.Cut {
			t.Fatalf("a pending snapshot is %+v, want it begun and not cut", now)
		}
		p.Drop()
	}
	w.Close()
	if err := <-w.done; err != nil && !errors.Is(err, csisnapshot.ErrCanceled) {
		t.Fatal(err)
	}
}

func wait(t *testing.T, n int) cost {
	t.Helper()
	goroutines, before := runtime.NumGoroutine(), live()
	w := begin(t)
	w.add(t, n)
	c := cost{goroutines: runtime.NumGoroutine() - goroutines, heap: (live() - before) / int64(n)}
	w.end(t)
	return c
}

// feed is the CPU time of so many events of contents that n snapshots wait for.
func feed(t *testing.T, n, events int) time.Duration {
	t.Helper()
	w := begin(t)
	w.add(t, n)
	took := cpu(func() {
		for i := range events {
			must(t, w.api.tell("volumesnapshotcontents", contentObject(i%n, 1+i/n)))
		}
	})
	w.end(t)
	return took
}
