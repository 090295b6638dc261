package apiserver

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is one event of a watch, before it is written.
type Event struct {
	// Type is what happened, as the watch's selectors make it look.
	Type watch.EventType
	// Namespace and Name are the object's; empty in bookmarks and errors.
	Namespace, Name string

	object     *object
	rv         uint64
	initialEnd bool
	status     metav1.Status
}

// Stream is the body of a watch's answer. Read blocks on channels only. As with any response body, one goroutine reads
// while another may close.
type Stream struct {
	ctx    context.Context //nolint:containedctx // a response body ends with its request
	call   *call
	server *Server
	sel    *selector
	pass   func(Event) bool

	bookmarks bool // the client takes them

	initial []Event
	at      *node  // nil: only initial events
	after   uint64 // changes up to here are not sent
	last    bool   // nothing follows what is pending
	pending []byte

	ended    <-chan struct{}
	closed   chan struct{}
	isClosed atomic.Bool
	timeout  *time.Timer
	bookmark *time.Ticker
}

// Intercept makes pass decide about every event: false loses it. pass may call [Stream.End] and [Stream.Expire]. It must be
// set before the first Read.
func (st *Stream) Intercept(pass func(Event) bool) { st.pass = pass }

// End ends the watch after the event that is being passed. It is for the reading goroutine only.
func (st *Stream) End() { st.last = true }

// Expire makes an error event 410 Gone the next and last one. It is for the reading goroutine only.
func (st *Stream) Expire() { st.initial = []Event{gone("too old resource version")} }

func (st *Stream) start(timeout time.Duration) {
	if timeout > 0 {
		st.timeout = time.NewTimer(timeout)
	}
	if every := st.server.opts.BookmarkEvery; every > 0 && st.bookmarks {
		st.bookmark = time.NewTicker(every)
	}
}

// Read implements io.Reader. It ends with io.EOF when the watch's time is over, the server closes or the watch is ended,
// and with the request's error when its context ends.
func (st *Stream) Read(p []byte) (int, error) {
	for len(st.pending) == 0 {
		if st.last {
			return 0, io.EOF
		}
		e, err := st.next()
		if err != nil {
			st.last = true
			return 0, err
		}
		if err := st.deliver(e); err != nil {
			return 0, err
		}
	}
	n := copy(p, st.pending)
	st.pending = st.pending[n:]
	return n, nil
}

// deliver makes e pending unless it is to be lost.
func (st *Stream) deliver(e Event) error {
	if e.Type == watch.Error {
		st.last = true
	} else if st.pass != nil && !st.pass(e) {
		return nil
	}
	frame, err := st.frame(e)
	st.pending = frame
	return err
}

// next waits for the next event that the selectors let through.
func (st *Stream) next() (Event, error) {
	if len(st.initial) > 0 {
		e := st.initial[0]
		st.initial = st.initial[1:]
		return e, st.over()
	}
	for {
		if err := st.over(); err != nil {
			return Event{}, err
		}
		var timeout, bookmark <-chan time.Time
		if st.timeout != nil {
			timeout = st.timeout.C
		}
		if st.bookmark != nil {
			bookmark = st.bookmark.C
		}
		select {
		case <-st.at.ready:
			st.at = st.at.next
			if e, ok := st.see(st.at.event); ok {
				return e, nil
			}
		case <-bookmark:
			if e, ok := st.idle(); ok {
				return e, nil
			}
		case <-timeout:
			return Event{}, io.EOF
		case <-st.ended:
			return Event{}, io.EOF
		case <-st.server.closed:
			return Event{}, io.EOF
		case <-st.closed:
			return Event{}, io.ErrClosedPipe
		case <-st.ctx.Done():
			return Event{}, st.ctx.Err()
		}
	}
}

// over reports why the stream has ended, so that a busy one ends too.
func (st *Stream) over() error {
	select {
	case <-st.ctx.Done():
		return st.ctx.Err()
	case <-st.closed:
		return io.ErrClosedPipe
	case <-st.server.closed:
		return io.EOF
	case <-st.ended:
		return io.EOF
	default:
		return nil
	}
}

// idle makes a bookmark, unless a change is waiting that it would leave out.
func (st *Stream) idle() (Event, bool) {
	rv := st.server.current()
	select {
	case <-st.at.ready:
		return Event{}, false
	default:
		return Event{Type: watch.Bookmark, rv: rv}, true
	}
}

// see makes a change an event of this watch: what enters the selection is added, what leaves it is deleted.
func (st *Stream) see(e event) (Event, bool) {
	namespace := e.object.namespace()
	if e.rv <= st.after || (st.call.info.Namespace != "" && namespace != st.call.info.Namespace) {
		return Event{}, false
	}
	before := e.prev != nil && st.sel.matches(e.prev)
	now := e.kind != watch.Deleted && st.sel.matches(e.object)
	out := Event{Namespace: namespace, Name: e.object.name(), object: e.object, rv: e.rv}
	switch {
	case before && now:
		out.Type = watch.Modified
	case now:
		out.Type = watch.Added
	case before:
		out.Type = watch.Deleted
	default:
		return Event{}, false
	}
	return out, true
}

// frame writes an event as a line of JSON.
func (st *Stream) frame(e Event) ([]byte, error) {
	var raw []byte
	switch e.Type {
	case watch.Error:
		raw = encode(&e.status)
	case watch.Bookmark:
		raw = st.call.renderBookmark(e.rv, e.initialEnd)
	default:
		var err error
		if raw, err = st.call.render(e.object); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", e.Type, raw), nil
}

// Close implements io.Closer. A Read that waits ends.
func (st *Stream) Close() error {
	if st.isClosed.Swap(true) {
		return nil
	}
	close(st.closed)
	if st.timeout != nil {
		st.timeout.Stop()
	}
	if st.bookmark != nil {
		st.bookmark.Stop()
	}
	return nil
}
