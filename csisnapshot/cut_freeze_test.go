package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// S5: whatever a pre hook does, the post hook runs once for every pod whose pre hook was started, and the other pods and
// volumes are not harmed (snap-30).
func TestCutThawsWhateverAPreHookDoes(t *testing.T) {
	t.Parallel()
	errHook := errors.New("disk on fire")
	cases := map[string]struct {
		onError csisnapshot.OnError
		exec    func(ctx context.Context) error
		is      error
		text    string
		cut     bool          // the pod's volume is cut all the same
		within  time.Duration // from the start of the pre hook to that of the post hook
	}{
		"error":              {exec: func(context.Context) error { return errHook }, is: errHook, text: "pre hook pre in pod app/pa: disk on fire"},
		"error, on Continue": {exec: func(context.Context) error { return errHook }, onError: csisnapshot.OnErrorContinue, is: errHook, cut: true, within: time.Second},
		"panic":              {exec: func(context.Context) error { panic("boom") }, text: "pre hook pre in pod app/pa: panic: boom"},
		"goexit":             {exec: func(context.Context) error { runtime.Goexit(); return nil }, text: "callback did not return"},
		"timeout": {
			exec: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, is: context.DeadlineExceeded,
			text: "after 20s: timeout of 20s", within: 20 * time.Second,
		},
		"deaf to its context": { // X1: the call goes on without it, and says so
			exec: func(context.Context) error { time.Sleep(5 * time.Minute); return nil }, is: csisnapshot.ErrAbandoned,
			text: "abandoned callback", within: 25 * time.Second,
		},
		"late but well": {exec: func(ctx context.Context) error { <-ctx.Done(); return nil }, cut: true, within: 21 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b", "w"), hookedPod("pa", "a"), hookedPod("pb", "b"), plainPod("web", "w"))...)
				l.quiescer.onError, l.quiescer.timeout = tc.onError, 20*time.Second
				l.quiescer.exec = func(ctx context.Context, pod, stage string) error {
					if pod == "pa" && stage == "pre" {
						return tc.exec(ctx)
					}
					return nil
				}
				report := l.mustCut(csisnapshot.Options{})
				if got, want := l.quiescer.order(), "pa/pre pa/post pb/pre pb/post"; got != want {
					t.Errorf("hooks ran %q, want %q", got, want)
				}
				if took := l.quiescer.find(t, "pa", "post", 0).at - l.quiescer.find(t, "pa", "pre", 0).at; took > tc.within {
					t.Errorf("the post hook started %v after the pre hook, want at most %v", took, tc.within)
				}
				a, pod := volumeOf(t, report, "a"), podOf(t, report, "pa")
				if a.IsCut() != tc.cut || !volumeOf(t, report, "b").IsCut() || !volumeOf(t, report, "w").IsCut() {
					t.Errorf("volumes: %+v", report.Volumes)
				}
				if tc.text == "" && tc.is == nil {
					return
				}
				if len(pod.HookErrors) != 1 || !strings.Contains(pod.HookErrors[0].Error(), tc.text) || tc.is != nil && !errors.Is(pod.HookErrors[0], tc.is) {
					t.Errorf("HookErrors = %v, want one that is %v with %q", pod.HookErrors, tc.is, tc.text)
				}
				if e, ok := errors.AsType[*csisnapshot.HookError](a.Err); !tc.cut && (!ok || e.Stage != "pre" || e.Pod.Name != "pa") {
					t.Errorf("error of the volume = %v, want the *HookError", a.Err)
				}
				time.Sleep(6 * time.Minute) // let an abandoned callback end
			})
		})
	}
}

// S5: a post hook that fails is reported, not repeated in this Cut, and leaves the intent open for the next.
func TestCutPostHookFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
		fail := true
		l.quiescer.exec = func(_ context.Context, _, stage string) error {
			if stage == "post" && fail {
				return errors.New("busy")
			}
			return nil
		}
		report := l.mustCut(csisnapshot.Options{})
		if !volumeOf(t, report, "a").IsCut() {
			t.Errorf("volume: %+v", report.Volumes)
		}
		pod := podOf(t, report, "pa")
		if pod.Err == nil || len(pod.HookErrors) != 1 || pod.HookErrors[0].Stage != "post" || report.Err() == nil {
			t.Errorf("pod report: %+v", pod)
		}
		if got := l.quiescer.order(); got != "pa/pre pa/post" {
			t.Errorf("hooks ran %q", got)
		}
		report = l.mustCut(csisnapshot.Options{})
		if len(report.Leftovers) != 1 || report.Leftovers[0].Outcome != csisnapshot.ThawFailed || report.Leftovers[0].Err == nil {
			t.Errorf("Leftovers of the second Cut: %+v", report.Leftovers)
		}
		fail = false
		report = l.mustCut(csisnapshot.Options{})
		if len(report.Leftovers) != 1 || report.Leftovers[0].Outcome != csisnapshot.ThawDone {
			t.Errorf("Leftovers of the third Cut: %+v", report.Leftovers)
		}
		if report = l.mustCut(csisnapshot.Options{}); len(report.Leftovers) != 0 {
			t.Errorf("Leftovers of the fourth Cut: %+v", report.Leftovers)
		}
	})
}

// S5: MaxFreeze is a timer from the return of the pre hook: the post hook starts exactly then, what was not sent is not
// sent, and the report names what was not cut (snap-31, snap-3).
func TestCutMaxFreeze(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string]backuptest.Script{"slow": {CutAfter: time.Minute}}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts},
			append(claims("quick", "slow", "zz-unsent", "w"), hookedPod("pa", "quick", "slow", "zz-unsent"), plainPod("web", "w"))...)
		l.cluster.Fault(backuptest.Fault{ // the client of one volume waits for longer than the window
			Verb: "create", Resource: "volumesnapshots", Name: csisnapshot.Names{}.Snapshot(cutOwner.UID, backuptest.UIDOf("PersistentVolumeClaim", "app", "zz-unsent")),
			Latency: 20 * time.Second,
		})
		l.quiescer.exec = func(_ context.Context, _, stage string) error {
			if stage == "pre" {
				time.Sleep(7 * time.Second)
			}
			return nil
		}
		report := l.mustCut(csisnapshot.Options{MaxFreeze: 10 * time.Second})
		pre, post := l.quiescer.find(t, "pa", "pre", 0), l.quiescer.find(t, "pa", "post", 0)
		if post.at-pre.end != 10*time.Second {
			t.Errorf("post hook started %v after the pre hook returned, want exactly 10s", post.at-pre.end)
		}
		pod := podOf(t, report, "pa")
		if pod.Frozen != 10*time.Second || pod.Total != 17*time.Second || !pod.WindowClosed {
			t.Errorf("pod report: %+v", pod)
		}
		if want := []string{"app/slow", "app/zz-unsent"}; !slices.Equal(report.Batches[0].NotCutInWindow, want) {
			t.Errorf("NotCutInWindow = %v, want %v", report.Batches[0].NotCutInWindow, want)
		}
		if v := volumeOf(t, report, "quick"); !v.IsCut() || v.NotCutInWindow {
			t.Errorf("quick: %+v", v)
		}
		if v := volumeOf(t, report, "slow"); !v.IsCut() || !v.NotCutInWindow {
			t.Errorf("slow: %+v", v)
		}
		if v := volumeOf(t, report, "zz-unsent"); !errors.Is(v.Err, csisnapshot.ErrWindowClosed) || v.Snapshot != "" {
			t.Errorf("zz-unsent: %+v", v)
		}
		if want := []string{"quick", "slow", "w"}; !slices.Equal(l.stored(), want) {
			t.Errorf("the storage has snapshots of %v, want %v", l.stored(), want)
		}
	})
}

// S5: MaxFreeze also ends the wait for a place under Concurrency.
func TestCutMaxFreezeWithFewPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string]backuptest.Script{"a": {CutAfter: time.Minute}}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, append(claims("a", "b"), hookedPod("pa", "a", "b"))...)
		report := l.mustCut(csisnapshot.Options{MaxFreeze: 10 * time.Second, Concurrency: 1})
		if v := volumeOf(t, report, "b"); !errors.Is(v.Err, csisnapshot.ErrWindowClosed) {
			t.Errorf("b: %+v", v)
		}
		if pod := podOf(t, report, "pa"); pod.Frozen != 10*time.Second {
			t.Errorf("Frozen = %v", pod.Frozen)
		}
	})
}

// S5: a create whose answer is lost as the window ends is found by its name, not counted as unsent (S9, P5's rule).
func TestCutFindsACreateWithoutAnswer(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"window": 10 * time.Second, "no limit": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
				l.cluster.Fault(backuptest.Fault{Verb: "create", Resource: "volumesnapshots", Nth: 1, Action: backuptest.FaultHangAnswer})
				report := l.mustCut(csisnapshot.Options{MaxFreeze: limit})
				checkWhole(t, report)
				if v := volumeOf(t, report, "a"); v.Adopted {
					t.Error("the Cut's own snapshot is reported as adopted")
				}
				if want := []string{"a"}; !slices.Equal(l.stored(), want) {
					t.Errorf("the storage has snapshots of %v", l.stored())
				}
			})
		})
	}
}

// S5, X2: at the end of ctx pods are thawed at once, with a context that lives, and Cut returns why it ended.
func TestCutCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string]backuptest.Script{"a": {Silent: true}}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, append(claims("a", "b", "w"), hookedPod("pa", "a"), hookedPod("pb", "b"), plainPod("web", "w"))...)
		l.quiescer.exec = func(ctx context.Context, _, stage string) error {
			if stage == "post" {
				time.Sleep(3 * time.Second)
				return ctx.Err()
			}
			return nil
		}
		deposed := errors.New("lease lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(40*time.Second, func() { cancel(deposed) })
		start := time.Now()
		report, err := l.cut(ctx, csisnapshot.Options{})
		if !errors.Is(err, deposed) {
			t.Errorf("Cut = %v, want the cause", err)
		}
		if took := time.Since(start); took != 43*time.Second {
			t.Errorf("Cut took %v, want the 40s to the cancel and 3s of the post hook", took)
		}
		if got := l.quiescer.order(); got != "pa/pre pa/post" {
			t.Errorf("hooks ran %q", got)
		}
		if frozen := l.quiescer.frozen(); frozen != nil {
			t.Errorf("frozen: %v", frozen)
		}
		if !strings.Contains(l.intents.content(), "thawedAt") {
			t.Errorf("no thaw record:\n%s", l.intents.content())
		}
		for _, v := range report.Volumes {
			if v.Err == nil {
				t.Errorf("claim %s has no error after a cancel", v.Claim)
			}
		}
	})
}

// S5: without a durable intent nothing is frozen, and Cut says that the intents cannot be kept.
func TestCutFreezesNothingWithoutAnIntent(t *testing.T) {
	t.Parallel()
	errStore := errors.New("store is read-only")
	cases := map[string]struct {
		fail  func(ctx context.Context, save int) error
		order string
		err   error
	}{
		"the first save fails":   {fail: func(context.Context, int) error { return errStore }, err: errStore},
		"the save panics":        {fail: func(context.Context, int) error { panic("store") }, err: csisnapshot.ErrIntents},
		"the save never returns": {fail: func(context.Context, int) error { time.Sleep(5 * time.Minute); return nil }, err: csisnapshot.ErrAbandoned},
		"the thaw record fails":  {fail: func(_ context.Context, n int) error { return failAt(n, 2, errStore) }, order: "pa/pre pa/post pb/pre pb/post"},
		"all later saves fail": {
			fail: func(_ context.Context, n int) error {
				if n > 1 {
					return errStore
				}
				return nil
			}, order: "pa/pre pa/post", err: errStore,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), hookedPod("pa", "a"), hookedPod("pb", "b"))...)
				l.intents.fail = tc.fail
				_, err := l.cut(t.Context(), csisnapshot.Options{})
				if tc.err == nil && err != nil || !errors.Is(err, tc.err) || tc.err != nil && !errors.Is(err, csisnapshot.ErrIntents) {
					t.Errorf("Cut = %v, want %v", err, tc.err)
				}
				if got := l.quiescer.order(); got != tc.order {
					t.Errorf("hooks ran %q, want %q", got, tc.order)
				}
				if errors.Is(err, csisnapshot.ErrAbandoned) && l.intents.count() != 1 {
					t.Errorf("%d saves, want none after one that may still be written", l.intents.count())
				}
				time.Sleep(6 * time.Minute) // let an abandoned save end
			})
		})
	}
}

// S5: a thaw record that could not be saved at once is saved at the end of the Cut.
func TestCutSavesALateThawRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
		l.intents.fail = func(_ context.Context, n int) error { return failAt(n, 2, errors.New("store is away")) }
		checkWhole(t, l.mustCut(csisnapshot.Options{}))
		if !strings.Contains(l.intents.content(), "thawedAt") {
			t.Errorf("no thaw record:\n%s", l.intents.content())
		}
	})
}

// S5: a pre hook that fails ends the pre hooks, and every post hook runs although another of them fails.
func TestCutRunsSeveralHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), hookedPod("pa", "a"), hookedPod("pb", "b"))...)
		l.quiescer.names = []string{"1", "2"}
		l.quiescer.exec = func(_ context.Context, pod, stage string) error {
			if pod == "pb" && (stage == "pre1" || stage == "post1") {
				return errors.New("no")
			}
			return nil
		}
		report := l.mustCut(csisnapshot.Options{})
		want := "pa/pre1 pa/pre2 pa/post1 pa/post2 pb/pre1 pb/post1 pb/post2"
		if got := l.quiescer.order(); got != want {
			t.Errorf("hooks ran %q, want %q", got, want)
		}
		if pod := podOf(t, report, "pb"); len(pod.HookErrors) != 2 || pod.Err == nil {
			t.Errorf("pod report: %+v", pod)
		}
	})
}

func failAt(n, at int, err error) error {
	if n == at {
		return err
	}
	return nil
}

// X8: a document that cannot be understood is left as it is, nothing is done, and the error says why.
func TestCutRefusesStrangeIntents(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ data, text string }{
		"a later version": {data: `{"version":2,"intents":[]}`, text: "format version 2, this release knows 1"},
		"not JSON":        {data: `frozen!`, text: "invalid character"},
		"two documents":   {data: `{"version":1}{"version":1}`, text: "more than one document"},
		"no pod":          {data: `{"version":1,"intents":[{"namespace":"app","podUID":"u"}]}`, text: "entry 0"},
		"a pod twice":     {data: `{"version":1,"intents":[{"namespace":"app","pod":"p","podUID":"u"},{"namespace":"app","pod":"q","podUID":"u"}]}`, text: "entry 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
				l.intents.data = []byte(tc.data)
				_, err := l.cut(t.Context(), csisnapshot.Options{})
				if !errors.Is(err, csisnapshot.ErrIntents) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("Cut = %v, want ErrIntents with %q", err, tc.text)
				}
				if l.intents.content() != tc.data || l.stored() != nil || l.quiescer.order() != "" {
					t.Errorf("something was done: %q, %v, %q", l.intents.content(), l.stored(), l.quiescer.order())
				}
			})
		})
	}
}

// S5: hooks run only where the container runs, looked at again just before the freeze: a pod that has ended or restarts
// by then is cut unfrozen, and one that was recreated is frozen under its new UID.
func TestCutLooksAtThePodAgain(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pod   func() *backuptest.Pod // nil: the pod is gone
		note  string
		order string
	}{
		"gone":                  {pod: func() *backuptest.Pod { return nil }, note: "the pod is gone"},
		"ended":                 {pod: func() *backuptest.Pod { p := hookedPod("pa", "a"); p.Phase = "Failed"; return &p }, note: "the pod is gone"},
		"pending again":         {pod: func() *backuptest.Pod { p := hookedPod("pa", "a"); p.Phase = "Pending"; return &p }, note: "pod is Pending"},
		"its container stopped": {pod: func() *backuptest.Pod { p := hookedPod("pa", "a"); p.NotRunning = []string{"main"}; return &p }, note: "container main does not run"},
		"its hooks are gone":    {pod: func() *backuptest.Pod { p := plainPod("pa", "a"); return &p }, note: "the pod has no hooks any more"},
		"recreated":             {pod: func() *backuptest.Pod { p := hookedPod("pa", "a"); p.UID = "new"; return &p }, order: "pa/pre pa/post"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pod := hookedPod("pa", "a")
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), plainPod("web"))...)
				if err := l.cluster.Add(pod.Objects()...); err != nil {
					t.Fatal(err)
				}
				s := l.snapshotter(csisnapshot.Options{})
				plan, err := s.Plan(t.Context(), "app")
				if err != nil {
					t.Fatal(err)
				}
				l.deletePod("pa")
				if now := tc.pod(); now != nil {
					if err := l.cluster.Add(now.Objects()...); err != nil {
						t.Fatal(err)
					}
				}
				report, err := s.Cut(t.Context(), cutOwner, plan)
				if err != nil {
					t.Fatal(err)
				}
				checkWhole(t, report)
				got := podOf(t, report, "pa")
				if got.Note != tc.note || got.Hooked != (tc.order != "") || l.quiescer.order() != tc.order {
					t.Errorf("pod report %+v, hooks %q, want note %q and %q", got, l.quiescer.order(), tc.note, tc.order)
				}
				if tc.order != "" && got.UID != "new" {
					t.Errorf("UID = %s, want that of the pod that was frozen", got.UID)
				}
			})
		})
	}
}

// S5, as a model: with random latencies, errors, panics, deaf hooks, limits and cancels, every pod whose pre hook started
// has exactly one post hook after it, and post.start - pre.return is at most MaxFreeze.
func TestCutFreezeModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(race.Scaled(15, 6)) {
		synctest.Test(t, func(t *testing.T) { freezeModel(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func freezeModel(t *testing.T, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	var mu sync.Mutex // guards rnd once hooks run
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }
	builders := claims(numbered("c", 8)...)
	scripts := map[string]backuptest.Script{}
	for _, c := range numbered("c", 8) {
		scripts[c] = backuptest.Script{CutAfter: time.Duration(rnd.IntN(20)) * time.Second, Silent: rnd.IntN(10) == 0}
	}
	for i := range 5 {
		builders = append(builders, hookedPod(fmt.Sprintf("p%d", i), fmt.Sprintf("c%03d", i), fmt.Sprintf("c%03d", rnd.IntN(8))))
	}
	l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, builders...)
	l.quiescer.timeout = 15 * time.Second
	l.quiescer.exec = func(ctx context.Context, _, _ string) error {
		time.Sleep(time.Duration(roll(3000)) * time.Millisecond)
		switch roll(12) {
		case 0:
			return errors.New("no")
		case 1:
			panic("no")
		case 2:
			<-ctx.Done()
			return ctx.Err()
		case 3:
			time.Sleep(time.Minute)
		}
		return nil
	}
	opts := csisnapshot.Options{
		MaxFreeze: time.Duration(rnd.IntN(3)) * 6 * time.Second, MaxFrozenPods: rnd.IntN(4), Concurrency: rnd.IntN(4),
		Wait: csisnapshot.WaitOptions{Timeout: time.Minute},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if rnd.IntN(3) == 0 {
		time.AfterFunc(time.Duration(rnd.IntN(60))*time.Second, cancel)
	}
	report, err := l.cut(ctx, opts)
	if err != nil && ctx.Err() == nil {
		t.Errorf("Cut: %v", err)
	}
	time.Sleep(5 * time.Minute) // let abandoned callbacks end
	pre, post := map[string]int{}, map[string]int{}
	for _, r := range l.quiescer.runs() {
		if r.stage == "pre" {
			pre[r.pod]++
			continue
		}
		if post[r.pod]++; pre[r.pod] != post[r.pod] {
			t.Errorf("post hook of %s ran without its pre hook: %q", r.pod, l.quiescer.order())
		}
	}
	for pod, n := range pre {
		if n != 1 || post[pod] != 1 {
			t.Errorf("pod %s: %d pre and %d post hooks", pod, n, post[pod])
		}
		if got := podOf(t, report, pod); opts.MaxFreeze > 0 && got.Frozen > opts.MaxFreeze {
			t.Errorf("pod %s: frozen for %v, MaxFreeze %v", pod, got.Frozen, opts.MaxFreeze)
		}
	}
	if stored := l.stored(); len(stored) != len(slices.Compact(stored)) {
		t.Errorf("a volume has two snapshots: %v", l.stored())
	}
}
