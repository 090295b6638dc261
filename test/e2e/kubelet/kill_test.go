package kubelet_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

// childEnv holds the options of a kubelet to run instead of the tests, as JSON.
const childEnv = "KUBELET_TEST_CHILD"

type childOptions struct {
	Host, Node, Listen, CertFile, KeyFile, ClientCAFile, RecordFile, Control string
}

// child runs a kubelet until it is killed.
func child() {
	var o childOptions
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &o); err != nil {
		panic(err)
	}
	ctx := context.Background()
	server, err := kubelet.New(ctx, kubelet.Options{
		Config: &rest.Config{Host: o.Host}, Node: o.Node, Listen: o.Listen,
		CertFile: o.CertFile, KeyFile: o.KeyFile, ClientCAFile: o.ClientCAFile,
		RecordFile: o.RecordFile, Control: o.Control,
	})
	if err != nil {
		panic(err)
	}
	panic(server.Run(ctx))
}

// startChild runs a kubelet in a process of its own. kill kills it.
func (s *stub) startChild(t *testing.T) (kill func()) {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: "cluster.invalid"}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     s.cluster.RoundTripper(),
		FlushInterval: -1,
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	data, err := json.Marshal(childOptions{
		Host: server.URL, Node: s.opts.Node, Listen: s.opts.Listen,
		CertFile: s.opts.CertFile, KeyFile: s.opts.KeyFile, ClientCAFile: s.opts.ClientCAFile,
		RecordFile: s.opts.RecordFile, Control: s.opts.Control,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(data))
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	if s.client, err = kubelet.NewClient(s.opts.Control); err != nil {
		t.Fatal(err)
	}
	if err := s.client.AwaitHealthy(within(t)); err != nil {
		t.Fatal(err)
	}
	return kill
}

// A record survives the kill of its server: what had ended and what had begun is in it, and the next server goes on.
func TestRecordSurvivesKill(t *testing.T) {
	t.Parallel()
	s := &stub{}
	s.start(t, newPod("app/db"))
	s.opts.Listen = freePort(t)
	s.addr = s.opts.Listen
	kill := s.startChild(t)
	for _, script := range []kubelet.Script{{Pattern: "app/db", ExitCode: 7}, {Pattern: "app/db", Command: "freeze", Stdout: "frozen", Hang: true}} {
		if err := s.client.AddScript(t.Context(), script); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := run(within(t), t, s.config(), s.execURL("app/db/main", "check"), transports["spdy"])
	if got := exitCode(t, err); got != 7 {
		t.Fatalf("exit code %d, want 7", got)
	}
	_, ended := ask(t, s.config(), s.execURL("app/db/main", "freeze"), transports["websocket v5"])
	kill()
	if err := <-ended; err == nil {
		t.Error("a command whose kubelet was killed ended without an error")
	}
	check := func(when string, want int) {
		t.Helper()
		record, err := kubelet.ReadRecord(s.opts.RecordFile)
		if err != nil || len(record) != want {
			t.Fatalf("ReadRecord %s = %+v, %v, want %d commands", when, record, err, want)
		}
		if e := record[0]; e.Command[0] != "check" || e.ExitCode != 7 || e.Ended.IsZero() || e.PodUID != s.get(t, "app/db").UID {
			t.Errorf("first command %s = %+v, want check with exit code 7", when, e)
		}
		if e := record[1]; e.Command[0] != "freeze" || !e.Ended.IsZero() {
			t.Errorf("second command %s = %+v, want freeze without an end", when, e)
		}
	}
	check("after the kill", 2)
	s.startChild(t)
	if _, _, err := run(within(t), t, s.config(), s.execURL("app/db/main", "thaw"), transports["spdy"]); err != nil {
		t.Fatal(err)
	}
	check("after the next start", 3)
}
