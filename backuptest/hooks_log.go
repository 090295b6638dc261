package backuptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// HookRun is one run of a hook.
type HookRun struct {
	HookCall

	// Begun is when it began, and Ended when it ended; zero if it has not.
	Begun, Ended time.Time
	// Err is what it returned.
	Err error
}

// String is, for example, "freeze shop/db-0" or "thaw shop/db-0: no such command".
func (r HookRun) String() string {
	text := strings.TrimSpace(string(r.Kind) + " " + r.Pod + " " + r.Name)
	switch {
	case r.Ended.IsZero():
		return text + ": runs"
	case r.Err != nil:
		return fmt.Sprintf("%s: %v", text, r.Err)
	default:
		return text
	}
}

// HookLog runs scripted hooks and writes down when. It is the part of [Hooks] that knows no library, for executors of your own.
// The zero HookLog is ready to use. It is safe for concurrent use.
type HookLog struct {
	mu      sync.Mutex
	scripts map[HookCall]HookScript
	counts  map[HookCall]int
	runs    []HookRun
}

// Script sets what hooks do: those of that pod, kind and name, where an empty field stands for any. Of several scripts that
// fit a run, the one with most fields set acts, a pod before a kind before a name.
func (l *HookLog) Script(hooks HookCall, script HookScript) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scripts == nil {
		l.scripts, l.counts = map[HookCall]HookScript{}, map[HookCall]int{}
	}
	l.scripts[hooks], l.counts[hooks] = script, 0
}

// Run runs a hook as its script says. It returns the error of the script, or the cause of ctx. A hook whose ctx has ended before
// does not reach its pod and is no run: a thaw with such a context thaws nothing.
func (l *HookLog) Run(ctx context.Context, call HookCall) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if call.Kind == "" {
		call.Kind = HookOther
	}
	script, nth, index := l.begin(call)
	err = fmt.Errorf("panic: %v", script.Panic) // unless it gets further
	defer func() { l.end(index, err) }()
	if err := wait(ctx, script.Latency); err != nil {
		return err
	}
	switch {
	case script.Panic != nil:
		panic(script.Panic)
	case script.Hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case nth <= len(script.Errors):
		return script.Errors[nth-1]
	default:
		return script.Always
	}
}

func (l *HookLog) begin(call HookCall) (script HookScript, nth, index int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, HookRun{HookCall: call, Begun: time.Now()})
	for _, key := range []HookCall{
		call,
		{Pod: call.Pod, Kind: call.Kind},
		{Pod: call.Pod, Name: call.Name},
		{Kind: call.Kind, Name: call.Name},
		{Pod: call.Pod},
		{Kind: call.Kind},
		{Name: call.Name},
		{},
	} {
		if s, found := l.scripts[key]; found {
			l.counts[key]++
			return s, l.counts[key], len(l.runs) - 1
		}
	}
	return HookScript{}, 1, len(l.runs) - 1
}

func (l *HookLog) end(index int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[index].Ended, l.runs[index].Err = time.Now(), err
}

// Runs returns the runs in the order of their beginnings. The caller owns the slice.
func (l *HookLog) Runs() []HookRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.runs)
}

// Freeze is the time in which one pod was frozen: from the end of its freezing hook to the beginning of the thaw that
// succeeded.
type Freeze struct {
	Pod string
	// Begun is when it was frozen, Thawed when that ended; zero if the pod is frozen still.
	Begun, Thawed time.Time
}

// Freezes returns the times in which pods were frozen, by the beginning. A freezing hook that failed or was cut short may
// have frozen its pod: from its beginning the pod counts as frozen.
func (l *HookLog) Freezes() []Freeze {
	var all []Freeze
	open := map[string]int{}
	for _, r := range l.Runs() {
		index, frozen := open[r.Pod]
		switch {
		case r.Kind == HookFreeze && !frozen:
			begun := r.Ended
			if r.Ended.IsZero() || r.Err != nil {
				begun = r.Begun
			}
			open[r.Pod] = len(all)
			all = append(all, Freeze{Pod: r.Pod, Begun: begun})
		case r.Kind == HookThaw && frozen && r.Err == nil && !r.Ended.IsZero():
			all[index].Thawed = r.Begun
			delete(open, r.Pod)
		}
	}
	return all
}

// Frozen returns the pods that are frozen now, sorted.
func (l *HookLog) Frozen() []string {
	var pods []string
	for _, f := range l.Freezes() {
		if f.Thawed.IsZero() {
			pods = append(pods, f.Pod)
		}
	}
	slices.Sort(pods)
	return pods
}

// ThawedOnce is an error if a pod is frozen still, was frozen more than once, or was thawed more than once for a freeze.
// It is for runs without a crash: over one, hooks run at least once.
func (l *HookLog) ThawedOnce() error {
	freezes, thaws := map[string]int{}, map[string]int{}
	for _, f := range l.Freezes() {
		freezes[f.Pod]++
	}
	runs := l.Runs()
	for _, r := range runs {
		if r.Kind == HookThaw && r.Err == nil && !r.Ended.IsZero() {
			thaws[r.Pod]++
		}
	}
	return l.fault(runs, "every frozen pod thawed once", func(pod string) bool { return max(freezes[pod], thaws[pod]) > 1 || freezes[pod] > thaws[pod] })
}

// FrozenAtMost is an error if a pod was frozen for longer than limit at once, or is frozen still.
func (l *HookLog) FrozenAtMost(limit time.Duration) error {
	bad := map[string]bool{}
	for _, f := range l.Freezes() {
		bad[f.Pod] = bad[f.Pod] || f.Thawed.IsZero() || f.Thawed.Sub(f.Begun) > limit
	}
	return l.fault(l.Runs(), fmt.Sprintf("no pod frozen for more than %v", limit), func(pod string) bool { return bad[pod] })
}

// fault is an error that lists the runs of the pods at fault, by pod and then in order; nil without one.
func (l *HookLog) fault(runs []HookRun, want string, bad func(pod string) bool) error {
	runs = slices.DeleteFunc(runs, func(r HookRun) bool { return !bad(r.Pod) })
	if len(runs) == 0 {
		return nil
	}
	start := runs[0].Begun
	slices.SortStableFunc(runs, func(a, b HookRun) int { return strings.Compare(a.Pod, b.Pod) })
	var text strings.Builder
	fmt.Fprintf(&text, "want %s, got:", want)
	for _, r := range runs {
		fmt.Fprintf(&text, "\n\t%v %s", r.Begun.Sub(start), r)
	}
	return errors.New(text.String())
}
