package phase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// confirmAfter is how much later a refusal must be repeated to be believed: a restarted API server answers Forbidden
	// and NotFound until its caches are filled.
	confirmAfter = 2 * time.Second
)

// retrier decides about the tries of one read or write. It belongs to one goroutine.
type retrier struct {
	pause   time.Duration
	refused time.Time // when the object was first refused; zero if it was not
}

// again waits and returns nil if err may pass and there is time for another try; else it returns the error for the caller.
func (r *retrier) again(ctx context.Context, err error) error {
	wait := r.next()
	switch {
	case refusal(err):
		now := time.Now()
		if r.refused.IsZero() {
			r.refused = now
		}
		if now.Sub(r.refused) >= confirmAfter {
			return err
		}
		wait = max(wait, confirmAfter-now.Sub(r.refused))
		err = Transient(err) // not believed yet
	case IsTransient(err):
		if t, ok := errors.AsType[*transientError](err); ok {
			wait = max(wait, t.after)
		}
	case mayPass(err):
	default:
		return err
	}
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ended(ctx, err)
	case <-timer.C:
		return nil
	}
}

func (r *retrier) next() time.Duration {
	r.pause = min(max(2*r.pause, firstPause), maxPause)
	return r.pause + rand.N(r.pause/4) //nolint:gosec // jitter needs no secret
}

// ended is the error of a call whose time is over: why it is over, and what was seen last.
func ended(ctx context.Context, last error) error {
	return fmt.Errorf("%w; last: %w", context.Cause(ctx), last)
}

func refusal(err error) bool {
	return errors.Is(err, ErrForbidden) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrMissingAPI)
}

// mayPass covers writes without an answer and single tries that took too long.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnknownOutcome) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// try calls fn until it succeeds, its error is final, or ctx ends. Each call has a deadline of its own.
func (a *Applier[P]) try(ctx context.Context, fn func(ctx context.Context) error) error {
	var r retrier
	for {
		err := a.once(ctx, fn)
		if err == nil {
			return nil
		}
		if err := r.again(ctx, err); err != nil {
			return err
		}
	}
}

func (a *Applier[P]) once(ctx context.Context, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, a.attempt)
	defer cancel()
	return fn(ctx)
}
