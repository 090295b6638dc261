package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// troubles are what an API server, or the way to it, may do to reads. Those with a duration pass after it.
var troubles = map[string]struct {
	fault backuptest.Fault
	lasts time.Duration // zero: for ever
}{
	"refused":                {backuptest.Fault{Action: backuptest.FaultRefuse}, 8 * time.Second},
	"reset":                  {backuptest.Fault{Action: backuptest.FaultReset}, 8 * time.Second},
	"429 with Retry-After":   {backuptest.Fault{Code: 429, RetryAfter: 2 * time.Second}, 8 * time.Second},
	"500":                    {backuptest.Fault{Code: 500}, 8 * time.Second},
	"503":                    {backuptest.Fault{Code: 503}, 8 * time.Second},
	"forbidden for 2 s":      {backuptest.Fault{Code: 403}, 2 * time.Second},
	"resource missing":       {backuptest.Fault{Code: 404, Message: "the server could not find the requested resource"}, 5 * time.Second},
	"watch forbidden":        {backuptest.Fault{Verb: "watch", Code: 403}, 0},
	"watch unsupported":      {backuptest.Fault{Verb: "watch", Code: 405}, 0},
	"watch does not open":    {backuptest.Fault{Verb: "watch", Action: backuptest.FaultHang}, 0},
	"watch ends at once":     {backuptest.Fault{Verb: "watch", Action: backuptest.FaultEndWatch}, 0},
	"watch ends":             {backuptest.Fault{Verb: "watch", Action: backuptest.FaultEndWatch, After: 1}, 0},
	"watch expires":          {backuptest.Fault{Verb: "watch", Action: backuptest.FaultExpireWatch, After: 1}, 0},
	"watch is silent":        {backuptest.Fault{Verb: "watch", Action: backuptest.FaultSilenceWatch}, 0},
	"watch falls silent":     {backuptest.Fault{Verb: "watch", Action: backuptest.FaultSilenceWatch, After: 1}, 0},
	"an event is lost":       {backuptest.Fault{Verb: "watch", Action: backuptest.FaultLoseEvent, After: 1, Times: 100, Nth: 1}, 0},
	"bookmarks are lost":     {backuptest.Fault{Verb: "watch", Action: backuptest.FaultLoseBookmarks}, 0},
	"watch forbidden at 1st": {backuptest.Fault{Verb: "watch", Code: 403}, time.Second},
}

func TestWaitRidesOutTrouble(t *testing.T) {
	t.Parallel()
	// S1 S8 snap-17 all-9: whatever happens to reads, no ready snapshot is lost, nothing is deleted, and a snapshot that is
	// never cut is one typed timeout.
	for _, trouble := range slices.Sorted(maps.Keys(troubles)) {
		for _, resource := range []string{"volumesnapshots", "volumesnapshotcontents"} {
			for _, cut := range []time.Duration{2 * time.Second, 30 * time.Second, 0} {
				t.Run(fmt.Sprintf("%s/%s/%v", trouble, resource, cut), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { rideOut(bubble{T: t, adapter: "dynamic"}, trouble, resource, cut) })
				})
			}
		}
	}
}

// rideOut waits for a snapshot that is cut after a time, zero for never, under trouble.
func rideOut(t bubble, trouble, resource string, cut time.Duration) {
	script := backuptest.Script{CutAfter: cut, ReadyAfter: time.Second}
	if cut == 0 {
		script = backuptest.Script{Silent: true}
	}
	opts := scripts(1, script)
	if cut > 0 {
		opts.Resync = time.Second // the controller meets the same trouble
	}
	l := newWaitLab(t.T, t.adapter, opts, 1)
	synctest.Wait()
	for _, verb := range []string{"get", "list", "watch"} {
		fault := troubles[trouble].fault
		if fault.Verb != "" && fault.Verb != verb {
			continue
		}
		fault.Resource, fault.Verb = resource, verb
		remove := l.cluster.Fault(fault)
		if d := troubles[trouble].lasts; d > 0 {
			time.AfterFunc(d, remove)
		}
	}
	w := l.run(t.Context(), csisnapshot.WaitOptions{})
	p := w.add(0, csisnapshot.StageReady)
	began := l.at()
	res, err := p.Wait(t.Context(), csisnapshot.StageReady)
	took := l.at() - began
	switch {
	case cut == 0 && (!errors.Is(err, csisnapshot.ErrTimeout) || took < 10*time.Minute || took > 11*time.Minute):
		t.Errorf("after %v: %v, want one timeout after 10 minutes", took, err)
	case cut != 0 && (err != nil || !res.Ready):
		t.Errorf("after %v: %+v, %v, want ready", took, res, err)
	case cut != 0 && took > cut+2*time.Minute:
		t.Errorf("ready after %v, want soon after %v", took, cut)
	}
	if err := w.finish(); err != nil {
		t.Error(err)
	}
	for request, n := range l.counter.Requests() {
		if request != "create volumesnapshots" && !slices.Contains([]string{"get", "list", "watch"}, request[:max(0, indexSpace(request))]) {
			t.Errorf("%d %q: waiting changes nothing", n, request)
		}
	}
}

func indexSpace(s string) int {
	for i, c := range s {
		if c == ' ' {
			return i
		}
	}
	return 0
}

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
