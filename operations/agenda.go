package operations

import (
	"container/heap"
	"maps"
	"slices"
	"time"
)

// agenda says what to ask next. Operations wait in it by the time at which they are due, and those that are due, by
// action, until the action has room. The zero agenda is empty.
type agenda struct {
	waiting dueHeap
	queues  map[string][]string // IDs of operations that are due, by action, the longest due first
}

// plan puts the operation where it is due now, in place of any other place it has among those that wait.
func (s *step) plan(op *Operation, now instant) {
	t := s.track.ops[op.ID]
	switch {
	case t.waiting || op.Status.Phase.IsTerminal():
		if t.place > 0 {
			heap.Remove(&s.agenda.waiting, t.place-1)
		}
	case t.place > 0:
		t.at = s.dueAt(op, now)
		heap.Fix(&s.agenda.waiting, t.place-1)
	default:
		t.at = s.dueAt(op, now)
		heap.Push(&s.agenda.waiting, t)
	}
}

// due takes out one operation that is due.
func (a *agenda) due(now time.Time) (id string, ok bool) {
	if at, ok := a.first(); !ok || at.After(now) {
		return "", false
	}
	next, _ := heap.Pop(&a.waiting).(*opTrack)
	return next.id, true
}

// first returns when the first operation that waits is due.
func (a *agenda) first() (at time.Time, ok bool) {
	if len(a.waiting) == 0 {
		return time.Time{}, false
	}
	return a.waiting[0].at, true
}

// ready lines up an operation that is due.
func (a *agenda) ready(action, id string) {
	if a.queues == nil {
		a.queues = map[string][]string{}
	}
	a.queues[action] = append(a.queues[action], id)
}

// actions returns those with operations that are due, sorted.
func (a *agenda) actions() []string { return slices.Sorted(maps.Keys(a.queues)) }

// next takes the operation of the action that is due longest.
func (a *agenda) next(action string) (id string, ok bool) {
	queue := a.queues[action]
	if len(queue) == 0 {
		delete(a.queues, action)
		return "", false
	}
	a.queues[action] = queue[1:]
	return queue[0], true
}

// dueHeap is a heap by time, and by ID at the same time. Each element knows its place.
type dueHeap []*opTrack

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool {
	if c := h[i].at.Compare(h[j].at); c != 0 {
		return c < 0
	}
	return h[i].id < h[j].id
}

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *dueHeap) Push(x any) {
	if t, ok := x.(*opTrack); ok {
		*h = append(*h, t)
		t.place = len(*h)
	}
}

func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1], last.place = nil, 0
	*h = old[:len(old)-1]
	return last
}
