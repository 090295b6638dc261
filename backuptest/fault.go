package backuptest

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FaultAction is what a [Fault] does to a request.
type FaultAction uint8

const (
	// FaultNone lets the request pass, after the fault's Latency. It is the zero action, but see [Fault.Code].
	FaultNone FaultAction = iota
	// FaultStatus answers with an error, without the server seeing the request.
	FaultStatus
	// FaultRefuse refuses the connection, as a server that is down does.
	FaultRefuse
	// FaultReset breaks the connection before the server has seen the request.
	FaultReset
	// FaultHang gives no answer until the request's context ends. The server does not see the request.
	FaultHang
	// FaultLostAnswer lets the server do the request and breaks the connection instead of answering.
	FaultLostAnswer
	// FaultHangAnswer lets the server do the request and gives no answer until the request's context ends.
	FaultHangAnswer
	// FaultEndWatch ends a watch as the end of its stream after After events.
	FaultEndWatch
	// FaultExpireWatch ends a watch with an error event 410 Gone after After events.
	FaultExpireWatch
	// FaultLoseEvent loses one event of a watch: the one that follows After others.
	FaultLoseEvent
	// FaultSilenceWatch loses all events and bookmarks of a watch after After events. The watch stays open.
	FaultSilenceWatch
	// FaultLoseBookmarks loses all bookmarks of a watch.
	FaultLoseBookmarks
	// FaultCutAnswer lets the server do the request and breaks the connection after After bytes of the answer's body. Of a
	// watch it cuts the event that those bytes end in.
	FaultCutAnswer
	// FaultTrickle lets the server do the request and hands out the answer's body After bytes at a time (zero: one), each
	// after Latency, or until the request's context ends. It is for answers, not for watches.
	FaultTrickle
	// FaultStale answers a get or a list as the same request was answered when the fault first met it, as a cache that has
	// fallen behind does. Other requests, watches too, pass.
	FaultStale
)

// Fault says which requests meet trouble, and what kind. The zero Fault matches every request and does nothing.
type Fault struct {
	// Verb is the verb to match: get, list, watch, create, update, patch, delete, deletecollection, or "write" for any of
	// the last five that changes something, which an access review does not. Empty matches any.
	Verb string
	// Resource is the resource to match, with its subresource if it is about one: "pods" or "pods/status". Empty matches
	// any, also requests about no resource.
	Resource string
	// Namespace is the namespace to match. Empty matches any.
	Namespace string
	// Name is the object's name to match; of a create it is read in the body, of a list or watch in its field selector.
	// Empty matches any.
	Name string
	// Nth is the first of the matching requests that meets the fault, counted from 1 since the fault was set. Zero is 1.
	Nth int
	// Times is how many matching requests, from the Nth on, meet the fault. Zero means all if Nth is zero or For is set,
	// else one.
	Times int
	// For is how long the fault lasts from the first request that meets it, as a server that restarts does. Zero is for ever.
	For time.Duration
	// Chance is how likely a request that would meet the fault meets it, between 0 and 1. Zero means always. The same Seed
	// gives the same choices for the same order of requests.
	Chance float64
	Seed   uint64

	// Action is what happens to the request.
	Action FaultAction
	// Latency is how long the request waits before that, or until its context ends.
	Latency time.Duration
	// Code is the HTTP status of [FaultStatus]; a Code alone means FaultStatus. Zero is 500.
	Code int
	// Reason and Message of the status. Empty means what servers say with that code: of a 409 to a create that the object
	// exists already, of a 410 that the version is too old, of a 403 who may not do what.
	Reason  metav1.StatusReason
	Message string
	// RetryAfter is sent with the status, rounded up to seconds. Clients of client-go wait for it and try again by
	// themselves, on codes 429 and 5xx. Zero sends none.
	RetryAfter time.Duration
	// After is how many events of a watch pass before its fault, bookmarks not counted; for FaultCutAnswer and FaultTrickle
	// it is bytes of the answer.
	After int
	// Object limits the counting and the losing of events to those of the object with this name. Empty means any.
	Object string
	// Observe, if set, is called after the server has done the request and before the fault shows, with no lock held. It
	// is how a test cancels a workflow after its kth write.
	Observe func(Request)

	stale *staleAnswers
	err   error // what is wrong with it
}

// Request is one request as [Fault.Observe] sees it.
type Request struct {
	// Verb and Resource are as in [Fault]; Resource is empty for paths that name none.
	Verb, Resource string
	// Namespace and Name of the object, empty where there is none.
	Namespace, Name string
}

// Restart is a restart of the API server: all watches end, for the time down connections are refused, and for two seconds
// after that every request is forbidden, since the server does not know its roles yet. The times begin with the first
// request that meets them. A down that is not positive is no time.
func (c *Cluster) Restart(down time.Duration) {
	if down > 0 {
		c.Fault(Fault{Action: FaultRefuse, For: down})
	}
	c.Fault(Fault{Code: http.StatusForbidden, For: 2 * time.Second})
	c.EndWatches("")
}

// Fault sets a fault. The first that is due for a request, in the order they were set, acts on it. remove takes it back;
// requests that it holds stay held. It may be called more than once.
//
// A fault that can do nothing, or not what it says, by an unknown verb, a negative number or an action that its verb has no
// use for, ends the test of [New] with an error that names the field, so that Fault with such a one must be called by the test's own
// goroutine; with a cluster of [Start] it makes every request fail with that error, until it is removed.
func (c *Cluster) Fault(f Fault) (remove func()) {
	if err := f.wrong(); err != nil {
		remove = c.faults.reject(err)
		if c.test != nil {
			c.test.Helper()
			c.test.Fatalf("backuptest: set fault: %v", err)
		}
		return remove
	}
	if f.Action == FaultNone && f.Code != 0 {
		f.Action = FaultStatus
	}
	if f.Code == 0 {
		f.Code = http.StatusInternalServerError
	}
	if f.Times == 0 && f.Nth > 0 && f.For == 0 {
		f.Times = 1
	}
	f.Nth = max(f.Nth, 1)
	return c.faults.set(f)
}
