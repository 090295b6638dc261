package stack

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long certificates are valid: a stack does not live as long.
const validity = 365 * 24 * time.Hour

// The files of the directory with the keys.
const (
	caCert, caKey           = "ca.crt", "ca.key"
	servingCert, servingKey = "serving.crt", "serving.key" // of every server on 127.0.0.1
	kubeletCert, kubeletKey = "kubelet-client.crt", "kubelet-client.key"
	tokenKey                = "service-account.key"
)

// KubeletClientUser is the user as which the API server speaks to the kubelet.
const KubeletClientUser = "kube-apiserver"

// authority signs the certificates of one stack.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte // the certificate
}

// pair is a certificate and its key, both PEM.
type pair struct{ cert, key []byte }

// newPKI makes the keys of a stack in dir, which exists.
func newPKI(dir string) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := certTemplate(pkix.Name{CommonName: "sheetanchor-e2e"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	_, tokens, err := newKey()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{caCert: certPEM(der), caKey: keyPEM, tokenKey: tokens}
	ca, err := parseAuthority(files[caCert], files[caKey])
	if err != nil {
		return nil, err
	}
	serving, err := ca.serving()
	if err != nil {
		return nil, err
	}
	client, err := ca.client(KubeletClientUser)
	if err != nil {
		return nil, err
	}
	files[servingCert], files[servingKey] = serving.cert, serving.key
	files[kubeletCert], files[kubeletKey] = client.cert, client.key
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	return ca, nil
}

func readAuthority(dir string) (*authority, error) {
	cert, err := os.ReadFile(filepath.Join(dir, caCert))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(dir, caKey))
	if err != nil {
		return nil, err
	}
	return parseAuthority(cert, key)
}

func parseAuthority(certPEM, keyPEM []byte) (*authority, error) {
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("the authority's certificate or key is no PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: certPEM}, nil
}

// client makes a certificate for a user of the API server and of the kubelet.
func (a *authority) client(user string, groups ...string) (pair, error) {
	template := certTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// serving makes the certificate of the stack's servers.
func (a *authority) serving() (pair, error) {
	template := certTemplate(pkix.Name{CommonName: "127.0.0.1"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate for %q: %w", template.Subject.CommonName, err)
	}
	return pair{cert: certPEM(der), key: keyPEM}, nil
}

func certTemplate(subject pkix.Name) *x509.Certificate {
	serial := new(big.Int).SetBytes([]byte(rand.Text()))
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
	}
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
