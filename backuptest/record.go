package backuptest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Entry is one request of a [Log], or a mark.
type Entry struct {
	Request

	// At is when the request left the client, and Took how long its answer took; a watch is answered when it is open.
	At   time.Time
	Took time.Duration
	// User is the user of [Cluster.ConfigFor]. Empty: the one of [Cluster.Config].
	User string
	// Code is the HTTP status of the answer, 0 if there was none yet or ever. Err says why there was none.
	Code int
	Err  error
	// Mark is the text of a mark, which is no request. Empty in requests.
	Mark string
}

// String is the request and its outcome, such as "create volumesnapshots shop/a: 409".
func (e Entry) String() string {
	switch {
	case e.Mark != "":
		return "-- " + e.Mark
	case e.Err != nil:
		return fmt.Sprintf("%s: %v", e.Request, e.Err)
	case e.Code == 0:
		return e.Request.String() + ": no answer yet"
	default:
		return fmt.Sprintf("%s: %d", e.Request, e.Code)
	}
}

// Mark makes an entry in the log, so that a test can look at a part of its run: [Log.After] and [Log.Before].
func (c *Cluster) Mark(text string) {
	c.faults.log.add(Entry{At: time.Now(), Mark: text})
}

// Log returns all requests since the cluster began, retries included, in the order in which they left their clients. The
// caller owns it.
func (c *Cluster) Log() Log { return c.faults.log.copy() }

// requestLog is a growing log. The zero value is empty.
type requestLog struct {
	mu      sync.Mutex
	entries []Entry // guarded by mu
}

func (l *requestLog) begin(r Request, req *http.Request) (index int) {
	return l.add(Entry{Request: r, At: time.Now(), User: req.Header.Get("Impersonate-User")})
}

func (l *requestLog) end(index int, resp *http.Response, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.entries[index]
	e.Took, e.Err = time.Since(e.At), err
	if resp != nil {
		e.Code = resp.StatusCode
	}
}

func (l *requestLog) add(e Entry) (index int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	return len(l.entries) - 1
}

func (l *requestLog) copy() Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// String is, for example, "patch pods/status shop/db-0", "list pods in shop", "any request in shop" or "any request".
func (r Request) String() string {
	words := []string{r.Verb, r.Resource}
	switch {
	case r.Verb == "" && r.Resource == "":
		words = []string{"any request"}
	case r.Verb == "":
		words[0] = "any request of"
	}
	switch {
	case r.Name == "" && r.Namespace != "":
		words = append(words, "in "+r.Namespace)
	case r.Name != "":
		words = append(words, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}
