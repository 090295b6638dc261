package kubelet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
)

// Options say what a [Server] serves. Every field is required.
type Options struct {
	// Config reaches the API server. A client rate limit that it does not set is switched off.
	Config *rest.Config
	// Node is the name of the node whose pods the server looks after.
	Node string
	// Listen is the address of the exec server, for example "127.0.0.1:10250". Port 0 takes a free one.
	Listen string
	// CertFile and KeyFile hold the serving certificate and its key in PEM.
	CertFile, KeyFile string
	// ClientCAFile holds the certificates in PEM that sign clients' certificates.
	ClientCAFile string
	// RecordFile is the file of the exec record. It is made if it is missing, and gone on with if it is there.
	RecordFile string
	// Control is the socket of the control server, "unix:///absolute/path". A socket that nobody listens on any more is replaced.
	Control string
}

// validate returns every missing or wrong field.
func (o Options) validate() error {
	_, controlErr := unixsocket.Path(o.Control)
	var errs []error
	for _, f := range []struct {
		name string
		err  error
	}{
		{"Config", required(o.Config != nil)},
		{"Node", required(o.Node != "")},
		{"Listen", required(o.Listen != "")},
		{"CertFile", required(o.CertFile != "")},
		{"KeyFile", required(o.KeyFile != "")},
		{"ClientCAFile", required(o.ClientCAFile != "")},
		{"RecordFile", required(o.RecordFile != "")},
		{"Control", controlErr},
	} {
		if f.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, f.err))
		}
	}
	return errors.Join(errs...)
}

var errEmpty = errors.New("must not be empty")

func required(given bool) error {
	if !given {
		return errEmpty
	}
	return nil
}

// tlsConfig serves clients with a certificate of the client CA, and no others.
func (o Options) tlsConfig() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("CertFile, KeyFile: %w", err)
	}
	data, err := os.ReadFile(o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("ClientCAFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("ClientCAFile: %s: no certificate in it", o.ClientCAFile)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"}, // connections are taken over, which HTTP/2 does not allow
	}, nil
}
