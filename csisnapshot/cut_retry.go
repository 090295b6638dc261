package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 10 * time.Second
	// requestTimeout bounds one request.
	requestTimeout = 30 * time.Second
	// refusalTime is how long a refusal must last to be believed: an API server that was restarted refuses everything
	// while its authorization cache is empty.
	refusalTime = 2 * time.Second
)

var errRequestTimeout = fmt.Errorf("no answer within %v: %w", requestTimeout, context.DeadlineExceeded)

// retry repeats a request whose failure says nothing about its object, until it succeeds, fails for a reason of its own,
// ctx ends or limit is over. The error is the last one, with the reason the repetition ended.
func retry(ctx context.Context, limit time.Duration, request func(context.Context) error) error {
	cause := fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, cause)
	defer cancel()
	var refused time.Time
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		err := attempt(ctx, request)
		switch {
		case err == nil:
			return nil
		case isFinal(err):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case apierrors.IsForbidden(err) && !terminating(err):
			if refused.IsZero() {
				refused = time.Now()
			}
			if time.Since(refused) >= refusalTime {
				return err
			}
		case !retriable(err):
			return err
		default:
			refused = time.Time{}
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			delay = max(delay, time.Duration(seconds)*time.Second)
		}
		if !pause(ctx, delay) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// finalError ends a repetition whatever its own error is. It is not seen outside.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// isFinal reports whether the error ends a repetition.
func isFinal(err error) bool {
	_, ok := errors.AsType[finalError](err)
	return ok
}

// attempt makes one request within its own time, so that one without an answer is repeated.
func attempt(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errRequestTimeout)
	defer cancel()
	return request(ctx)
}

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retriable reports whether the error is trouble of the API or of the way to it.
func retriable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code == http.StatusUnauthorized || code == http.StatusRequestTimeout ||
		code >= http.StatusInternalServerError || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// answered reports whether a write that failed was refused by the server, so that it certainly was not done.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// terminating reports whether a write was refused because its namespace is being deleted.
func terminating(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// apiMissing reports whether a list was answered with "no such resource".
func apiMissing(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.ReasonForError(err) == metav1.StatusReasonNotFound
}
