package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// HookError is a hook that failed, in which pod and at which stage.
type HookError struct {
	Pod PodRef
	// Stage is "pre" or "post".
	Stage string
	// Hook is the name of the hook and Container where it ran.
	Hook, Container string
	// Err is what went wrong. It is [ErrAbandoned] when the call did not return, context.DeadlineExceeded on a timeout.
	Err error
}

// The stages of a [HookError].
const (
	stagePre  = "pre"
	stagePost = "post"
)

// Error names the stage, the hook and the pod.
func (e *HookError) Error() string {
	return fmt.Sprintf("%s hook %s in pod %s: %v", e.Stage, e.Hook, e.Pod, e.Err)
}

// Unwrap returns what went wrong.
func (e *HookError) Unwrap() error { return e.Err }

// runHooks runs the hooks in order. Pre hooks end at the first failure that is not to be passed over; post hooks are all
// run whatever the others do, since each may undo a part of the freeze. errs has every failure; failed is the first one
// that is not to be passed over, or nil.
func runHooks(pod PodRef, stage string, hooks []Hook, run func(Hook) error) (errs []*HookError, failed error) {
	for _, h := range hooks {
		err := run(h)
		if err == nil {
			continue
		}
		e := &HookError{Pod: pod, Stage: stage, Hook: h.title(), Container: h.Container, Err: err}
		errs = append(errs, e)
		if h.OnError != OnErrorFail {
			continue
		}
		if failed == nil {
			failed = e
		}
		if stage == stagePre {
			break
		}
	}
	return errs, failed
}

// runPre runs the pre hooks.
func (r *run) runPre(ctx context.Context, pod PodRef, hooks []Hook) (errs []*HookError, failed error) {
	return runHooks(pod, stagePre, hooks, func(h Hook) error { return runHook(ctx, r.s.opts.Quiescer, pod, h) })
}

// runPost runs the post hooks, also when ctx has ended. One whose command was certainly not run is tried again, for as long as
// nothing may go on without progress, so that an API that is away for longer than the hook's time leaves no pod frozen. That
// ends with ctx.
func (r *run) runPost(ctx context.Context, pod PodRef, hooks []Hook) (errs []*HookError, failed error) {
	return runHooks(pod, stagePost, hooks, func(h Hook) error {
		start := time.Now()
		for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
			err := runHook(context.WithoutCancel(ctx), r.s.opts.Quiescer, pod, h)
			if !errors.Is(err, ErrNotRun) || time.Since(start)+delay >= r.s.opts.Wait.Timeout || ctx.Err() != nil || !pause(ctx, delay) {
				return err
			}
		}
	})
}

// runHook runs one hook within its timeout.
func runHook(ctx context.Context, q Quiescer, pod PodRef, h Hook) error {
	limit := h.limit()
	cause := fmt.Errorf("timeout of %v: %w", limit, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, cause)
	defer cancel()
	start := time.Now()
	err := call(ctx, func(ctx context.Context) error { return q.Exec(ctx, pod, h) })
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("after %v: %w: %w", time.Since(start).Round(time.Millisecond), context.Cause(ctx), err)
	}
	return err
}
