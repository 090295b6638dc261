package podexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// S8: a post hook must not be lost, and its pod stay frozen, because the API server was away or in trouble at that moment. The
// command is sent when the server takes it, and once.
func TestExecWaitsForTheServer(t *testing.T) {
	t.Parallel()
	tests := map[string]http.HandlerFunc{
		"just started":      refuse(http.StatusForbidden, "Forbidden"),
		"overloaded":        refuse(http.StatusTooManyRequests, "TooManyRequests"),
		"kubelet restarts":  refuse(http.StatusInternalServerError, "InternalError"),
		"not authenticated": refuse(http.StatusUnauthorized, "Unauthorized"),
		"behind a proxy": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		},
	}
	for name, handler := range tests {
		for transport, options := range transports {
			t.Run(name+", "+transport, func(t *testing.T) {
				t.Parallel()
				s := newExecServer(t)
				opts := options(s)
				q := newQuiescer(t, s, opts)
				s.outage(4, handler)
				if err := q.Exec(t.Context(), db, hook); err != nil {
					t.Fatalf("Exec: %v", err)
				}
				if s.commands() != 1 {
					t.Errorf("the command ran %d times", s.commands())
				}
			})
		}
	}
}

// What a server goes on to forbid is believed, and what may have been run is not sent again.
func TestExecDoesNotInsist(t *testing.T) {
	t.Parallel()
	s := newExecServer(t)
	q := newQuiescer(t, s, transports["websocket"](s))
	s.outage(1000, refuse(http.StatusForbidden, "Forbidden"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := q.Exec(ctx, db, hook); !apierrors.IsForbidden(err) || ctx.Err() != nil {
		t.Errorf("Exec = %v, want Forbidden before the hook's time is over", err)
	}
	broken := newExecServer(t)
	broken.run = func(_, _ io.Writer) exit { return exit{broken: true} }
	if err := newQuiescer(t, broken, transports["websocket"](broken)).Exec(t.Context(), db, hook); err == nil || broken.commands() != 1 {
		t.Errorf("Exec = %v after %d commands, want an error after one", err, broken.commands())
	}
}

func refuse(code int, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"in trouble","reason":%q,"code":%d}`, reason, code)
	}
}

// S8: of a command that was run nobody is told that it was not, for a post hook would be run again.
func TestExecTellsThatItRan(t *testing.T) {
	t.Parallel()
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for text, end := range map[string]exit{"broken": {broken: true}, "failed": {code: 1}} {
				ran := newExecServer(t)
				ran.run = func(_, _ io.Writer) exit { return end }
				if err := newQuiescer(t, ran, options(ran)).Exec(t.Context(), db, hook); err == nil || errors.Is(err, csisnapshot.ErrNotRun) {
					t.Errorf("%s: Exec = %v, want an error that is not ErrNotRun", text, err)
				}
			}
		})
	}
}
