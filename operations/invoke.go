package operations

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrAbandonedCallback says that a call of an action did not return after the end of its context. It was left
	// behind, holds nothing, and what it may still answer is dropped; the operation is not asked about again while it
	// runs.
	ErrAbandonedCallback = errors.New("abandoned callback")
	// ErrUnknownState says that an action answered with a state, or a document holds a phase, that is not known. It
	// counts as running.
	ErrUnknownState = errors.New("unknown state")

	errCallTimeout = errors.New("call of the action timed out")
	errNoAnswer    = errors.New("the action gave no answer")
)

// question is one call of an action about one or more operations.
type question struct {
	name   string // of the action
	action Action
	ids    []string
	many   ManyAction // nil: one operation
	cancel bool       // ask it to stop first
}

// answers is what came of a question.
type answers struct {
	question
	results   map[string]ProgressResult
	cancelErr error
	abandoned *callback // nil when the call has returned
}

// callback is a call that was left behind.
type callback struct{ done chan struct{} }

// runs reports whether the call is still running.
func (c *callback) runs() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// ask calls the action and returns its answers, without them when the call outlives its context by the grace time.
func (q question) ask(ctx context.Context, timeout, grace time.Duration) answers {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errCallTimeout)
	defer cancel()
	call := &callback{done: make(chan struct{})}
	out := make(chan answers, 1)
	go func() { // left behind only when the action ignores the end of ctx
		defer close(call.done)
		out <- q.call(ctx)
	}()
	select {
	case <-call.done:
	case <-ctx.Done():
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-call.done:
		case <-timer.C:
			err := fmt.Errorf("%w of action %q: it did not return within %v of the end of its context", ErrAbandonedCallback, q.name, grace)
			return answers{question: q, results: q.all(err), cancelErr: err, abandoned: call}
		}
	}
	select {
	case a := <-out:
		return a
	default: // the action ended its goroutine
		return answers{question: q, results: q.all(errNoAnswer), cancelErr: errNoAnswer}
	}
}

// call does what ask promises, without a limit.
func (q question) call(ctx context.Context) answers {
	a := answers{question: q}
	if q.cancel {
		a.cancelErr = contain(func() error { return q.action.Cancel(ctx, q.ids[0]) })
	}
	if q.many == nil {
		var p Progress
		err := contain(func() (err error) {
			p, err = q.action.Progress(ctx, q.ids[0])
			return err
		})
		a.results = map[string]ProgressResult{q.ids[0]: {Progress: p, Err: because(ctx, err)}}
		return a
	}
	var results map[string]ProgressResult
	err := contain(func() (err error) {
		results, err = q.many.ProgressMany(ctx, q.ids)
		return err
	})
	if err != nil {
		a.results = q.all(because(ctx, err))
		return a
	}
	a.results = q.all(errNoAnswer)
	for _, id := range q.ids {
		if r, ok := results[id]; ok {
			a.results[id] = r
		}
	}
	return a
}

// all returns err as the answer about each operation.
func (q question) all(err error) map[string]ProgressResult {
	out := make(map[string]ProgressResult, len(q.ids))
	for _, id := range q.ids {
		out[id] = ProgressResult{Err: err}
	}
	return out
}

// because adds to an error of an ended context why it ended.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}
