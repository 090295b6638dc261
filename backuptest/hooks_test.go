package backuptest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// newHooks freezes and thaws every pod.
func newHooks() *backuptest.Hooks[csisnapshot.PodHooks, csisnapshot.PodRef, csisnapshot.Hook] {
	return backuptest.NewHooks(
		func(*corev1.Pod) (csisnapshot.PodHooks, error) {
			hook := func(kind backuptest.HookKind) []csisnapshot.Hook {
				return []csisnapshot.Hook{{Name: string(kind), Command: []string{string(kind)}}}
			}
			return csisnapshot.PodHooks{Pre: hook(backuptest.HookFreeze), Post: hook(backuptest.HookThaw)}, nil
		},
		func(pod csisnapshot.PodRef, hook csisnapshot.Hook) backuptest.HookCall {
			return backuptest.HookCall{Pod: pod.String(), Kind: backuptest.HookKind(hook.Name)}
		})
}

var _ csisnapshot.Quiescer = newHooks()

// B3: each script does what it says, and the most exact one acts.
func TestHookScripts(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	call := backuptest.HookCall{Pod: "app/a", Kind: backuptest.HookFreeze, Name: "lock"}
	tests := map[string]struct {
		reason  string
		scripts map[backuptest.HookCall]backuptest.HookScript
		want    []string // of three runs
	}{
		"none":     {"no script", nil, []string{"0s ok", "0s ok", "0s ok"}},
		"slow":     {"a run takes its time", map[backuptest.HookCall]backuptest.HookScript{{}: {Latency: time.Second}}, []string{"1s ok", "1s ok", "1s ok"}},
		"too slow": {"the context ends it", map[backuptest.HookCall]backuptest.HookScript{{}: {Latency: time.Hour}}, []string{"1m0s context deadline exceeded", "1m0s context deadline exceeded", "1m0s context deadline exceeded"}},
		"errors":   {"in order, then success", map[backuptest.HookCall]backuptest.HookScript{{}: {Errors: []error{boom, nil}}}, []string{"0s boom", "0s ok", "0s ok"}},
		"always":   {"after the first ones", map[backuptest.HookCall]backuptest.HookScript{{}: {Errors: []error{nil}, Always: boom}}, []string{"0s ok", "0s boom", "0s boom"}},
		"hang":     {"until the context ends", map[backuptest.HookCall]backuptest.HookScript{{}: {Hang: true}}, []string{"1m0s context deadline exceeded", "1m0s context deadline exceeded", "1m0s context deadline exceeded"}},
		"panic":    {"the library must contain it", map[backuptest.HookCall]backuptest.HookScript{{}: {Panic: "ouch"}}, []string{"0s ouch", "0s ouch", "0s ouch"}},
		"exact": {"a pod goes before a kind, and both before one", map[backuptest.HookCall]backuptest.HookScript{
			{}: {Latency: 1 * time.Second}, {Kind: "freeze"}: {Latency: 2 * time.Second}, {Pod: "app/a"}: {Latency: 3 * time.Second},
		}, []string{"3s ok", "3s ok", "3s ok"}},
		"most exact": {"all three fields fit", map[backuptest.HookCall]backuptest.HookScript{
			{Pod: "app/a", Kind: "freeze"}: {Latency: 2 * time.Second}, call: {Latency: 4 * time.Second},
		}, []string{"4s ok", "4s ok", "4s ok"}},
		"other": {"neither pod nor kind nor name fits", map[backuptest.HookCall]backuptest.HookScript{
			{Pod: "app/b"}: {Always: boom}, {Kind: "thaw"}: {Always: boom}, {Name: "sync"}: {Always: boom},
		}, []string{"0s ok", "0s ok", "0s ok"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log backuptest.HookLog
				for hooks, script := range tc.scripts {
					log.Script(hooks, script)
				}
				var got []string
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					start := time.Now()
					outcome := runHook(ctx, &log, call)
					got = append(got, fmt.Sprint(time.Since(start), " ", outcome))
					cancel()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s -want +got:\n%s", tc.reason, diff)
				}
				for _, r := range log.Runs() {
					if r.Ended.IsZero() || r.HookCall != call {
						t.Errorf("run %v, want an ended one of %v", r, call)
					}
				}
			})
		})
	}
}

func runHook(ctx context.Context, log *backuptest.HookLog, call backuptest.HookCall) (outcome any) {
	defer func() {
		if p := recover(); p != nil {
			outcome = p
		}
	}()
	if err := log.Run(ctx, call); err != nil {
		return err
	}
	return "ok"
}

// S5: freezes are told from the end of the freeze to the beginning of the thaw that worked, and the checks name the pods.
func TestFreezes(t *testing.T) {
	t.Parallel()
	type step struct {
		pod   string
		kind  backuptest.HookKind
		after time.Duration
		err   error
	}
	boom := errors.New("boom")
	tests := map[string]struct {
		reason  string
		steps   []step
		freezes []string
		frozen  []string
		once    string
		atMost  string // five seconds
	}{
		"nothing": {reason: "no hook ran"},
		"whole": {
			reason:  "a hook takes a second; the freeze is what is between them",
			steps:   []step{{"app/a", "freeze", 0, nil}, {"app/a", "", 0, nil}, {"app/a", "thaw", time.Second, nil}},
			freezes: []string{"app/a 1s 3s"},
		},
		"left frozen": {
			reason:  "nothing thawed it",
			steps:   []step{{"app/a", "freeze", 0, nil}},
			freezes: []string{"app/a 1s frozen"}, frozen: []string{"app/a"},
			once:   "want every frozen pod thawed once, got:\n\t0s freeze app/a",
			atMost: "want no pod frozen for more than 5s, got:\n\t0s freeze app/a",
		},
		"thaw fails, then works": {
			reason: "the one that worked counts",
			steps: []step{
				{"app/a", "freeze", 0, nil}, {"app/a", "thaw", 0, boom}, {"app/a", "thaw", 4 * time.Second, nil},
			},
			freezes: []string{"app/a 1s 6s"},
		},
		"freeze fails": {
			reason:  "half of it may have happened, so it is thawed",
			steps:   []step{{"app/a", "freeze", 0, boom}, {"app/a", "thaw", 0, nil}},
			freezes: []string{"app/a 0s 1s"},
		},
		"thawed twice": {
			reason:  "another pod is in order",
			steps:   []step{{"app/b", "freeze", 0, nil}, {"app/b", "thaw", 0, nil}, {"app/a", "freeze", 0, nil}, {"app/a", "thaw", 6 * time.Second, nil}, {"app/a", "thaw", 0, nil}},
			freezes: []string{"app/b 1s 1s", "app/a 3s 9s"},
			once:    "want every frozen pod thawed once, got:\n\t0s freeze app/a\n\t7s thaw app/a\n\t8s thaw app/a",
			atMost:  "want no pod frozen for more than 5s, got:\n\t0s freeze app/a\n\t7s thaw app/a\n\t8s thaw app/a",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log backuptest.HookLog
				start := time.Now()
				for _, s := range tc.steps {
					time.Sleep(s.after)
					log.Script(backuptest.HookCall{}, backuptest.HookScript{Latency: time.Second, Always: s.err})
					_ = log.Run(t.Context(), backuptest.HookCall{Pod: s.pod, Kind: s.kind})
				}
				var freezes []string
				for _, f := range log.Freezes() {
					end := "frozen"
					if !f.Thawed.IsZero() {
						end = f.Thawed.Sub(start).String()
					}
					freezes = append(freezes, fmt.Sprint(f.Pod, " ", f.Begun.Sub(start), " ", end))
				}
				if diff := cmp.Diff(tc.freezes, freezes); diff != "" {
					t.Errorf("freezes (%s) -want +got:\n%s", tc.reason, diff)
				}
				if diff := cmp.Diff(tc.frozen, log.Frozen()); diff != "" {
					t.Errorf("frozen (%s) -want +got:\n%s", tc.reason, diff)
				}
				for what, pair := range map[string][2]string{
					"ThawedOnce": {tc.once, text(log.ThawedOnce())}, "FrozenAtMost": {tc.atMost, text(log.FrozenAtMost(5 * time.Second))},
				} {
					if pair[0] != pair[1] {
						t.Errorf("%s (%s) = %q, want %q", what, tc.reason, pair[1], pair[0])
					}
				}
			})
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// B3: hooks are effects of the process that runs them.
func TestHooksInAProcess(t *testing.T) {
	t.Parallel()
	world := newHooks()
	ctx, p := backuptest.NewProcess(t.Context(), map[int]backuptest.Trouble{2: backuptest.CrashBefore})
	hooks := world.In(p)
	pod := csisnapshot.PodRef{Namespace: "app", Name: "a"}
	if err := hooks.Exec(ctx, pod, csisnapshot.Hook{Name: "freeze"}); err != nil {
		t.Fatal(err)
	}
	if err := hooks.Exec(ctx, pod, csisnapshot.Hook{Name: "thaw"}); !isCrash(err) {
		t.Errorf("thaw = %v, want a crash before it", err)
	}
	if diff := cmp.Diff([]string{"app/a"}, world.Frozen()); diff != "" {
		t.Errorf("frozen -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"freeze app/a", "thaw app/a"}, p.Effects()); diff != "" {
		t.Errorf("effects -want +got:\n%s", diff)
	}
	if err := world.Exec(t.Context(), pod, csisnapshot.Hook{Name: "thaw"}); err != nil || world.Frozen() != nil {
		t.Errorf("thaw outside of a process = %v, frozen %v", err, world.Frozen())
	}
}

// S5: a Snapshotter runs the hooks, and the log tells for how long each pod was frozen.
func TestHooksUnderASnapshotter(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{Objects: backuptest.Objects(
		backuptest.SnapshotClass{Default: true},
		backuptest.Pod{Namespace: "app", Name: "a", Claims: []string{"data"}}, backuptest.Claim{Namespace: "app", Name: "data"},
	)}, func(c clients) {
		t := c.t
		scripts := map[string]backuptest.Script{"data": {CutAfter: 3 * time.Second}}
		driver := backuptest.RunSnapshots(t, c.cluster, backuptest.ControllerOptions{Scripts: scripts})
		hooks, store := newHooks(), backuptest.NewStore(operationsStore())
		s, err := csisnapshot.New(c.core, csisnapshot.NewDynamic(c.dynamic), csisnapshot.Options{Quiescer: hooks, Intents: slot(store)})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := s.Plan(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cut(t.Context(), csisnapshot.Owner{UID: "1", Namespace: "app", Name: "nightly"}, plan); err != nil {
			t.Fatal(err)
		}
		backuptest.Check(t, hooks.ThawedOnce(), hooks.FrozenAtMost(4*time.Second))
		if hooks.FrozenAtMost(2*time.Second) == nil || len(driver.Snapshots()) != 1 {
			t.Errorf("freezes %v, snapshots %v, want one of each that took three seconds", hooks.Freezes(), driver.Snapshots())
		}
	})
}

// A thaw whose context has ended before does not reach its pod: it is no run, and its cause is returned.
func TestHooksMindAnEndedContext(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancelCause(t.Context())
	cause := errors.New("shut down")
	end(cause)
	var hooks backuptest.HookLog
	err := hooks.Run(ended, backuptest.HookCall{Pod: "shop/db-0", Kind: backuptest.HookThaw})
	if !errors.Is(err, cause) || len(hooks.Runs()) != 0 {
		t.Errorf("Run = %v after %v, want the cause and no run", err, hooks.Runs())
	}
}
