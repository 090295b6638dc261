package stack

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

// Admin is the user that may do everything. The API server does not hold it to limits of requests either, so that
// what is to be measured needs another user.
const Admin = "admin"

// Config is how user reaches the API server: by a certificate of the stack's own authority, for any name. Its client
// has no limit of requests; set QPS and Burst for one. [Admin] may do everything, any other user what RBAC says. A
// name that no certificate can hold, such as one that is no UTF-8, gives a Config whose connections fail with the
// reason. Each call returns a copy.
func (s *Stack) Config(user string) *rest.Config {
	cfg := &rest.Config{Host: "https://" + s.layout.address(APIServer), QPS: -1}
	p, err := s.pair(user)
	if err != nil {
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, err }
		return cfg
	}
	cfg.TLSClientConfig = rest.TLSClientConfig{CAData: s.ca.pem, CertData: p.cert, KeyData: p.key}
	return cfg
}

// Kubeconfig is the path of a file in the stack's directory by which user reaches the API server, as by [Stack.Config].
// It is made when it is not there. It returns the errors of the file system and of making a certificate.
func (s *Stack) Kubeconfig(user string) (path string, err error) {
	if s.isZero() {
		return "", ErrNoStack
	}
	path = s.layout.kubeconfig(user)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	p, err := s.pair(user)
	if err != nil {
		return "", err
	}
	const name = "e2e"
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: "https://" + s.layout.address(APIServer), CertificateAuthorityData: s.ca.pem},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: p.cert, ClientKeyData: p.key}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	})
	if err != nil {
		return "", err
	}
	return path, atomicfile.Write(atomicfile.OS{}, path, data)
}

// pair returns the certificate of a user, the same for each call on one Stack, so that connections are shared.
func (s *Stack) pair(user string) (pair, error) {
	if s.isZero() {
		return pair{}, ErrNoStack
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.users[user]; ok {
		return p, nil
	}
	var groups []string
	if user == Admin {
		groups = []string{"system:masters"}
	}
	p, err := s.ca.client(user, groups...)
	if err == nil {
		s.users[user] = p
	}
	return p, err
}
