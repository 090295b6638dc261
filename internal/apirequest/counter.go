package apirequest

import (
	"maps"
	"net/http"
	"sync"
)

// Counter counts requests by [Info.Key]. The zero Counter is ready to use, must not be copied after first use, and may
// count for any number of transports at once.
type Counter struct {
	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

// Wrap returns a transport that counts each request before it hands it to next. It has the signature of a client-go
// transport.WrapperFunc, so that rest.Config's Wrap method takes it. A watch is one request.
func (c *Counter) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper{counter: c, next: next}
}

// Count adds one request.
func (c *Counter) Count(info Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[info.Key()]++
}

// Requests returns a copy of the counts so far. It is never nil.
func (c *Counter) Requests() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		return map[string]int{}
	}
	return maps.Clone(c.counts)
}

// Reset forgets all counts.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = nil
}

type roundTripper struct {
	counter *Counter
	next    http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport below, as it does to cancel a request.
func (t roundTripper) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	t.counter.Count(Parse(req))
	return t.next.RoundTrip(req)
}
