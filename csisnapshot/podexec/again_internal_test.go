package podexec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// S8: how long and how often a command is offered to a server that does not take it.
func TestAgain(t *testing.T) {
	t.Parallel()
	status := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "create", schema.GroupResource{Resource: "pods/exec"}, "", "", 0, true)
	}
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	ran := errors.New("the connection broke")
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	forbidden, unavailable, missing := status(http.StatusForbidden), status(http.StatusServiceUnavailable), status(http.StatusNotFound)
	tests := map[string]struct {
		reason  string
		answers []error // the last for ever
		want    error
		tries   int
		took    time.Duration
	}{
		"taken at once":         {reason: "there is nothing to repeat", answers: []error{nil}, tries: 1},
		"it may have run":       {reason: "a hook is sent once", answers: []error{ran}, want: ran, tries: 1},
		"no route":              {reason: "a connection that was not made has carried nothing", answers: []error{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, nil}, tries: 2, took: 500 * time.Millisecond},
		"reset":                 {reason: "one that was may have", answers: []error{reset}, want: reset, tries: 1},
		"not found":             {reason: "that does not pass", answers: []error{missing}, want: missing, tries: 1},
		"away for four seconds": {reason: "twice a second", answers: []error{refused, refused, refused, refused, unavailable, unavailable, unavailable, unavailable, nil}, tries: 9, took: 4 * time.Second},
		"forbidden for good":    {reason: "believed after 3 s", answers: []error{forbidden}, want: forbidden, tries: 7, took: 3 * time.Second},
		"forbidden anew":        {reason: "the 3 s begin again after another trouble", answers: []error{forbidden, forbidden, forbidden, forbidden, refused, forbidden}, want: forbidden, tries: 12, took: 5500 * time.Millisecond},
		"away for ever":         {reason: "until the hook's time is over", answers: []error{refused}, want: refused, tries: 20, took: 10*time.Second - 250*time.Millisecond},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second-250*time.Millisecond)
				defer cancel()
				began, tries := time.Now(), 0
				err := newPatience().again(ctx, func() error {
					tries++
					return tc.answers[min(tries, len(tc.answers))-1]
				})
				if !errors.Is(err, tc.want) || tries != tc.tries || time.Since(began) != tc.took {
					t.Errorf("%v after %d tries and %v, want %v after %d and %v: %s", err, tries, time.Since(began), tc.want, tc.tries, tc.took, tc.reason)
				}
			})
		})
	}
}

// S8: the caller is told that nobody has got the command, and only then, so that it may try a post hook again later.
func TestOutcomeTellsWhatWasNotRun(t *testing.T) {
	t.Parallel()
	status := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "create", schema.GroupResource{Resource: "pods/exec"}, "", "", 0, true)
	}
	tests := map[string]struct {
		reason string
		err    error
		want   bool
	}{
		"refused":               {reason: "no server listens", err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED), want: true},
		"no connection":         {reason: "it was never made", err: &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, want: true},
		"no connection by SPDY": {reason: "of which only the text is left", err: errors.New(`error sending request: Post "https://api/exec": dial tcp 10.0.0.1:443: i/o timeout`), want: true},
		"unavailable":           {reason: "the server said so", err: status(http.StatusServiceUnavailable), want: true},
		"forbidden":             {reason: "it will not pass", err: status(http.StatusForbidden)},
		"not found":             {reason: "nor will that", err: status(http.StatusNotFound)},
		"reset by SPDY":         {reason: "the request may have come through", err: errors.New(`error sending request: Post "https://api/exec": read tcp 10.0.0.1:443: connection reset`)},
		"time is over":          {reason: "nobody knows", err: context.DeadlineExceeded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := outcome(csisnapshot.PodRef{Namespace: "app", Name: "db"}, csisnapshot.Hook{}, "", tc.err)
			if errors.Is(err, csisnapshot.ErrNotRun) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("outcome of %v = %v, want ErrNotRun %v: %s", tc.err, err, tc.want, tc.reason)
			}
		})
	}
	if err := outcome(csisnapshot.PodRef{}, csisnapshot.Hook{}, "", nil); err != nil {
		t.Errorf("outcome(nil) = %v", err)
	}
}
