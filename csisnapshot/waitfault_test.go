package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

func TestWaitOutlivesRequestsWithoutAnswer(t *testing.T) {
	t.Parallel()
	// S8: reads that hang are given up one by one, and the snapshot is not lost.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{CutAfter: 20 * time.Second}), 1)
		var hung atomic.Int32
		l.trouble = func(r *http.Request, info apirequest.Info) error {
			if info.IsWrite() || hung.Add(1) > 5 {
				return nil
			}
			<-r.Context().Done()
			return r.Context().Err()
		}
		w := l.run(t.Context(), csisnapshot.WaitOptions{CallTimeout: 10 * time.Second})
		began := l.at()
		p := w.add(0, csisnapshot.StageReady)
		if _, err := p.Wait(t.Context(), csisnapshot.StageReady); err != nil || l.at()-began > time.Minute {
			t.Errorf("after %v: %v", l.at()-began, err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitFallsBackAndReturns(t *testing.T) {
	t.Parallel()
	// S1: a watch that is forbidden is replaced by polling, which is reported, and tried again after RetryWatch.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{CutAfter: 10 * time.Minute}), 1)
		remove := l.cluster.Fault(backuptest.Fault{Verb: "watch", Resource: "volumesnapshotcontents", Code: 403})
		var (
			mu      sync.Mutex
			changes []string
		)
		w := l.run(t.Context(), csisnapshot.WaitOptions{
			RetryWatch: 3 * time.Minute, Timeout: time.Hour,
			Events: csisnapshot.WaitEvents{ModeChanged: func(c csisnapshot.ModeChange) {
				mu.Lock()
				defer mu.Unlock()
				changes = append(changes, fmt.Sprintf("%v %s %s %v", l.at().Round(time.Second), c.Resource, c.Mode, c.Err != nil))
			}},
		})
		w.add(0, csisnapshot.StageCut)
		time.Sleep(time.Minute)
		remove()
		time.Sleep(3 * time.Minute)
		l.counter.Reset()
		time.Sleep(50 * time.Second)
		if got := l.counter.Requests()["get volumesnapshotcontents"]; got > 1 {
			t.Errorf("%d reads of the content in 50s of watching", got)
		}
		mu.Lock()
		got := slices.Clone(changes)
		mu.Unlock()
		want := []string{"0s volumesnapshotcontents poll true", "3m2s volumesnapshotcontents watch false"}
		if !slices.Equal(got, want) {
			t.Errorf("changes %q, want %q", got, want)
		}
		w.Close()
		if err := <-w.done; err != nil {
			t.Error(err)
		}
	})
}

func TestWatchThatEndsWithEachEvent(t *testing.T) {
	t.Parallel()
	// S3 S8: a watch that ends as soon as it has told something is not opened again for every event.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
		l.stopController()
		l.cluster.Fault(backuptest.Fault{Verb: "watch", Resource: "volumesnapshots", Action: backuptest.FaultEndWatch, After: 1})
		ctx, cancel := context.WithCancel(t.Context())
		w := l.run(ctx, csisnapshot.WaitOptions{})
		w.add(0, csisnapshot.StageCut)
		synctest.Wait()
		l.cluster.ResetRequests()
		const seconds, perSecond = 10, 20
		for i := range seconds * perSecond {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.dev/count":"%d"}}}`, i)
			if _, err := l.client.Snapshots().Patch(t.Context(), "app", l.ref(0).Name, patch); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / perSecond)
		}
		if got := l.cluster.Requests()["watch volumesnapshots"]; got < seconds/2 || got > 2*seconds {
			t.Errorf("%d watches in %d s, want about one a second", got, seconds)
		}
		cancel()
		_ = w.finish() // it was canceled
	})
}

func TestWaitReadsForbidden(t *testing.T) {
	t.Parallel()
	// all-9 S8: reads that stay forbidden end the wait with a typed error, long before the timeout; the first refusals do not.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		l.stopController()
		for _, verb := range []string{"list", "watch", "get"} {
			l.cluster.Fault(backuptest.Fault{Verb: verb, Resource: "volumesnapshots", Code: 403})
		}
		w := l.run(t.Context(), csisnapshot.WaitOptions{})
		p := w.add(0, csisnapshot.StageCut)
		began := l.at()
		_, err := p.Wait(t.Context(), csisnapshot.StageCut)
		if took := l.at() - began; !errors.Is(err, csisnapshot.ErrForbidden) || took < 5*time.Second || took > 20*time.Second {
			t.Errorf("after %v: %v, want ErrForbidden after about 10s", took, err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitLosesNothingBeforeAdd(t *testing.T) {
	t.Parallel()
	// S3: events may arrive before the answer to the create. What they told is not lost, and needs no read.
	for name, tt := range map[string]struct {
		reason  string
		delete  bool
		created bool
		gets    int
	}{
		"ready before":                   {"kept from the watches", false, true, 0},
		"ready before, and it was there": {"the watches told all, so nothing is left to read", false, false, 0},
		"deleted before":                 {"the content is asked whether it was ready", true, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
				w := l.run(t.Context(), csisnapshot.WaitOptions{})
				vs := l.create(0)
				time.Sleep(10 * time.Second)
				if tt.delete {
					if err := l.client.Snapshots().Delete(t.Context(), vs.Namespace, vs.Name, csisnapshot.Preconditions{UID: vs.UID}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Second)
				}
				l.counter.Reset()
				began := l.at()
				p := w.Add(csisnapshot.Target{Snapshot: &vs, Driver: backuptest.DefaultDriver, Created: tt.created}, csisnapshot.StageReady)
				_, err := p.Wait(t.Context(), csisnapshot.StageReady)
				if tt.delete != errors.Is(err, csisnapshot.ErrDeleted) || !tt.delete && err != nil || l.at() != began {
					t.Errorf("after %v: %v: %s", l.at()-began, err, tt.reason)
				}
				if got := l.counter.Requests()["get volumesnapshotcontents"]; got != tt.gets {
					t.Errorf("%d reads of the content, want %d: %s", got, tt.gets, tt.reason)
				}
				if err := w.finish(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWaitOutlivesALostLabel(t *testing.T) {
	t.Parallel()
	// S8 S3: a snapshot that loses the label by which it is watched is not deleted; it is read by name from then on.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{CutAfter: 20 * time.Second}), 1)
		w := l.run(t.Context(), csisnapshot.WaitOptions{})
		p := w.add(0, csisnapshot.StageReady)
		time.Sleep(5 * time.Second)
		patch := []byte(`{"metadata":{"labels":null}}`)
		if _, err := l.client.Snapshots().Patch(t.Context(), "app", l.ref(0).Name, patch); err != nil {
			t.Fatal(err)
		}
		if res, err := p.Wait(t.Context(), csisnapshot.StageReady); err != nil || l.at() > 2*time.Minute {
			t.Errorf("after %v: %+v, %v, want ready after the next safety read", l.at(), res, err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
	})
}
