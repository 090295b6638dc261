package backuptest

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// HookKind says what a hook does to its pod.
type HookKind string

const (
	// HookFreeze freezes the pod.
	HookFreeze HookKind = "freeze"
	// HookThaw thaws it.
	HookThaw HookKind = "thaw"
	// HookOther does neither.
	HookOther HookKind = "other"
)

// HookCall says what one run of a hook is about.
type HookCall struct {
	// Pod is the pod, as namespace/name.
	Pod string
	// Kind is what the hook does. Empty is [HookOther].
	Kind HookKind
	// Name is for the log only.
	Name string
}

// HookScript is what a hook does when it runs. The zero value succeeds at once.
type HookScript struct {
	// Latency is how long a run takes, or until its context ends.
	Latency time.Duration
	// Errors are what the runs return, in order; those after the last succeed, unless Always is set. A nil one succeeds.
	Errors []error
	// Always is what every run returns that has none of the Errors.
	Always error
	// Hang makes a run return when its context ends, and Panic makes it panic with that value.
	Hang  bool
	Panic any
}

// Hooks runs hooks without containers: it writes down what ran when and which pods are frozen, and does what its scripts say.
// H, P and K are the types of the library under test: *Hooks is a csisnapshot.Quiescer if H is csisnapshot.PodHooks, P is
// csisnapshot.PodRef and K is csisnapshot.Hook. It is safe for concurrent use.
type Hooks[H, P, K any] struct {
	*HookLog

	hooks   func(*corev1.Pod) (H, error)
	call    func(P, K) HookCall
	process *Process
}

// NewHooks returns an executor. hooks tells the hooks of a pod, and call what a run of one is about; the method that needs one
// of them that is nil returns an error.
func NewHooks[H, P, K any](hooks func(*corev1.Pod) (H, error), call func(P, K) HookCall) *Hooks[H, P, K] {
	return &Hooks[H, P, K]{HookLog: &HookLog{}, hooks: hooks, call: call}
}

// In returns the executor as the process sees it: its runs are effects of the process. Scripts and log are shared with h.
func (h *Hooks[H, P, K]) In(p *Process) *Hooks[H, P, K] {
	view := *h
	view.process = p
	return &view
}

// Hooks returns the hooks of the pod.
func (h *Hooks[H, P, K]) Hooks(pod *corev1.Pod) (of H, err error) {
	if h.hooks == nil {
		return of, errors.New("hooks of a pod: NewHooks was given no function for them")
	}
	return h.hooks(pod)
}

// Exec runs a hook as its script says.
func (h *Hooks[H, P, K]) Exec(ctx context.Context, pod P, hook K) error {
	if h.call == nil || h.HookLog == nil {
		return errors.New("run hook: NewHooks was given no function that tells what it is about")
	}
	call := h.call(pod, hook)
	if h.process == nil {
		return h.Run(ctx, call)
	}
	return h.process.Do(ctx, string(call.Kind)+" "+call.Pod, func(ctx context.Context) error { return h.Run(ctx, call) })
}
