package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrAbandoned says that a callback of the user's did not return although its context had ended. The call went on without
// it; what it still does, and its late result, are no longer waited for.
var ErrAbandoned = errors.New("abandoned callback")

// abandonAfter is how long a callback may take to return after its context ended.
const abandonAfter = 5 * time.Second

// errExited is the result of a callback that ended its goroutine instead of returning.
var errExited = errors.New("callback did not return")

// call runs a callback of the user's. It returns the callback's error, or its panic as one; if the callback ignores the
// end of ctx, call returns ErrAbandoned after a grace time.
func call(ctx context.Context, fn func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v", r)
			}
			done <- err
		}()
		err = fn(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(abandonAfter)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		return fmt.Errorf("%w: %w", ErrAbandoned, context.Cause(ctx))
	}
}
