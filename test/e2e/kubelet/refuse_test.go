package kubelet_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

// What does not run here is refused, and not recorded.
func TestExecRefused(t *testing.T) {
	t.Parallel()
	pending, sidecar, other := newPod("app/pending"), newPod("app/sidecar"), newPod("app/other")
	pending.Annotations = map[string]string{kubelet.PhaseAnnotation: "Pending"}
	sidecar.Spec.InitContainers = []corev1.Container{
		{Name: "setup", Image: "x"}, {Name: "side", Image: "x", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
	}
	other.Spec.NodeName = "another-node"
	s := startStub(t, newPod("app/db"), pending, sidecar, other)
	cases := map[string]struct {
		reason string
		method string // GET when empty
		path   string
		query  url.Values
		status int
		text   string
	}{
		"no such pod":                  {reason: "it has no pod of that name", path: "app/gone/main", status: 404, text: "pod app/gone does not exist"},
		"another node":                 {reason: "it has the pods of its node only", path: "app/other/main", status: 404, text: "pod app/other does not exist"},
		"another UID":                  {reason: "the pod was replaced by one of the same name", path: "app/db/u-1/main", status: 404, text: "UID u-1"},
		"no such container":            {reason: "the pod has no such container", path: "app/db/nobody", status: 500, text: `container not found ("nobody")`},
		"an init container":            {reason: "an init container has ended", path: "app/sidecar/setup", status: 500, text: `container not found ("setup")`},
		"a pod that does not run yet":  {reason: "nothing runs in a pending pod", path: "app/pending/main", status: 500, text: `container not found ("main")`},
		"no command":                   {reason: "there must be one", path: "app/db/main", query: url.Values{"output": {"1"}}, status: 400, text: "command: must not be empty"},
		"no stream":                    {reason: "there must be one", path: "app/db/main", query: url.Values{"command": {"x"}}, status: 400, text: "at least 1 of stdin, stdout, stderr"},
		"standard input":               {reason: "nothing reads it", path: "app/db/main", query: url.Values{"command": {"x"}, "input": {"1"}}, status: 400, text: "not supported"},
		"a terminal":                   {reason: "nothing has one", path: "app/db/main", query: url.Values{"command": {"x"}, "output": {"1"}, "tty": {"1"}}, status: 400, text: "not supported"},
		"a sidecar without an upgrade": {reason: "a sidecar runs, so this gets as far as the upgrade", method: http.MethodPost, path: "app/sidecar/side", status: 400, text: "pgrade"},
		"another method":               {reason: "kubelets answer GET and POST", method: http.MethodPut, path: "app/db/main", status: 405, text: "Method Not Allowed"},
	}
	tlsConfig, err := rest.TLSConfigFor(s.config())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig}}
	t.Cleanup(client.CloseIdleConnections)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := s.execURL(tc.path, "x")
			if tc.query != nil {
				u.RawQuery = tc.query.Encode()
			}
			if tc.method == "" {
				tc.method = http.MethodGet
			}
			req, err := http.NewRequestWithContext(within(t), tc.method, u.String(), http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != tc.status || !strings.Contains(string(body), tc.text) {
				t.Errorf("%s: %d %q, %v, want %d with %q", tc.reason, resp.StatusCode, body, err, tc.status, tc.text)
			}
		})
	}
	if record := s.record(t); len(record) != 0 {
		t.Errorf("record = %+v, want none", record)
	}
}

// Only clients with a certificate of the client CA are served.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	s := startStub(t, newPod("app/db"))
	stranger := newPKI(t, t.TempDir(), "b-")
	cases := map[string]struct {
		reason    string
		cert, key string
		want      string // of the error, empty when served
	}{
		"none":        {reason: "a client without a certificate is nobody", want: "certificate required"},
		"another CA":  {reason: "anybody can make a CA", cert: stranger.clientCert, key: stranger.clientKey, want: "tls: "},
		"a server's":  {reason: "a serving certificate says nothing about a client", cert: s.pki.cert, key: s.pki.key, want: "tls: "},
		"of the CA":   {reason: "the API server's", cert: s.pki.clientCert, key: s.pki.clientKey},
		"of HTTP/2.0": {reason: "connections are taken over, so HTTP/1.1 only", cert: s.pki.clientCert, key: s.pki.clientKey},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := s.config()
			config.CertFile, config.KeyFile = tc.cert, tc.key
			tlsConfig, err := rest.TLSConfigFor(config)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "tls: " { // send it although the server does not ask for such a one
				cert, err := tls.LoadX509KeyPair(tc.cert, tc.key)
				if err != nil {
					t.Fatal(err)
				}
				tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
			}
			transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: name == "of HTTP/2.0"}
			t.Cleanup(transport.CloseIdleConnections)
			req, err := http.NewRequestWithContext(within(t), http.MethodGet, s.execURL("app/gone/main", "x").String(), http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: error %v, want one with %q", tc.reason, err, tc.want)
				}
				return
			}
			if err != nil || resp.StatusCode != http.StatusNotFound || resp.ProtoMajor != 1 {
				t.Errorf("%s: %+v, %v, want 404 over HTTP/1", tc.reason, resp, err)
			}
		})
	}
}
