package stack

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := newPKI(dir); err != nil {
		t.Fatal(err)
	}
	ca, err := readAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	client, err := ca.client("system:somebody", "one", "two")
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, client.cert)
	opts := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := cert.Verify(opts); err != nil || cert.Subject.CommonName != "system:somebody" || !slices.Equal(cert.Subject.Organization, []string{"one", "two"}) {
		t.Errorf("client's certificate: %v, of %v", err, cert.Subject)
	}
	server, err := os.ReadFile(filepath.Join(dir, servingCert))
	if err != nil {
		t.Fatal(err)
	}
	opts = x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}
	if _, err := parse(t, server).Verify(opts); err != nil {
		t.Errorf("server's certificate: %v", err)
	}
	other, err := newPKI(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	strange, err := other.client("admin")
	if err != nil {
		t.Fatal(err)
	}
	opts = x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := parse(t, strange.cert).Verify(opts); err == nil {
		t.Error("one authority trusts another")
	}
}

func parse(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("no PEM: %q", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestChoosePorts(t *testing.T) {
	t.Parallel()
	ports, err := choosePorts("a", "b", "c", "d")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for name, port := range ports {
		if port < lowestPort || port >= highestPort || seen[port] {
			t.Errorf("port of %s is %d, want one of its own below those of connections", name, port)
		}
		seen[port] = true
		listener, err := net.Listen("tcp", "127.0.0.1:"+itoa(port))
		if err != nil {
			t.Errorf("port of %s: %v", name, err)
			continue
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
	taken := map[int]bool{}
	for port := range highestPort {
		taken[port] = true
	}
	if port, err := freePort(taken); err == nil {
		t.Errorf("with all ports taken: %d", port)
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	taken := &UnhealthyError{Component: Etcd, Log: "listen tcp 127.0.0.1:1: bind: address already in use", Err: ErrNotRunning}
	if !portTaken(errors.Join(taken)) || portTaken(&UnhealthyError{Log: "panic", Err: ErrNotRunning}) || portTaken(ErrNoStack) {
		t.Error("only a component that says that its address is in use lacks a port")
	}
}

func TestKubeVersion(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct{ mod, want string }{
		"in a line": {"module x\n\nrequire k8s.io/kubernetes v1.37.2\n", "v1.37.2 Major=1 Minor=37"},
		"in a block": {
			"module x\n\nrequire (\n\tk8s.io/kubernetes-x v1.1.1\n\tk8s.io/kubernetes v1.40.0\n)\n", "v1.40.0 Major=1 Minor=40",
		},
		"nowhere": {"module k8s.io/kubernetes\n", ""},
	} {
		name := filepath.Join(t.TempDir(), "go.mod")
		if err := os.WriteFile(name, []byte(tc.mod), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := kubeVersion(name)
		got = strings.NewReplacer("-X k8s.io/component-base/version.git", "", "Version=", "").Replace(got)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v, want %q", reason, got, err, tc.want)
		}
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	base := requirements("module m\n\nrequire (\n\tb v1.0.0 // indirect\n\ta v1.0.0\n)\n")
	if same := requirements("module m\nrequire a v1.0.0\n\nrequire (\n\tb v1.0.0\n)\n"); same != base {
		t.Errorf("another order and no comment: %q, want %q", same, base)
	}
	for _, other := range []string{"module m\n\nrequire a v1.0.0\n", "module m\n\nrequire a v1.0.0\nrequire b v1.0.1\n", "module m\n\nrequire a v1.0.0\nrequire b v1.0.0\nreplace a => ../a\n"} {
		if requirements(other) == base {
			t.Errorf("other requirements are the same: %q", other)
		}
	}
}

func TestProgramName(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]string{
		"go.etcd.io/etcd/server/v3": "server", "a/v10": "a", "k8s.io/kubernetes/cmd/kube-apiserver": "kube-apiserver",
		"a/v": "v", "a/version": "version",
	} {
		if got := programName(pkg); got != want {
			t.Errorf("programName(%q) = %q, want %q", pkg, got, want)
		}
	}
}

// What runs is replaced by another file, never written to; what is the same file is left alone.
func TestLinkTree(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "bin")
	write := func(name, content string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(from, "crd", "a.yaml"), "one")
	write(filepath.Join(to, "crd", "a.yaml"), "before")
	open, err := os.Open(filepath.Join(to, "crd", "a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close() //nolint:errcheck // only read
	for range 2 {
		if err := linkTree(from, to); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(to, "crd", "a.yaml")); err != nil || string(got) != "one" {
			t.Errorf("linked file holds %q, %v", got, err)
		}
	}
	old := make([]byte, 10)
	if n, err := open.Read(old); err != nil || string(old[:n]) != "before" {
		t.Errorf("who had the old file open reads %q, %v", old[:n], err)
	}
}

func TestLayout(t *testing.T) {
	t.Parallel()
	l := layout{dir: t.TempDir(), Bin: "/bin", Ports: map[string]int{Etcd: 1}, Fsync: true, KeepData: true}
	if _, err := readLayout(l.dir); !errors.Is(err, ErrNoStack) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("layout of an empty directory: %v, want ErrNoStack", err)
	}
	if err := errors.Join(l.makeDirs(), l.write()); err != nil {
		t.Fatal(err)
	}
	got, err := readLayout(l.dir)
	if err != nil || got.Ports[Etcd] != 1 || !got.Fsync || !got.KeepData || got.Bin != l.Bin {
		t.Errorf("readLayout = %+v, %v, want %+v", got, err, l)
	}
	if err := os.WriteFile(l.path(stateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readLayout(l.dir); err == nil || errors.Is(err, ErrNoStack) {
		t.Errorf("layout of a broken file: %v, want an error that is not ErrNoStack", err)
	}
	for _, user := range []string{"..", "a/b", "../../x", "system:a b"} {
		if path := l.kubeconfig(user); filepath.Dir(path) != l.path("kubeconfig") {
			t.Errorf("kubeconfig of %q is %s", user, path)
		}
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	if got := tail(name); !strings.Contains(got, "no such file") {
		t.Errorf("tail of nothing = %q", got)
	}
	if err := os.WriteFile(name, []byte(strings.Repeat("x", tailSize)+strings.Repeat("y", tailSize)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(name); got != strings.Repeat("y", tailSize) {
		t.Errorf("tail = %d bytes, %.10q", len(got), got)
	}
}

func TestManifests(t *testing.T) {
	t.Parallel()
	users := map[string]bool{}
	for _, manifest := range [][]byte{rbacYAML, objectsYAML, trialYAML} {
		objects, err := decode(manifest)
		if err != nil || len(objects) < 4 {
			t.Fatalf("%d objects, %v", len(objects), err)
		}
		for _, o := range objects {
			if subjects, ok := o.Object["subjects"].([]any); ok {
				users[subjects[0].(map[string]any)["name"].(string)] = true
			}
			for _, field := range []string{"driver", "provisioner"} {
				if name, ok := o.Object[field]; ok && name != DriverName && name != OtherDriverName {
					t.Errorf("%s %s is of %v", o.GetKind(), o.GetName(), name)
				}
			}
		}
	}
	for _, user := range []string{ControllerManager, SnapshotController, Snapshotter, Provisioner, Kubelet} {
		if !users[user] {
			t.Errorf("no role is bound to %s", user)
		}
	}
}
