package podexec_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
)

// TestMain checks for leaks. Two goroutines of the libraries below end by themselves: the heartbeat of a WebSocket
// connection that broke at its next beat, and the shutdown of a SPDY connection that was closed twice after a second.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"),
		goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"),
	)
}

var (
	db   = csisnapshot.PodRef{Namespace: "app", Name: "db", UID: "u1"}
	hook = csisnapshot.Hook{Container: "main", Command: []string{"/bin/sh", "-c", "fsfreeze --freeze /data"}}
)

// transports are the two ways to run a command, and SPDY after WebSocket was refused.
var transports = map[string]func(*execServer) podexec.Options{
	"websocket":     func(s *execServer) podexec.Options { s.socket = true; return podexec.Options{} },
	"spdy":          func(s *execServer) podexec.Options { s.spdy = true; return podexec.Options{SPDYOnly: true} },
	"spdy fallback": func(s *execServer) podexec.Options { s.spdy = true; return podexec.Options{} },
}

// say writes what a command says.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

func newQuiescer(t *testing.T, s *execServer, opts podexec.Options) *podexec.Quiescer {
	t.Helper()
	q, err := podexec.New(s.config, opts)
	if err != nil {
		t.Fatal(err)
	}
	return podexec.Hurry(q)
}

func TestExec(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		run    func(stdout, stderr io.Writer) exit
		pod    string // "db" when empty
		check  func(t *testing.T, err error)
	}{
		"success": {
			run: func(stdout, stderr io.Writer) exit {
				say(stdout, strings.Repeat("much output\n", 5000))
				say(stderr, "a warning\n")
				return exit{}
			},
			check: func(t *testing.T, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("Exec: %v", err)
				}
			},
		},
		"exit code": {
			reason: "the error has the code and the end of what the command wrote",
			run: func(_, stderr io.Writer) exit {
				say(stderr, strings.Repeat("noise\n", 1000)+"fsfreeze: /data: Device busy\n")
				return exit{code: 32}
			},
			check: func(t *testing.T, err error) {
				t.Helper()
				e, ok := errors.AsType[*podexec.ExitError](err)
				if !ok {
					t.Fatalf("Exec = %v, want an *ExitError", err)
				}
				if e.Code != 32 || e.Pod != db || e.Container != "main" || !strings.HasSuffix(e.Stderr, "fsfreeze: /data: Device busy") || len(e.Stderr) > 1024 {
					t.Errorf("ExitError = %+v", e)
				}
				if want := `command ["/bin/sh" "-c" "fsfreeze --freeze /data"] in pod app/db, container main: exit code 32: `; !strings.HasPrefix(err.Error(), want) {
					t.Errorf("error text %q, want it to begin with %q", err, want)
				}
			},
		},
		"connection lost": {
			reason: "a command of which nobody knows how it ended has not succeeded",
			run: func(_, stderr io.Writer) exit {
				say(stderr, "half way")
				return exit{broken: true}
			},
			check: func(t *testing.T, err error) {
				t.Helper()
				if _, ok := errors.AsType[*podexec.ExitError](err); err == nil || ok {
					t.Errorf("Exec = %v, want an error that is no *ExitError", err)
				}
			},
		},
		"no such pod": {
			pod: "gone",
			check: func(t *testing.T, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), "exec in pod app/gone") {
					t.Errorf("Exec = %v", err)
				}
			},
		},
	}
	for how, transport := range transports {
		for name, tc := range cases {
			t.Run(how+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := newExecServer(t)
				s.run = tc.run
				pod := db
				if tc.pod != "" {
					pod.Name = tc.pod
				}
				err := newQuiescer(t, s, transport(s)).Exec(t.Context(), pod, hook)
				tc.check(t, err)
				if want := 1; tc.pod == "" && s.commands() != want {
					t.Errorf("the command ran %d times, want once", s.commands())
				}
				if t.Failed() {
					t.Log(tc.reason)
				}
			})
		}
	}
}

// X2: Exec returns when ctx ends although the command goes on.
func TestExecEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for how, transport := range transports {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newExecServer(t)
			started := make(chan struct{})
			s.run = func(_, _ io.Writer) exit {
				close(started)
				<-s.release
				return exit{}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-started
				// client-go's WebSocket reader leaks if the connection is closed before it has begun to read: give it time.
				time.AfterFunc(300*time.Millisecond, cancel)
			}()
			err := newQuiescer(t, s, transport(s)).Exec(ctx, db, hook)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Exec = %v, want context.Canceled", err)
			}
		})
	}
}

// The executor takes a connection that ends in order without a status for success; over SPDY it is an error.
func TestExecNoStatus(t *testing.T) {
	t.Parallel()
	s := newExecServer(t)
	s.run = func(_, _ io.Writer) exit { return exit{silent: true} }
	err := newQuiescer(t, s, transports["spdy"](s)).Exec(t.Context(), db, hook)
	if !errors.Is(err, podexec.ErrNoStatus) {
		t.Errorf("Exec = %v, want ErrNoStatus", err)
	}
}

func TestExecRequests(t *testing.T) {
	t.Parallel()
	s := newExecServer(t)
	s.spdy = true
	if err := newQuiescer(t, s, podexec.Options{}).Exec(t.Context(), db, hook); err != nil {
		t.Fatal(err)
	}
	const query = "/api/v1/namespaces/app/pods/db/exec?command=%2Fbin%2Fsh&command=-c&command=fsfreeze+--freeze+%2Fdata&container=main&stderr=true&stdout=true"
	if diff := cmp.Diff([]string{"GET websocket " + query, "POST spdy/3.1 " + query}, s.seen()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestNewChecksItsArguments(t *testing.T) {
	t.Parallel()
	if _, err := podexec.New(nil, podexec.Options{}); err == nil {
		t.Error("New(nil) gave no error")
	}
}

// A server that cannot be reached is an error that names the pod, within the hook's own time.
func TestExecNoServer(t *testing.T) {
	t.Parallel()
	s := newExecServer(t)
	s.config.Host = "http://127.0.0.1:1"
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := newQuiescer(t, s, podexec.Options{}).Exec(ctx, db, hook)
	if err == nil || !strings.Contains(err.Error(), "exec in pod app/db") {
		t.Errorf("Exec = %v", err)
	}
}

// S8: a server that comes back in time runs the command.
func TestExecServerComesBack(t *testing.T) {
	t.Parallel()
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newExecServer(t)
			var config net.ListenConfig
			listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := listener.Addr().String()
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			s.config.Host = "http://" + address
			q := newQuiescer(t, s, options(s))
			late := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
			var group sync.WaitGroup
			defer group.Wait()
			defer func() { _ = late.Close() }()
			back := time.AfterFunc(50*time.Millisecond, func() {
				if listener, err := config.Listen(context.WithoutCancel(t.Context()), "tcp", address); err != nil {
					t.Errorf("listen again: %v", err)
				} else {
					group.Go(func() { _ = late.Serve(listener) })
				}
			})
			defer back.Stop()
			if err := q.Exec(t.Context(), db, hook); err != nil || s.commands() != 1 {
				t.Errorf("Exec = %v after %d commands", err, s.commands())
			}
		})
	}
}
