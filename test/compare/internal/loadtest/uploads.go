package loadtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

const storeLatency = 50 * time.Millisecond

// uploads is many backups that upload their progress at once.
func uploads(t *testing.T, b *bench) {
	t.Helper()
	keys, each := b.size(64, 40), b.size(10, 2)
	m := newVeleroMap(t, &velerotest.Objects{Latency: storeLatency})
	for i := range keys {
		m.PutOperationsForBackup(veleroOperations(keyOf(i), 1), keyOf(i).Name)
	}
	var failed atomic.Int64
	theirs := wall(func() {
		parallel(keys, func(i int) {
			for n := range each {
				if err := m.upload(keyOf(i).Name, int64(n)); err != nil {
					failed.Add(1)
				}
			}
		})
	})
	ours := newMap(t, &slowStore{latency: storeLatency})
	list := ourOperations(t, 1)
	took := wall(func() {
		parallel(keys, func(i int) {
			for n := range each {
				change := touch(int64(n))
				if n == 0 {
					change = func(l *operations.List) error { return l.Add(slices.Collect(list.All())...) }
				}
				if _, err := ours.Update(t.Context(), keyOf(i), change); err != nil {
					failed.Add(1)
				}
			}
		})
	})
	if failed.Load() > 0 {
		t.Fatalf("%d uploads failed", failed.Load())
	}
	b.row(table.Number(keys).String()+" backups × "+table.Number(each).String()+" uploads", table.Time(theirs), table.Time(took), table.Target{Kind: table.TimesBetter, Limit: float64(b.size(30, 4))})
	b.note("real time, a store that takes %v for each read and write; ours reads each document once before the first write. Velero's map keeps its lock while it uploads.", storeLatency)
}

// hungKey is one backup whose upload never ends, beside others.
func hungKey(t *testing.T, b *bench) {
	t.Helper()
	const latency = 5 * time.Millisecond
	keys, each := 32, b.size(40, 15)
	list := ourOperations(t, 1)
	measure := func(t *testing.T, hang bool) time.Duration {
		t.Helper()
		store := &slowStore{latency: latency}
		m := newMap(t, store)
		for i := range keys {
			_, err := m.Update(t.Context(), keyOf(i), func(l *operations.List) error { return l.Add(slices.Collect(list.All())...) })
			must(t, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var hung sync.WaitGroup
		if hang {
			store.hang = operations.BackupForm.FileName(keyOf(0).Name)
			hung.Go(func() { _, _ = m.Update(ctx, keyOf(0), touch(1)) })
		}
		var mu sync.Mutex
		var took []time.Duration
		parallel(keys-1, func(i int) {
			for n := range each {
				var err error
				d := wall(func() { _, err = m.Update(t.Context(), keyOf(i+1), touch(int64(n))) })
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
		cancel()
		hung.Wait()
		slices.Sort(took)
		return percentile(took, 0.99)
	}
	var virtual [2]time.Duration
	for i, hang := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { virtual[i] = measure(t, hang) })
	}
	rounds := b.size(11, 3)
	free, hung := medians(rounds, func() time.Duration { return measure(t, false) }, func() time.Duration { return measure(t, true) })
	atMost := table.Target{Kind: table.AtMost, Limit: 1.5}
	b.row("another backup's upload, p99, one key hung", veleroHung(t, keys), table.Time(hung), table.Target{})
	b.row("p99 over p99 with none hung ("+table.Time(virtual[0]).String()+"), virtual time", nil, table.Number(virtual[1].Seconds()/virtual[0].Seconds()), atMost)
	b.noisy("p99 over p99 with none hung ("+table.Time(free).String()+"), real time", nil, table.Number(hung.Seconds()/free.Seconds()), atMost)
	b.note("a store that takes %v, %d backups with %d uploads each a round; medians of %d rounds in real time, without and with the hung key in turn. In virtual time nothing but waiting counts. Velero's figure is a bound in real time: none of the other uploads came back while one hung, until the measurement was ended.", latency, keys-1, each, rounds)
}

const veleroPatience = 2 * time.Second

// veleroHung is how long another backup's upload waits while one hangs, at most veleroPatience.
func veleroHung(t *testing.T, keys int) *table.Figure {
	t.Helper()
	free := make(chan struct{})
	begun := make(chan struct{})
	m := newVeleroMap(t, &velerotest.Objects{Fail: func(key string) error {
		if strings.Contains(key, keyOf(0).Name) {
			close(begun)
			<-free
			return errors.New("ended by the test")
		}
		return nil
	}})
	for i := range keys {
		m.PutOperationsForBackup(veleroOperations(keyOf(i), 1), keyOf(i).Name)
	}
	var hung sync.WaitGroup
	hung.Go(func() { _ = m.upload(keyOf(0).Name, 1) })
	<-begun
	start := time.Now()
	other := make(chan error, 1)
	hung.Go(func() { other <- m.upload(keyOf(1).Name, 1) })
	timer := time.NewTimer(veleroPatience)
	defer timer.Stop()
	figure := table.Time(veleroPatience)
	select {
	case err := <-other:
		must(t, err)
		figure = table.Time(time.Since(start))
	case <-timer.C:
		figure.AtLeast = true
	}
	close(free)
	hung.Wait()
	return figure
}
