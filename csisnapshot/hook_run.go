package csisnapshot

import (
	"context"
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
func runHooks(ctx context.Context, q Quiescer, pod PodRef, stage string, hooks []Hook) (errs []*HookError, failed error) {
	for _, h := range hooks {
		err := runHook(ctx, q, pod, h)
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
