package finalize

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
)

// errAbandoned is the fault of a call that ignores the end of its context.
var errAbandoned = errors.New("abandoned callback: it ignored the end of its context")

// errGoexit is the fault of a call that ended its goroutine.
var errGoexit = errors.New("callback ended its goroutine")

// call is one run of a caller's function on a goroutine of its own. It holds no lock, and nothing waits for it after hard.
type call struct {
	done    chan struct{} // closed when fn has returned
	err     error         // fn's, to be read after done
	ctx     context.Context
	cancel  context.CancelFunc
	started time.Time
	hard    time.Time // when it is abandoned
	stale   bool      // of an earlier step, or abandoned: the result is dropped
	first   bool      // the first of its hook in this step
}

// begin calls fn with a context that ends after timeout. wake is called when fn has returned.
func begin(ctx context.Context, timeout, grace time.Duration, fn func(context.Context) error, wake func()) *call {
	c := &call{done: make(chan struct{}), started: time.Now()}
	c.hard = c.started.Add(timeout).Add(grace) // two, as the sum can overflow
	c.ctx, c.cancel = context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	go func() {
		defer wake()
		defer close(c.done)
		c.err = errGoexit // what stays if fn ends its goroutine
		c.err = protect(c.ctx, fn)
	}()
	return c
}

// protect turns a panic into an error.
func protect(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			logr.FromContextOrDiscard(ctx).Error(err, "callback panicked", "stack", string(debug.Stack()))
		}
	}()
	return fn(ctx)
}

// ended reports whether fn has returned.
func (c *call) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// timedOut reports whether the call's own timeout ended its context, and not the step's.
func (c *call) timedOut() bool { return errors.Is(context.Cause(c.ctx), ErrTimeout) }

// document bounds the calls of a [Document]: at most one is out, and one that ignores its context holds nobody up.
type document struct {
	doc     Document
	timeout time.Duration
	grace   time.Duration
	out     *call
}

func (d *document) load(ctx context.Context) ([]byte, error) {
	loaded := make(chan []byte, 1) // not a variable: an abandoned call may still write it
	err := d.do(ctx, func(ctx context.Context) error {
		data, err := d.doc.Load(ctx)
		loaded <- data
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-loaded, nil
}

func (d *document) save(ctx context.Context, data []byte) error {
	return d.do(ctx, func(ctx context.Context) error { return d.doc.Save(ctx, data) })
}

func (d *document) do(ctx context.Context, fn func(context.Context) error) error {
	if d.out != nil && !d.out.ended() {
		return errAbandoned
	}
	c := begin(ctx, d.timeout, d.grace, fn, func() {})
	defer c.cancel()
	d.out = c
	if err := c.await(ctx, d.grace); err != nil {
		return err
	}
	return c.err
}

// await returns nil when fn has returned. It waits until fn is to be abandoned, and no longer than the grace after the end
// of ctx.
func (c *call) await(ctx context.Context, grace time.Duration) error {
	hard := time.NewTimer(time.Until(c.hard))
	defer hard.Stop()
	select {
	case <-c.done:
		return nil
	case <-hard.C:
		return errAbandoned
	case <-ctx.Done():
	}
	last := time.NewTimer(grace)
	defer last.Stop()
	select {
	case <-c.done:
		return nil
	case <-last.C:
		return errAbandoned
	}
}
