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
	counts map[string]int            // guarded by mu
	byUser map[string]map[string]int // guarded by mu: of the users in whose name requests were sent
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
	if info.User == "" {
		return
	}
	if c.byUser == nil {
		c.byUser = make(map[string]map[string]int)
	}
	if c.byUser[info.User] == nil {
		c.byUser[info.User] = make(map[string]int)
	}
	c.byUser[info.User][info.Key()]++
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

// RequestsBy returns a copy of the counts of what was sent on behalf of a user ([Info.User]). It is never nil.
func (c *Counter) RequestsBy(user string) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make(map[string]int, len(c.byUser[user]))
	maps.Copy(counts, c.byUser[user])
	return counts
}

// Reset forgets all counts.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.byUser = nil, nil
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
