package kubelet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

func TestScriptValidate(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		script kubelet.Script
		want   string
	}{
		"the least":         {reason: "a pattern is enough", script: kubelet.Script{Pattern: "a/*"}},
		"everything":        {reason: "all fields go together", script: kubelet.Script{Pattern: "*/*", Command: "x", Container: "c", ExitCode: 255, Stdout: "o", Stderr: "e", Delay: 1, Hang: true, Times: 1}},
		"nothing":           {reason: "a pattern must be there", want: "pattern: must not be empty"},
		"a broken pattern":  {reason: "path.Match must take it", script: kubelet.Script{Pattern: "a/["}, want: `pattern: "a/[": syntax error in pattern`},
		"every wrong field": {reason: "all faults at once", script: kubelet.Script{Pattern: "a", ExitCode: 256, Delay: -1, Times: -1}, want: "exitCode: 256: want 0 to 255\ndelay: -1ns: must not be negative\ntimes: -1: must not be negative"},
		"a negative exit":   {reason: "no process ends so", script: kubelet.Script{Pattern: "a", ExitCode: -1}, want: "exitCode: -1: want 0 to 255"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := ""
			if err := tc.script.Validate(); err != nil {
				text = err.Error()
			}
			if text != tc.want {
				t.Errorf("%s: Validate() = %q, want %q", tc.reason, text, tc.want)
			}
		})
	}
}

// The latest script that fits holds, until it is used up or cleared.
func TestScriptsInForce(t *testing.T) {
	t.Parallel()
	s := startStub(t, newPod("app/db"))
	ctx := t.Context()
	scripts := []kubelet.Script{
		{Pattern: "*/*", ExitCode: 1},
		{Pattern: "app/*", ExitCode: 2, Times: 2},
		{Pattern: "app/db", ExitCode: 3, Times: 1},
		{Pattern: "other/*", ExitCode: 4},
	}
	for _, script := range scripts {
		if err := s.client.AddScript(ctx, script); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for range 5 {
		_, _, err := run(within(t), t, s.config(), s.execURL("app/db/main", "x"), transports["spdy"])
		got = append(got, exitCode(t, err))
	}
	if diff := cmp.Diff([]int{3, 2, 2, 1, 1}, got); diff != "" {
		t.Errorf("exit codes (-want +got):\n%s", diff)
	}
	left := func(want ...kubelet.Script) {
		t.Helper()
		got, err := s.client.Scripts(ctx)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Scripts() = %v (-want +got):\n%s", err, diff)
		}
	}
	left(scripts[3], scripts[0])
	if err := s.client.ClearScripts(ctx, "*/*"); err != nil {
		t.Fatal(err)
	}
	left(scripts[3])
	if err := s.client.ClearScripts(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := s.client.Scripts(ctx); err != nil || len(got) != 0 {
		t.Errorf("Scripts() = %v, %v, want none", got, err)
	}
}

func TestClientErrors(t *testing.T) {
	t.Parallel()
	s := startStub(t)
	if err := s.client.AddScript(t.Context(), kubelet.Script{Pattern: "["}); err == nil || !strings.Contains(err.Error(), `400 Bad Request: pattern: "["`) {
		t.Errorf("AddScript = %v, want the field at fault", err)
	}
	if _, err := kubelet.NewClient("http://127.0.0.1:1"); err == nil {
		t.Error("NewClient took an address that is no socket")
	}
	nobody, err := kubelet.NewClient(s.opts.Control + "-nobody")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := nobody.AwaitHealthy(ctx); err == nil || !strings.Contains(err.Error(), "control-nobody") {
		t.Errorf("AwaitHealthy = %v, want what was wrong last", err)
	}
	if _, err := nobody.Record(t.Context()); err == nil {
		t.Error("Record of nobody gave no error")
	}
}

// A server without an API server is not healthy, and answers an exec once it knows its pods.
func TestNotHealthyWithoutPods(t *testing.T) {
	t.Parallel()
	s := &stub{}
	s.start(t, newPod("app/db"))
	held := s.cluster.Fault(refuse)
	ended := make(chan error, 1)
	server, err := kubelet.New(t.Context(), s.opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	}()
	go func() { ended <- server.Run(ctx) }()
	s.addr = server.Addr().String()
	if s.client, err = kubelet.NewClient(s.opts.Control); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.AwaitRecord(within(t), func(kubelet.Record) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), "not known yet") {
		t.Errorf("Healthy = %v, want that the pods are not known", err)
	}
	asked := make(chan error, 1)
	go func() {
		_, _, err := run(within(t), t, s.config(), s.execURL("app/db/main", "x"), transports["spdy"])
		asked <- err
	}()
	held()
	if err := <-asked; err != nil {
		t.Errorf("exec = %v, want it to wait for the pods", err)
	}
}
