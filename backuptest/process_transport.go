package backuptest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// Config returns a copy of config for the clients of the process. Each write is an effect; a lost answer is a connection
// that breaks after the server has done the request, and a failed effect one that breaks before. Requests of a process that
// has crashed, reads too, return [ErrCrashed], and those under way and its watches end, whatever contexts they have.
func (p *Process) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return processTransport{next, p} })
	return config
}

type processTransport struct {
	http.RoundTripper

	process *Process
}

// WrappedRoundTripper lets client-go find the transport below.
func (t processTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (t processTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.process.Crashed() {
		closeBody(req)
		return nil, ErrCrashed
	}
	info := apirequest.Parse(req)
	r, req, err := describeRequest(req, info)
	if err != nil {
		return nil, err
	}
	tied, free := t.process.tie(req.Context())
	req = req.WithContext(tied)
	var resp *http.Response
	done := false
	send := func(context.Context) (err error) {
		done = true
		resp, err = t.RoundTripper.RoundTrip(req)
		return err
	}
	if isWrite(r) {
		err = t.process.Do(tied, r.String(), send)
	} else if err = send(tied); t.process.Crashed() {
		err = ErrCrashed
	}
	if err == nil {
		resp.Body = tiedBody{resp.Body, free}
		return resp, nil
	}
	free()
	if resp != nil {
		_ = resp.Body.Close()
	}
	if !done {
		closeBody(req)
	}
	if errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrEffectFailed) {
		err = broken("read", syscall.ECONNRESET)
	}
	return nil, err
}

// tiedBody frees what its request was tied to.
type tiedBody struct {
	io.ReadCloser

	free func()
}

// Close implements io.Closer.
func (b tiedBody) Close() error {
	defer b.free()
	return b.ReadCloser.Close()
}
