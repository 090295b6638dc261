package podexec

import (
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

// ErrNoStatus says that the connection ended before the API server said how the command ended. It may have run, may run
// still, or may have failed.
var ErrNoStatus = errors.New("the connection ended without the command's status")

// statusReader is an executor's upgrader that notices whether anything was read from the stream on which the server says
// how the command ended: the executor itself takes a lost connection for success.
type statusReader struct {
	spdy.Upgrader
	read atomic.Bool
}

// spdyExecutor makes an executor over SPDY and what notices its status.
func spdyExecutor(config *rest.Config, address *url.URL) (remotecommand.Executor, *statusReader, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, nil, err
	}
	reader := &statusReader{Upgrader: upgrader}
	executor, err := remotecommand.NewSPDYExecutorForTransports(transport, reader, http.MethodPost, address)
	return executor, reader, err
}

// NewConnection wraps the connection of the upgrader below. An answer that refuses it is an error with a status.
func (s *statusReader) NewConnection(resp *http.Response) (httpstream.Connection, error) {
	body := keepRefusal(resp)
	conn, err := s.Upgrader.NewConnection(resp)
	if err != nil {
		return nil, refusal(resp, body, err)
	}
	return &statusConnection{Connection: conn, reader: s}, nil
}

type statusConnection struct {
	httpstream.Connection

	reader *statusReader
}

// CreateStream wraps the error stream.
func (c *statusConnection) CreateStream(headers http.Header) (httpstream.Stream, error) {
	stream, err := c.Connection.CreateStream(headers)
	if err != nil || headers.Get("streamType") != "error" {
		return stream, err
	}
	return &statusStream{Stream: stream, reader: c.reader}, nil
}

type statusStream struct {
	httpstream.Stream

	reader *statusReader
}

// Read notices that there was something.
func (s *statusStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if n > 0 {
		s.reader.read.Store(true)
	}
	return n, err
}
