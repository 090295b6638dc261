package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

// historyLimit is how many changes of one resource a watch or an older list can still go back over.
const historyLimit = 1 << 15

// event is one change of one object. prev is nil for an added object; for a deleted one, object is its last state with
// the resourceVersion of the deletion.
type event struct {
	rv           uint64
	kind         watch.EventType
	prev, object *object
}

// node is a place in a resource's chain of events. A reader that stands on a node waits for ready and then goes on to
// next; it holds no lock and the chain never waits for it.
type node struct {
	event
	next  *node         // set before ready is closed
	ready chan struct{} // closed when next is set
}

// history is a resource's chain of events. Its methods need the server's lock.
type history struct {
	base   *node   // the place before recent[0]
	recent []*node // in the order of rv
	floor  uint64  // changes up to here are forgotten
}

func newHistory(floor uint64) history {
	return history{base: &node{ready: make(chan struct{})}, floor: floor}
}

func (h *history) tail() *node {
	if n := len(h.recent); n > 0 {
		return h.recent[n-1]
	}
	return h.base
}

func (h *history) add(e event) {
	last, n := h.tail(), &node{event: e, ready: make(chan struct{})}
	last.next = n
	close(last.ready)
	h.recent = append(h.recent, n)
	if len(h.recent) > 2*historyLimit {
		h.forget(len(h.recent) - historyLimit)
	}
}

// forget drops the n oldest changes.
func (h *history) forget(n int) {
	if n == 0 {
		return
	}
	h.base = h.recent[n-1]
	h.floor = h.base.rv
	h.recent = slices.Clone(h.recent[n:])
}

// after returns the place from which a reader sees every change later than rv, and false if some are forgotten.
func (h *history) after(rv uint64) (*node, bool) {
	if rv < h.floor {
		return nil, false
	}
	i := h.firstAfter(rv)
	if i == 0 {
		return h.base, true
	}
	return h.recent[i-1], true
}

// since returns the changes later than rv, oldest first, and false if some are forgotten.
func (h *history) since(rv uint64) ([]*node, bool) {
	if rv < h.floor {
		return nil, false
	}
	return h.recent[h.firstAfter(rv):], true
}

func (h *history) firstAfter(rv uint64) int {
	i, _ := slices.BinarySearchFunc(h.recent, rv, func(n *node, rv uint64) int {
		if n.rv <= rv {
			return -1
		}
		return 1
	})
	return i
}
