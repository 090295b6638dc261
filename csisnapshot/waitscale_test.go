package csisnapshot_test

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

func TestWaitRequestsAndGoroutinesDoNotGrow(t *testing.T) {
	// S3 snap-6 all-7: from 100 to 10000 snapshots the requests besides creates are four, and a page of 500 of each resource
	// for every safety read, which come by time; the goroutines are as many.
	const reads = 3
	goroutines := map[int][]int{}
	for _, n := range []int{100, 1000, race.Scaled(10_000, 2000)} {
		synctest.Test(t, func(t *testing.T) {
			s := runScripted(t, n, csisnapshot.WaitOptions{Timeout: scriptTimeout})
			pending := s.addAll(n)
			time.Sleep(reads*time.Minute + time.Second)
			synctest.Wait()
			running := runtime.NumGoroutine()
			goroutines[running] = append(goroutines[running], n)
			got, want := s.api.snapshots.requests()+s.api.contents.requests(), 4+reads*2*((n+499)/500)
			t.Logf("%d snapshots, %d minutes: %d requests besides creates, %d goroutines", n, reads, got, running)
			if got != want {
				t.Errorf("%d requests for %d snapshots, want %d", got, n, want)
			}
			s.end(t, pending)
		})
	}
	if len(goroutines) != 1 {
		t.Errorf("snapshots by number of goroutines: %v", goroutines)
	}
}

func TestWaitHeap(t *testing.T) {
	// S3: what a waiter keeps of a snapshot that is picked up and begun, read and told, is at most 4 KiB.
	const limit = 4 << 10
	n := race.Scaled(10_000, 2000)
	synctest.Test(t, func(t *testing.T) {
		s := runScripted(t, n, csisnapshot.WaitOptions{Timeout: scriptTimeout})
		before := liveHeap()
		pending := s.addAll(n)
		time.Sleep(time.Minute + time.Second) // everything is read, too
		synctest.Wait()
		each := (liveHeap() - before) / int64(n)
		t.Logf("%d pending snapshots: %d bytes of live heap each", n, each)
		if each <= 0 || each > limit {
			t.Errorf("%d bytes for each of %d pending snapshots, want at most %d", each, n, limit)
		}
		s.end(t, pending)
	})
}

// liveHeap is how many bytes are in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestWaitNineHundredInASlowQueue(t *testing.T) {
	t.Parallel()
	// S7: 900 snapshots on a controller with its default rate, which puts its finalizer on all at once and then makes one
	// content in 1.8 s, are all cut: none fails, although most wait longer than Timeout.
	synctest.Test(t, func(t *testing.T) {
		const n, interval = 900, 1800 * time.Millisecond
		s := runOn(t, newScriptedAPI(n, finalized, made), csisnapshot.WaitOptions{SafetyRead: time.Hour})
		s.api.contents.hold(0)
		start := time.Now()
		var pending []*csisnapshot.Pending
		for i := range n {
			vs := scriptedSnapshot(i)
			pending = append(pending, s.Add(csisnapshot.Target{Snapshot: &vs, Driver: backuptest.DefaultDriver, Created: true}, csisnapshot.StageCut))
			s.api.snapshots.tell(finalized(i))
		}
		for i := range n {
			time.Sleep(interval)
			s.api.contents.hold(i + 1)
			s.api.contents.tell(made(i))
		}
		failed := 0
		for _, p := range pending {
			if _, err := p.Wait(t.Context(), csisnapshot.StageCut); err != nil {
				failed++
				t.Log(err)
			}
		}
		took := time.Since(start)
		t.Logf("%d snapshots in a queue of %v: %d failed", n, took, failed)
		if failed != 0 || took != n*interval {
			t.Errorf("%d failed in %v, want none in %v", failed, took, n*interval)
		}
		s.end(t, nil)
	})
}

func TestThousandNeverReadyCostOneTimeout(t *testing.T) {
	t.Parallel()
	// S7 snap-1: 1000 snapshots that nothing ever picks up cost one Timeout in all, whatever may be in flight at a time; those
	// that a limit has not let start say so.
	n := race.Scaled(1000, 200)
	for _, tt := range []struct{ limit, started int }{{0, n}, {10, 10}} {
		synctest.Test(t, func(t *testing.T) {
			l := newCutLab(t, backuptest.ControllerOptions{}, claims(numbered("c", n)...)...)
			l.stop()
			l.all.Wait()
			l.cluster.ResetRequests()
			report := l.mustCut(csisnapshot.Options{Concurrency: tt.limit, Wait: csisnapshot.WaitOptions{SafetyRead: time.Hour}})
			timeouts, unstarted := 0, 0
			for _, v := range report.Volumes {
				switch {
				case errors.Is(v.Err, csisnapshot.ErrNotStarted):
					unstarted++
				case errors.Is(v.Err, csisnapshot.ErrTimeout):
					timeouts++
				}
			}
			t.Logf("limit %d: %v, %d timed out, %d not started, requests %v", tt.limit, report.Duration, timeouts, unstarted, l.cluster.Requests())
			if timeouts != tt.started || unstarted != n-tt.started {
				t.Errorf("limit %d: %d timed out and %d did not start, want %d and %d", tt.limit, timeouts, unstarted, tt.started, n-tt.started)
			}
			if d := report.Duration; d < 10*time.Minute || d > 10*time.Minute+10*time.Second {
				t.Errorf("limit %d: %v, want one Timeout of ten minutes", tt.limit, d)
			}
		})
	}
}
