package kubelet_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

// transports are the ways in which an API server may ask for a command.
var transports = map[string]func(*rest.Config, *url.URL) (remotecommand.Executor, error){
	"spdy": func(config *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(config, http.MethodPost, u)
	},
	"websocket v5": func(config *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
	},
	"websocket v4": func(config *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, u.String(), "v4.channel.k8s.io")
	},
}

// output collects what a command says, and closes heard with the first byte.
type output struct {
	buffer bytes.Buffer
	heard  chan struct{}
}

func newOutput() *output { return &output{heard: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	if o.buffer.Len() == 0 && len(p) > 0 {
		close(o.heard)
	}
	return o.buffer.Write(p)
}

type newExecutor = func(*rest.Config, *url.URL) (remotecommand.Executor, error)

// run asks for a command and returns what it said.
func run(ctx context.Context, t *testing.T, config *rest.Config, u *url.URL, transport newExecutor) (stdout, stderr string, err error) {
	t.Helper()
	executor, err := transport(config, u)
	if err != nil {
		t.Fatal(err)
	}
	out, errs := newOutput(), newOutput()
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: errs})
	return out.buffer.String(), errs.buffer.String(), err
}

func TestExec(t *testing.T) {
	t.Parallel()
	s := startStub(t, newPod("app/db"))
	pod := s.get(t, "app/db")
	cases := map[string]struct {
		reason         string
		path           string
		command        []string
		script         kubelet.Script
		stdout, stderr string
		code           int
	}{
		"no script": {
			reason:  "a command without a script ends with 0 and says nothing",
			path:    "app/db/main",
			command: []string{"sync"},
		},
		"output and success": {
			reason:  "both outputs arrive whole",
			path:    "app/db/main",
			command: []string{"freeze", "--all", "/data dir"},
			script:  kubelet.Script{Pattern: "app/*", Command: "freeze --all", Stdout: strings.Repeat("much\n", 20000), Stderr: "warned\n"},
			stdout:  strings.Repeat("much\n", 20000), stderr: "warned\n",
		},
		"exit code": {
			reason:  "the exit code travels in the error stream",
			path:    "app/db/proxy",
			command: []string{"fail"},
			script:  kubelet.Script{Pattern: "app/db", Command: "fail", Container: "proxy", ExitCode: 32, Stderr: "busy"},
			stderr:  "busy", code: 32,
		},
		"with UID": {
			reason:  "the API server may name the pod's UID",
			path:    "app/db/" + string(pod.UID) + "/main",
			command: []string{"x"},
		},
		"a script for others": {
			reason:  "a script of another pod, command or container is not for this one",
			path:    "app/db/main",
			command: []string{"thaw"},
			script:  kubelet.Script{Pattern: "app/d", Command: "thaw", ExitCode: 1},
		},
	}
	for name, tc := range cases {
		if tc.script.Pattern != "" {
			if err := s.client.AddScript(t.Context(), tc.script); err != nil {
				t.Fatal(err)
			}
		}
		for how, transport := range transports {
			t.Run(name+"/"+how, func(t *testing.T) {
				before := s.record(t)
				stdout, stderr, err := run(within(t), t, s.config(), s.execURL(tc.path, tc.command...), transport)
				if got := exitCode(t, err); got != tc.code {
					t.Errorf("%s: exit code %d, want %d", tc.reason, got, tc.code)
				}
				if stdout != tc.stdout || stderr != tc.stderr {
					t.Errorf("%s: output %q and %q, want %q and %q", tc.reason, stdout, stderr, tc.stdout, tc.stderr)
				}
				want := kubelet.Record{{
					ID: before.Last() + 1, Namespace: "app", Pod: "db", PodUID: pod.UID,
					Container: tc.path[strings.LastIndexByte(tc.path, '/')+1:], Command: tc.command, ExitCode: tc.code,
				}}
				got := s.record(t).After(before.Last())
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(kubelet.Exec{}, "Started", "Ended")); diff != "" {
					t.Errorf("record (-want +got):\n%s", diff)
				}
				if e := got[0]; e.Started.IsZero() || e.Ended.Before(e.Started) {
					t.Errorf("times %v to %v", e.Started, e.Ended)
				}
			})
		}
	}
}

// exitCode reads the exit code out of an executor's error.
func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[exec.CodeExitError](err)
	if !ok {
		t.Fatalf("StreamWithContext = %v, want nil or an exit code", err)
	}
	return e.Code
}

func (s *stub) record(t *testing.T) kubelet.Record {
	t.Helper()
	record, err := s.client.Record(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// A command takes as long as its script says.
func TestExecDelay(t *testing.T) {
	t.Parallel()
	s := startStub(t, newPod("app/db"))
	const delay = 50 * time.Millisecond
	if err := s.client.AddScript(t.Context(), kubelet.Script{Pattern: "app/db", Delay: delay, ExitCode: 3}); err != nil {
		t.Fatal(err)
	}
	_, _, err := run(within(t), t, s.config(), s.execURL("app/db/main", "slow"), transports["spdy"])
	if got := exitCode(t, err); got != 3 {
		t.Errorf("exit code %d, want 3", got)
	}
	if e := s.record(t)[0]; e.Ended.Sub(e.Started) < delay {
		t.Errorf("it took %v, want %v at least", e.Ended.Sub(e.Started), delay)
	}
}

// ask asks for a command in the background. It returns when the first output has come, or the command has ended. cut cuts
// the connection, and ended yields the executor's error.
func ask(t *testing.T, config *rest.Config, u *url.URL, transport newExecutor) (cut func(), ended <-chan error) {
	t.Helper()
	executor, err := transport(config, u)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	t.Cleanup(cancel)
	out, result, done := newOutput(), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		result <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: newOutput()})
	}()
	select {
	case <-out.heard:
	case <-done:
	}
	return cancel, result
}

func (s *stub) awaitRecord(t *testing.T, enough func(kubelet.Record) bool) kubelet.Record {
	t.Helper()
	record, err := s.client.AwaitRecord(within(t), enough)
	if err != nil {
		t.Fatalf("AwaitRecord = %v; last record %+v", err, record)
	}
	return record
}

func allEnded(r kubelet.Record) bool {
	return !slices.ContainsFunc(r, func(e kubelet.Exec) bool { return e.Ended.IsZero() })
}

// A hanging command runs until its connection ends; one with a delay goes on without it.
func TestExecConnectionEnds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		script kubelet.Script
		least  time.Duration
	}{
		"hanging": {
			reason: "only the end of its connection ends it",
			script: kubelet.Script{Pattern: "*/*", Stdout: "frozen\n", Hang: true},
		},
		"delayed": {
			reason: "a container's command does not notice that nobody listens",
			script: kubelet.Script{Pattern: "*/*", Stdout: "frozen\n", Delay: 200 * time.Millisecond},
			least:  200 * time.Millisecond,
		},
	}
	for name, tc := range cases {
		for how, transport := range transports {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := startStub(t, newPod("app/db"))
				if err := s.client.AddScript(t.Context(), tc.script); err != nil {
					t.Fatal(err)
				}
				cut, ended := ask(t, s.config(), s.execURL("app/db/main", "freeze"), transport)
				if e := s.record(t)[0]; !e.Ended.IsZero() {
					t.Errorf("%s: record %+v while it runs, want no end", tc.reason, e)
				}
				cut()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("StreamWithContext = %v, want context.Canceled", err)
				}
				e := s.awaitRecord(t, allEnded)[0]
				if !e.Lost || e.Ended.Sub(e.Started) < tc.least {
					t.Errorf("%s: record %+v, want it lost, after %v at least", tc.reason, e, tc.least)
				}
			})
		}
	}
}

// A server that ends cuts its commands and leaves their end open; the next goes on with its record.
func TestServerEndsDuringExec(t *testing.T) {
	t.Parallel()
	for how, transport := range transports {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := &stub{}
			s.start(t, newPod("app/db"))
			end := s.run(t)
			if err := s.client.AddScript(t.Context(), kubelet.Script{Pattern: "*/*", Stdout: "x", Hang: true}); err != nil {
				t.Fatal(err)
			}
			_, ended := ask(t, s.config(), s.execURL("app/db/main", "freeze"), transport)
			end()
			if err := <-ended; errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("StreamWithContext = %v, want it to end with the server", err)
			}
			s.run(t)
			if record := s.record(t); len(record) != 1 || !record[0].Ended.IsZero() {
				t.Errorf("record after a restart = %+v, want the command without an end", record)
			}
			if scripts, err := s.client.Scripts(t.Context()); err != nil || len(scripts) != 0 {
				t.Errorf("Scripts() after a restart = %v, %v, want none", scripts, err)
			}
			if _, _, err := run(within(t), t, s.config(), s.execURL("app/db/main", "thaw"), transport); err != nil {
				t.Errorf("exec after a restart: %v", err)
			}
			if last := s.record(t).Last(); last != 2 {
				t.Errorf("the next command's ID is %d, want 2", last)
			}
		})
	}
}
