package csisnapshot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestWaitStages(t *testing.T) {
	t.Parallel()
	// S2: cut and ready are waited for separately; S1: each is known within a moment by watch.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{CutAfter: 2 * time.Second, ReadyAfter: 20 * time.Second}), 1)
		w := l.run(t.Context(), csisnapshot.WaitOptions{})
		p := w.add(0, csisnapshot.StageReady)
		cut, err := p.Wait(t.Context(), csisnapshot.StageCut)
		if err != nil || cut.Handle == "" || cut.Ready {
			t.Fatalf("cut: %+v, %v", cut, err)
		}
		if got := l.at(); got < 2*time.Second || got > 2200*time.Millisecond {
			t.Errorf("cut known after %v, want 2s", got)
		}
		ready, err := p.Wait(t.Context(), csisnapshot.StageReady)
		if err != nil || !ready.Ready || ready.Handle != cut.Handle || ready.RestoreSize == nil || ready.CreationTime == nil {
			t.Fatalf("ready: %+v, %v", ready, err)
		}
		if err := w.finish(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestWaitIsCheapForTheServer(t *testing.T) {
	t.Parallel()
	// S3: for N snapshots the number of reads does not depend on N, however long the wait is.
	onEachAdapter(t, func(t bubble) {
		const n = 25
		l := newWaitLab(t.T, t.adapter, scripts(n, backuptest.Script{CutAfter: 3 * time.Second, ReadyAfter: 10 * time.Second}), n)
		w := l.run(t.Context(), csisnapshot.WaitOptions{})
		want := map[string]int{
			"list volumesnapshots": 1, "watch volumesnapshots": 1, "list volumesnapshotcontents": 1, "watch volumesnapshotcontents": 1,
		}
		if diff := cmp.Diff(want, l.counter.Requests()); diff != "" {
			t.Errorf("requests of opening: %s", diff)
		}
		var pending []*csisnapshot.Pending
		for i := range n {
			pending = append(pending, w.add(i, csisnapshot.StageReady))
		}
		for _, p := range pending {
			if _, err := p.Wait(t.Context(), csisnapshot.StageReady); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
		want["create volumesnapshots"] = n
		if diff := cmp.Diff(want, l.counter.Requests()); diff != "" {
			t.Errorf("requests of the whole wait: %s", diff)
		}
	})
}

func TestWaitPollsOnSchedule(t *testing.T) {
	t.Parallel()
	// S1: one round at each instant of the schedule, 1 s for 10 s and 5 s then, to the millisecond.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 1)
		l.stopController()
		var (
			mu  sync.Mutex
			got []time.Duration
		)
		l.cluster.Fault(backuptest.Fault{Verb: "list", Resource: "volumesnapshots", Observe: func(backuptest.Request) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, l.at())
		}})
		vs := l.create(0)
		ctx, cancel := context.WithTimeout(t.Context(), 31*time.Second)
		defer cancel()
		w := l.run(ctx, csisnapshot.WaitOptions{Mode: csisnapshot.ModePoll, SafetyRead: time.Hour, Timeout: 3 * time.Hour})
		w.Add(csisnapshot.Target{Snapshot: &vs, Created: true}, csisnapshot.StageCut)
		if err := <-w.done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v", err)
		}
		var want []time.Duration
		for _, s := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if !slices.Equal(got, want) {
			t.Errorf("rounds at %v, want %v", got, want)
		}
		if n := l.counter.Requests()["watch volumesnapshots"]; n != 0 {
			t.Errorf("%d watches in mode poll", n)
		}
	})
}

func TestWaitPollReadsManyContentsAtOnce(t *testing.T) {
	t.Parallel()
	// S3: a poll round reads up to 50 contents by name, more by one list.
	for name, tt := range map[string]struct {
		reason      string
		n           int
		gets, lists int
	}{
		"fifty by name": {"GETs are cheaper than the contents of the whole cluster", 50, 50, 0},
		"more by list":  {"one list costs less than that many GETs", 51, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, tt.n)
				l.stopController()
				w := l.run(t.Context(), csisnapshot.WaitOptions{Mode: csisnapshot.ModePoll})
				for i := range tt.n {
					w.add(i, csisnapshot.StageCut)
				}
				l.counter.Reset()
				time.Sleep(1500 * time.Millisecond) // one round
				requests := l.counter.Requests()
				if g, ls := requests["get volumesnapshotcontents"], requests["list volumesnapshotcontents"]; g != tt.gets || ls != tt.lists {
					t.Errorf("%d gets and %d lists, want %d and %d: %s", g, ls, tt.gets, tt.lists, tt.reason)
				}
				if ls := requests["list volumesnapshots"]; ls != 1 {
					t.Errorf("%d lists of snapshots, want 1", ls)
				}
			})
		})
	}
}

func TestWaitModesAgree(t *testing.T) {
	t.Parallel()
	// snap-4 S1: watching and polling give the same results for the same history. snap-3: polling knows a cut within a
	// second in the first ten.
	onEachAdapter(t, func(t bubble) {
		results := map[csisnapshot.Mode][]string{}
		for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
			opts := backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{
				"data-000": {},
				"data-001": {CutAfter: 3 * time.Second, ReadyAfter: time.Minute},
				"data-002": {Errors: []backuptest.DriverError{{Code: "Internal", Text: "busy", Times: 3}}, ReadyAfter: 10 * time.Second},
				"data-003": {Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no such volume"}}},
				"data-004": {Silent: true},
			}}
			l := newWaitLab(t.T, t.adapter, opts, 5)
			w := l.run(t.Context(), csisnapshot.WaitOptions{Mode: mode, Classifier: csisnapshot.FinalCodes("InvalidArgument"), Timeout: 5 * time.Minute})
			var pending []*csisnapshot.Pending
			for i := range 5 {
				pending = append(pending, w.add(i, csisnapshot.StageReady))
			}
			began := l.at()
			if _, err := pending[1].Wait(t.Context(), csisnapshot.StageCut); err != nil || l.at()-began > 4*time.Second {
				t.Errorf("%v: cut known after %v, want within a second of 3s: %v", mode, l.at()-began, err)
			}
			for _, p := range pending {
				res, err := p.Wait(t.Context(), csisnapshot.StageReady)
				text := "ready " + res.Handle
				if err != nil {
					text = errText(err)
				}
				results[mode] = append(results[mode], res.Ref.Name+" "+text)
			}
			if err := w.finish(); err != nil {
				t.Error(err)
			}
		}
		if a, b := results[csisnapshot.ModeWatch], results[csisnapshot.ModePoll]; !slices.EqualFunc(a, b, sameButHandle) {
			t.Errorf("watch\n%s\npoll\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
	})
}

// errText is the category and diagnosis of an error, and the driver's own words: those before it depend on the call.
func errText(err error) string {
	e, ok := errors.AsType[*csisnapshot.WaitError](err)
	if !ok {
		return err.Error()
	}
	return e.Category.Error() + " " + string(e.Diagnosis) + " " + e.LastError[max(0, strings.Index(e.LastError, "rpc error")):]
}

// sameButHandle compares results whose handles come from different storages.
func sameButHandle(a, b string) bool {
	cut := func(s string) string {
		if i := strings.Index(s, "ready "); i >= 0 {
			return s[:i+5]
		}
		return s
	}
	return cut(a) == cut(b)
}

func TestWaitForWhatExists(t *testing.T) {
	t.Parallel()
	// S3: adopted snapshots are read once the watches are open, so that nothing that happened before is missed.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 3)
		var targets []csisnapshot.Target
		for i := range 3 {
			l.create(i)
			targets = append(targets, csisnapshot.Target{Ref: l.ref(i)})
		}
		targets = append(targets, csisnapshot.Target{Ref: csisnapshot.Ref{Namespace: "app", Name: "nothing"}})
		time.Sleep(time.Minute)
		began := l.at()
		outcomes := l.waiter(csisnapshot.WaitOptions{}).Wait(t.Context(), targets, csisnapshot.StageReady)
		for i, o := range outcomes[:3] {
			if o.Err != nil || !o.Result.Ready || o.Result.UID == "" {
				t.Errorf("outcome %d: %+v", i, o)
			}
		}
		if !errors.Is(outcomes[3].Err, csisnapshot.ErrNotFound) {
			t.Errorf("outcome of nothing: %v, want ErrNotFound", outcomes[3].Err)
		}
		if d := l.at() - began; d > time.Second {
			t.Errorf("took %v, want at once", d)
		}
	})
}

func TestWaitDeletedAndReplaced(t *testing.T) {
	t.Parallel()
	// S8 snap-18: a snapshot that someone deletes or replaces is a typed error within one event, in both modes.
	for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			onEachAdapter(t, func(t bubble) {
				l := newWaitLab(t.T, t.adapter, scripts(2, backuptest.Script{CutAfter: time.Hour}), 2)
				l.stopController()
				w := l.run(t.Context(), csisnapshot.WaitOptions{Mode: mode})
				deleted, replaced := w.add(0, csisnapshot.StageReady), w.add(1, csisnapshot.StageReady)
				time.Sleep(10 * time.Second)
				for i := range 2 {
					if err := l.client.Snapshots().Delete(t.Context(), "app", l.ref(i).Name, csisnapshot.Preconditions{}); err != nil {
						t.Fatal(err)
					}
				}
				l.create(1)
				at := l.at()
				_, err := deleted.Wait(t.Context(), csisnapshot.StageCut)
				if !errors.Is(err, csisnapshot.ErrDeleted) {
					t.Errorf("deleted: %v", err)
				}
				_, err = replaced.Wait(t.Context(), csisnapshot.StageCut)
				if !errors.Is(err, csisnapshot.ErrDeleted) && !errors.Is(err, csisnapshot.ErrReplaced) {
					t.Errorf("replaced: %v", err)
				}
				limit := 100 * time.Millisecond
				if mode == csisnapshot.ModePoll {
					limit = 5 * time.Second
				}
				if d := l.at() - at; d > limit {
					t.Errorf("known after %v, want at most %v", d, limit)
				}
				if err := w.finish(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWaitEvents(t *testing.T) {
	t.Parallel()
	// X4: progress is told while the wait runs; a panic in a callback does no harm.
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", scripts(1, backuptest.Script{CutAfter: time.Second, ReadyAfter: 5 * time.Second}), 1)
		var (
			mu    sync.Mutex
			steps []string
		)
		w := l.run(t.Context(), csisnapshot.WaitOptions{Events: csisnapshot.WaitEvents{Changed: func(r csisnapshot.Result, _ error) {
			mu.Lock()
			defer mu.Unlock()
			step := "created"
			switch {
			case r.Ready:
				step = "ready"
			case r.Cut:
				step = "cut"
			case r.PickedUp:
				step = "picked up"
			}
			if len(steps) == 0 || steps[len(steps)-1] != step {
				steps = append(steps, step)
			}
			panic("in a callback")
		}}})
		p := w.add(0, csisnapshot.StageReady)
		if _, err := p.Wait(t.Context(), csisnapshot.StageReady); err != nil {
			t.Fatal(err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
		if got := strings.Join(steps, ", "); got != "picked up, cut, ready" && got != "created, picked up, cut, ready" {
			t.Errorf("steps: %s", got)
		}
	})
}
