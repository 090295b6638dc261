package kubelet

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// conns are the connections that exec requests have taken over from the HTTP server. The server forgets such a
// connection, so nobody else would notice its end, nor end it.
type conns struct {
	mu     sync.Mutex
	closed bool               // guarded by mu
	open   map[*conn]struct{} // guarded by mu
}

// closeAll ends all connections, and each that comes later at once.
func (c *conns) closeAll() {
	c.mu.Lock()
	c.closed = true
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for x := range open {
		_ = x.Close()
	}
}

func (c *conns) add(x *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.open == nil {
		c.open = map[*conn]struct{}{}
	}
	c.open[x] = struct{}{}
	return true
}

func (c *conns) remove(x *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, x)
}

// conn is a connection that tells of its end. The streaming libraries always read from it, so they see the end at once.
type conn struct {
	net.Conn
	reader *bufio.Reader
	all    *conns
	end    func() // closes gone, once
}

// Read reads what the HTTP server had read ahead, then from the connection.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.end()
	c.all.remove(c)
	return c.Conn.Close()
}

// hijacker is a response writer whose connection, once taken over, is a conn. It hides every other interface of the
// writer below.
type hijacker struct {
	http.ResponseWriter
	all  *conns
	gone chan struct{} // closed when the connection has ended
}

func newHijacker(w http.ResponseWriter, all *conns) *hijacker {
	return &hijacker{ResponseWriter: w, all: all, gone: make(chan struct{})}
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	below, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("hijack: %w", err)
	}
	c := &conn{Conn: below, reader: rw.Reader, all: h.all, end: sync.OnceFunc(func() { close(h.gone) })}
	if !h.all.add(c) {
		_ = c.Close()
		return nil, nil, errors.New("hijack: the server has ended")
	}
	return c, bufio.NewReadWriter(bufio.NewReader(c), rw.Writer), nil
}
