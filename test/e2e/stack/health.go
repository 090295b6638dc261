package stack

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// lookTimeout bounds one look at a component's health.
const lookTimeout = 5 * time.Second

func etcdHealthy(ctx context.Context, s *Stack) error {
	_, err := s.look(ctx, "http://"+s.layout.address(Etcd)+"/readyz")
	return err
}

func apiServerHealthy(ctx context.Context, s *Stack) error {
	_, err := s.look(ctx, "https://"+s.layout.address(APIServer)+"/readyz")
	return err
}

func controllerManagerHealthy(ctx context.Context, s *Stack) error {
	_, err := s.look(ctx, "https://"+s.layout.address(ControllerManager)+"/healthz")
	return err
}

// snapshotControllerHealthy looks for its metrics, which it serves once it has found the CRDs.
func snapshotControllerHealthy(ctx context.Context, s *Stack) error {
	_, err := s.look(ctx, "http://"+s.layout.address(SnapshotController)+"/metrics")
	return err
}

// sidecarHealthy looks for the call by which a sidecar asks the driver what it can: it has connected then.
func sidecarHealthy(name string) func(ctx context.Context, s *Stack) error {
	return func(ctx context.Context, s *Stack) error {
		metrics, err := s.look(ctx, "http://"+s.layout.address(name)+"/metrics")
		if err != nil {
			return err
		}
		if !bytes.Contains(metrics, []byte("ControllerGetCapabilities")) {
			return fmt.Errorf("%s has not asked the driver for its capabilities", name)
		}
		return nil
	}
}

func driverHealthy(ctx context.Context, s *Stack) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.layout.path(csiSocket))
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	return s.driver.Ready(ctx)
}

func kubeletHealthy(ctx context.Context, s *Stack) error { return s.kubelet.Healthy(ctx) }

// look gets an URL as admin and returns the answer's body; an error for any status but 200.
func (s *Stack) look(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	admin, err := s.pair(Admin)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(admin.cert, admin.key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.ca.cert)
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.500s", url, resp.Status, body)
	}
	return body, nil
}
