package backuptest

import (
	"io"
	"net/http"
	"syscall"
)

// spoil makes the body of an answer suffer the fault, if it is one of bodies.
func (f *Fault) spoil(t *faultTransport, resp *http.Response) {
	switch f.Action {
	case FaultCutAnswer:
		resp.Body = &cutBody{ReadCloser: resp.Body, left: max(f.After, 0)}
	case FaultTrickle:
		wait := func() error { return t.pause(resp.Request, f.Latency) }
		resp.Body = &slowBody{ReadCloser: resp.Body, wait: wait, step: max(f.After, 1)}
	default:
	}
}

// cutBody breaks the connection after some bytes.
type cutBody struct {
	io.ReadCloser

	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, broken("read", syscall.ECONNRESET)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// slowBody hands out a few bytes at a time.
type slowBody struct {
	io.ReadCloser

	wait func() error
	step int
}

func (b *slowBody) Read(p []byte) (int, error) {
	if err := b.wait(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p[:min(len(p), b.step)])
}
