package unixsocket_test

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
)

func TestPath(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("x", unixsocket.MaxPath-1)
	for endpoint, want := range map[string]string{
		"unix:///run/a.sock": "/run/a.sock", "unix://" + long: long, "unix://" + long + "x": "", "unix://a": "", "unix://": "", "/run/a.sock": "",
		"tcp://127.0.0.1:1": "", "": "",
	} {
		if got, err := unixsocket.Path(endpoint); got != want || (err == nil) != (want != "") {
			t.Errorf("Path(%q) = %q, %v, want %q", endpoint, got, err, want)
		}
	}
}

// Whatever the host, a request goes to the socket.
func TestTransport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := unixsocket.Listen(t.Context(), unixsocket.Scheme+path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	transport := unixsocket.Transport(path)
	resp, err := (&http.Client{Transport: transport}).Get("http://anywhere/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(body) != "anywhere" {
		t.Errorf("the answer is %q, %v", body, err)
	}
	transport.CloseIdleConnections()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve = %v", err)
	}
}
