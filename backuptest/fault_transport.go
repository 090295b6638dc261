package backuptest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/internal/apiserver"
)

// faultTransport stands between a client and the server.
type faultTransport struct {
	server  *apiserver.Server
	latency time.Duration
	log     requestLog

	mu     sync.Mutex
	faults []*setFault // guarded by mu, as are their counts
}

type setFault struct {
	Fault
	seen   int       // matching requests so far
	begun  time.Time // when the first request met it
	random *rand.Rand
}

func (t *faultTransport) set(f Fault) (remove func()) {
	if f.Action == FaultStale {
		f.stale = &staleAnswers{}
	}
	own := &setFault{Fault: f, random: rand.New(rand.NewPCG(f.Seed, 0))}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.err != nil {
		t.faults = slices.Insert(t.faults, 0, own)
	} else {
		t.faults = append(t.faults, own)
	}
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
		if due == nil && f.isDue() {
			due = f
		}
	}
	if due == nil {
		return Fault{}
	}
	if due.begun.IsZero() {
		due.begun = time.Now()
	}
	return due.Fault
}

// reject makes every request fail with what is wrong with a fault.
func (t *faultTransport) reject(err error) (remove func()) {
	return t.set(Fault{err: fmt.Errorf("set fault: %w", err)})
}

// isDue says whether a request that matches meets the fault.
func (f *setFault) isDue() bool {
	if f.seen < f.Nth || f.Times != 0 && f.seen >= f.Nth+f.Times {
		return false
	}
	if f.For > 0 && !f.begun.IsZero() && time.Since(f.begun) >= f.For {
		return false
	}
	return f.Chance <= 0 || f.random.Float64() < f.Chance
}

func (f *Fault) matches(r Request, write bool) bool {
	return (f.Verb == "" || f.Verb == r.Verb || f.Verb == verbWrite && write) &&
		(f.Resource == "" || f.Resource == r.Resource) &&
		(f.Namespace == "" || f.Namespace == r.Namespace) &&
		(f.Name == "" || f.Name == r.Name)
}

// RoundTrip implements http.RoundTripper.
func (t *faultTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	info := apirequest.Parse(req)
	r, req, err := describeRequest(req, info)
	if err != nil {
		return nil, err
	}
	f := t.due(r, isWrite(r))
	entry := t.log.begin(r, req)
	resp, err := t.answer(req, info, f, r)
	t.log.end(entry, resp, err)
	return resp, err
}

// describeRequest says what a request is about; the name of a create stands in its body, which a copy of req then carries.
func describeRequest(req *http.Request, info apirequest.Info) (Request, *http.Request, error) {
	r := Request{Verb: info.Verb, Resource: info.ResourcePath(), Namespace: info.Namespace, Name: info.Name}
	if info.Verb != apirequest.VerbCreate || r.Name != "" || req.Body == nil {
		return r, req, nil
	}
	body, err := io.ReadAll(req.Body)
	if err = errors.Join(err, req.Body.Close()); err != nil {
		return r, req, err
	}
	r.Name = apiserver.NameIn(body)
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	return r, req, nil
}

// answer pauses and then does to the request what the fault says.
func (t *faultTransport) answer(req *http.Request, info apirequest.Info, f Fault, r Request) (*http.Response, error) {
	err := f.err
	if err == nil {
		err = t.pause(req, t.latency+f.Latency)
	}
	if err != nil {
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
		return t.refuse(req, info, f, r)
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
	case FaultStale:
		resp, err := f.stale.roundTrip(t.server, req, info)
		f.observe(r)
		return resp, err
	default:
		resp, err := t.server.RoundTrip(req)
		f.observe(r)
		if err != nil {
			return nil, err
		}
		if stream, ok := resp.Body.(*apiserver.Stream); ok {
			f.disturb(stream)
		}
		f.spoil(t, resp)
		return resp, nil
	}
}

func (f *Fault) observe(r Request) {
	if f.Observe != nil {
		f.Observe(r)
	}
}

// refuse ends a request that the server does not see.
func (t *faultTransport) refuse(req *http.Request, info apirequest.Info, f Fault, r Request) (*http.Response, error) {
	switch f.Action {
	case FaultStatus:
		return apiserver.Failure(req, f.status(info, r)), nil
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
