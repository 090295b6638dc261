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
)

// Fault says which requests meet trouble, and what kind. The zero Fault matches every request and does nothing.
type Fault struct {
	// Verb is the verb to match: get, list, watch, create, update, patch, delete, deletecollection, or "write" for any of
	// the last five. Empty matches any.
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
	// Times is how many matching requests, from the Nth on, meet the fault. Zero means all if Nth is zero, else one.
	Times int

	// Action is what happens to the request.
	Action FaultAction
	// Latency is how long the request waits before that, or until its context ends.
	Latency time.Duration
	// Code is the HTTP status of [FaultStatus]; a Code alone means FaultStatus. Zero is 500.
	Code int
	// Reason and Message of the status. Empty means what servers say with that code.
	Reason  metav1.StatusReason
	Message string
	// RetryAfter is sent with the status, rounded up to seconds. Clients of client-go wait for it and try again by
	// themselves, on codes 429 and 5xx. Zero sends none.
	RetryAfter time.Duration
	// After is how many events of a watch pass before its fault. Bookmarks are not counted.
	After int
	// Object limits the counting and the losing of events to those of the object with this name. Empty means any.
	Object string
	// Observe, if set, is called after the server has done the request and before the fault shows, with no lock held. It
	// is how a test cancels a workflow after its kth write.
	Observe func(Request)
}

// Request is one request as [Fault.Observe] sees it.
type Request struct {
	// Verb and Resource are as in [Fault]; Resource is empty for paths that name none.
	Verb, Resource string
	// Namespace and Name of the object, empty where there is none.
	Namespace, Name string
}

// Fault sets a fault. The first that is due for a request, in the order they were set, acts on it. remove takes it back;
// requests that it holds stay held. It may be called more than once.
func (c *Cluster) Fault(f Fault) (remove func()) {
	if f.Action == FaultNone && f.Code != 0 {
		f.Action = FaultStatus
	}
	if f.Code == 0 {
		f.Code = http.StatusInternalServerError
	}
	if f.Times == 0 && f.Nth > 0 {
		f.Times = 1
	}
	f.Nth = max(f.Nth, 1)
	return c.faults.set(f)
}
