package kubelet_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

// TestMain checks for leaks. Two goroutines of the libraries below end by themselves: the heartbeat of a WebSocket
// connection that broke at its next beat, and the shutdown of a SPDY connection that was closed twice after a second.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"),
		goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"),
	)
}

const (
	node  = "e2e-node"
	bound = 30 * time.Second // of everything that is waited for
)

// leastRules are the permissions of the package comment.
var leastRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
}

// pki is a CA with a serving and a client certificate, as files.
type pki struct {
	ca, cert, key, clientCert, clientKey string
}

func newPKI(t *testing.T, dir, prefix string) pki {
	t.Helper()
	p := pki{}
	caKey, caCert := newKey(t), &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: prefix}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	write := func(name string, template *x509.Certificate, key *ecdsa.PrivateKey) (string, string) {
		der, err := x509.CreateCertificate(rand.Reader, template, caCert, key.Public(), caKey)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		certFile, keyFile := filepath.Join(dir, prefix+name+".crt"), filepath.Join(dir, prefix+name+".key")
		for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
			if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return certFile, keyFile
	}
	p.ca, _ = write("ca", caCert, caKey)
	p.cert, p.key = write("server", &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, newKey(t))
	p.clientCert, p.clientKey = write("client", &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "apiserver"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, newKey(t))
	return p
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// stub is a running kubelet over a cluster in memory.
type stub struct {
	cluster *backuptest.Cluster
	core    kubernetes.Interface
	client  *kubelet.Client
	pki     pki
	opts    kubelet.Options
	addr    string
}

// newOptions are options with fresh files on free ports.
func newOptions(t *testing.T, config *rest.Config) (kubelet.Options, pki) {
	t.Helper()
	dir := t.TempDir()
	p := newPKI(t, dir, "a-")
	return kubelet.Options{
		Config: config, Node: node, Listen: "127.0.0.1:0",
		CertFile: p.cert, KeyFile: p.key, ClientCAFile: p.ca,
		RecordFile: filepath.Join(dir, "execs"), Control: "unix://" + filepath.Join(dir, "control"),
	}, p
}

func startStub(t *testing.T, objects ...*corev1.Pod) *stub {
	t.Helper()
	s := &stub{}
	s.start(t, objects...)
	s.run(t)
	return s
}

// start makes the cluster, its objects and the options.
func (s *stub) start(t *testing.T, objects ...*corev1.Pod) {
	t.Helper()
	s.cluster = backuptest.New(t)
	s.opts, s.pki = newOptions(t, s.cluster.ConfigFor("kubelet", leastRules...))
	var err error
	if s.core, err = kubernetes.NewForConfig(s.cluster.Config()); err != nil {
		t.Fatal(err)
	}
	for _, pod := range objects {
		s.create(t, pod)
	}
}

// run starts the kubelet and awaits that it is healthy. It ends with the test or when the returned func is called.
func (s *stub) run(t *testing.T) (end func()) {
	t.Helper()
	server, err := kubelet.New(t.Context(), s.opts)
	if err != nil {
		t.Fatal(err)
	}
	s.addr = server.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	stopped := false
	end = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil at the end of its context", err)
		}
	}
	t.Cleanup(end)
	if s.client, err = kubelet.NewClient(s.opts.Control); err != nil {
		t.Fatal(err)
	}
	if err := s.client.AwaitHealthy(within(t)); err != nil {
		t.Fatal(err)
	}
	return end
}

// within is a context for something that is waited for.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	return ctx
}

func (s *stub) create(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	ctx := t.Context()
	if _, err := s.core.CoreV1().Namespaces().Get(ctx, pod.Namespace, metav1.GetOptions{}); err != nil {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
		if _, err := s.core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	made, err := s.core.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// newPod is a pod "namespace/name" on the node, with containers main and proxy.
func newPod(key string) *corev1.Pod {
	namespace, name, _ := strings.Cut(key, "/")
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: "example.dev/db:1"}, {Name: "proxy", Image: "example.dev/proxy:2"}},
		},
	}
}

// config reaches the kubelet's exec server with a client certificate, as the API server does.
func (s *stub) config() *rest.Config {
	return &rest.Config{
		Host:            "https://" + s.addr,
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.pki.ca, CertFile: s.pki.clientCert, KeyFile: s.pki.clientKey},
	}
}

// execURL is where to ask for a command. middle is "NAMESPACE/POD/CONTAINER" or "NAMESPACE/POD/UID/CONTAINER".
func (s *stub) execURL(middle string, command ...string) *url.URL {
	query := url.Values{"command": command, "output": {"1"}, "error": {"1"}}
	return &url.URL{Scheme: "https", Host: s.addr, Path: "/exec/" + middle, RawQuery: query.Encode()}
}

// freePort is an address that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
