// Package unixsocket listens and dials on unix sockets that are named as endpoints, "unix:///absolute/path".
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// Scheme begins an endpoint.
	Scheme = "unix://"
	// MaxPath is how many bytes the kernel takes for the name of a socket.
	MaxPath = 107
)

// Path returns the path of an endpoint. It returns an error for another form and for a path that is longer than [MaxPath].
func Path(endpoint string) (string, error) {
	path, found := strings.CutPrefix(endpoint, Scheme)
	switch {
	case !found || !filepath.IsAbs(path):
		return "", fmt.Errorf("%q is not unix:///absolute/path", endpoint)
	case len(path) > MaxPath:
		return "", fmt.Errorf("%q is longer than %d bytes", path, MaxPath)
	}
	return path, nil
}

// Transport returns a transport whose every connection goes to the socket of a path, whatever the URL's host is.
func Transport(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}

// Listen listens on an endpoint. The socket file of a process that is gone is replaced, one that somebody listens on is
// an error.
func Listen(ctx context.Context, endpoint string) (net.Listener, error) {
	path, err := Path(endpoint)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen on %s: there is a file that is no socket", path)
	case isServed(ctx, path):
		return nil, fmt.Errorf("listen on %s: somebody listens there", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

// isServed reports whether somebody accepts connections.
func isServed(ctx context.Context, path string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was written
	return true
}
