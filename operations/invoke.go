package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

	errCallTimeout = fmt.Errorf("call of the action timed out: %w", context.DeadlineExceeded)
	errNoAnswer    = errors.New("the action gave no answer")
)

// Call is one call of an action, as [PollerHooks.Called] is told of it.
type Call struct {
	// Action is the name under which the action is registered.
	Action string
	// Method is the name of the method: "Progress", "ProgressMany" or "Cancel".
	Method string
	// OperationIDs are those the call was about: one, but for ProgressMany.
	OperationIDs []string
	// Duration is how long the poller waited for the call.
	Duration time.Duration
	// Err is what the method returned, a [PanicError], or [ErrAbandonedCallback]; nil when it answered. After
	// CallTimeout it is also context.DeadlineExceeded. Of ProgressMany it is the error that concerns all.
	Err error
}

// question is one operation, or some of one action, to be asked about.
type question struct {
	name   string // of the action
	action Action
	ids    []string
	many   ManyAction // nil: one operation
	cancel bool       // ask it to stop first
}

// limits are those of one call: its deadline, and how long it may take to return after that.
type limits struct{ timeout, grace time.Duration }

// answers is what came of a question.
type answers struct {
	question
	results   map[string]ProgressResult
	cancelErr error
	abandoned *callback // nil when every call has returned
	calls     []Call
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

// ask calls the action and returns its answers. Each call has its own deadline, so that a request to stop which hangs
// does not keep the operation from telling that it has ended; but none is made beside one that was left behind.
func (q question) ask(ctx context.Context, l limits) answers {
	a := answers{question: q}
	if q.cancel {
		_, a.cancelErr = invoke(ctx, &a, "Cancel", l, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, q.action.Cancel(ctx, q.ids[0])
		})
		if a.abandoned != nil {
			a.results = q.all(a.cancelErr)
			return a
		}
	}
	if q.many == nil {
		p, err := invoke(ctx, &a, "Progress", l, func(ctx context.Context) (Progress, error) {
			return q.action.Progress(ctx, q.ids[0])
		})
		a.results = map[string]ProgressResult{q.ids[0]: {Progress: p, Err: err}}
		return a
	}
	results, err := invoke(ctx, &a, "ProgressMany", l, func(ctx context.Context) (map[string]ProgressResult, error) {
		found, err := q.many.ProgressMany(ctx, slices.Clone(q.ids))
		return maps.Clone(found), err // the action may keep its map
	})
	if err != nil {
		a.results = q.all(err)
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

// invoke makes one call of the action and says in a what became of it. When the call outlives its context by the grace
// time it is left behind.
func invoke[T any](ctx context.Context, a *answers, method string, l limits, fn func(context.Context) (T, error)) (T, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, errCallTimeout)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	call, out := &callback{done: make(chan struct{})}, make(chan answer, 1)
	go func() { // left behind only when the action ignores the end of ctx
		defer close(call.done)
		var got answer
		got.err = contain(func() (err error) {
			got.value, err = fn(ctx)
			return err
		})
		out <- got
	}()
	got := answer{err: errNoAnswer} // for an action that ends its goroutine
	if call.wait(ctx, l.grace) {
		select {
		case got = <-out:
			got.err = because(ctx, got.err)
		default:
		}
	} else {
		a.abandoned = call
		got.err = fmt.Errorf("%w of action %q: %s did not return within %v of the end of its context", ErrAbandonedCallback, a.name, method, l.grace)
	}
	a.calls = append(a.calls, Call{Action: a.name, Method: method, OperationIDs: a.ids, Duration: time.Since(start), Err: got.err})
	return got.value, got.err
}

// wait reports whether the call returned before the end of its context, or within the grace time after it.
func (c *callback) wait(ctx context.Context, grace time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
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
