package backuptest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/internal/apiserver"
)

// faultTransport stands between a client and the server.
type faultTransport struct {
	server  *apiserver.Server
	latency time.Duration

	mu     sync.Mutex
	faults []*setFault // guarded by mu, as are their counts
}

type setFault struct {
	Fault
	seen int // matching requests so far
}

func (t *faultTransport) set(f Fault) (remove func()) {
	own := &setFault{Fault: f}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, own)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.faults = slices.DeleteFunc(t.faults, func(f *setFault) bool { return f == own })
	}
}

// due counts the request for every fault that matches it and returns the first that is due, or the zero Fault.
func (t *faultTransport) due(r Request, write bool) Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	var due *setFault
	for _, f := range t.faults {
		if !f.matches(r, write) {
			continue
		}
		f.seen++
		if due == nil && f.seen >= f.Nth && (f.Times == 0 || f.seen < f.Nth+f.Times) {
			due = f
		}
	}
	if due == nil {
		return Fault{}
	}
	return due.Fault
}

func (f *Fault) matches(r Request, write bool) bool {
	return (f.Verb == "" || f.Verb == r.Verb || f.Verb == "write" && write) &&
		(f.Resource == "" || f.Resource == r.Resource) &&
		(f.Namespace == "" || f.Namespace == r.Namespace) &&
		(f.Name == "" || f.Name == r.Name)
}

// RoundTrip implements http.RoundTripper.
func (t *faultTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	info := apirequest.Parse(req)
	r := Request{Verb: info.Verb, Resource: info.ResourcePath(), Namespace: info.Namespace, Name: info.Name}
	if info.Verb == apirequest.VerbCreate && r.Name == "" && req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err = errors.Join(err, req.Body.Close()); err != nil {
			return nil, err
		}
		r.Name = apiserver.NameIn(body)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	f := t.due(r, info.IsWrite())
	if err := t.pause(req, t.latency+f.Latency); err != nil {
		closeBody(req)
		return nil, err
	}
	return t.meet(req, info, f, r)
}

// CancelRequest is what client-go calls for a client with a Timeout when that is over. The request's context has ended it
// already.
func (*faultTransport) CancelRequest(*http.Request) {}

// meet does to the request what the fault says.
func (t *faultTransport) meet(req *http.Request, info apirequest.Info, f Fault, r Request) (*http.Response, error) {
	switch f.Action {
	case FaultStatus, FaultRefuse, FaultReset, FaultHang:
		closeBody(req)
		f.observe(r)
		return t.refuse(req, info, f)
	case FaultLostAnswer, FaultHangAnswer:
		resp, err := t.server.RoundTrip(req)
		f.observe(r)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		if f.Action == FaultLostAnswer {
			return nil, broken("read", syscall.ECONNRESET)
		}
		return nil, t.hang(req)
	default:
		resp, err := t.server.RoundTrip(req)
		f.observe(r)
		if err != nil {
			return nil, err
		}
		if stream, ok := resp.Body.(*apiserver.Stream); ok {
			f.disturb(stream)
		}
		return resp, nil
	}
}

func (f *Fault) observe(r Request) {
	if f.Observe != nil {
		f.Observe(r)
	}
}

// refuse ends a request that the server does not see.
func (t *faultTransport) refuse(req *http.Request, info apirequest.Info, f Fault) (*http.Response, error) {
	switch f.Action {
	case FaultStatus:
		return apiserver.Failure(req, f.status(info)), nil
	case FaultRefuse:
		return nil, broken("dial", syscall.ECONNREFUSED)
	case FaultReset:
		return nil, broken("read", syscall.ECONNRESET)
	default:
		return nil, t.hang(req)
	}
}

// pause waits for d, or for the end of the request or the cluster.
func (t *faultTransport) pause(req *http.Request, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-req.Context().Done():
		return req.Context().Err()
	case <-t.server.Done():
		return broken("read", syscall.ECONNRESET)
	}
}

func (t *faultTransport) hang(req *http.Request) error {
	select {
	case <-req.Context().Done():
		return req.Context().Err()
	case <-t.server.Done():
		return broken("read", syscall.ECONNRESET)
	}
}

func broken(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// status is the error the fault answers with.
func (f *Fault) status(info apirequest.Info) metav1.Status {
	retry := int((f.RetryAfter + time.Second - 1) / time.Second)
	resource := schema.GroupResource{Group: info.Group, Resource: info.Resource}
	status := apierrors.NewGenericServerResponse(f.Code, info.Verb, resource, info.Name, "", retry, false).Status()
	if f.Code == http.StatusNotFound && info.Name != "" {
		status = apierrors.NewNotFound(resource, info.Name).Status()
	}
	if f.Reason != "" {
		status.Reason = f.Reason
	}
	if f.Message != "" {
		status.Message = f.Message
	}
	return status
}
