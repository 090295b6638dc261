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

// appointment is one operation's place among those that wait. It counts while it has the operation's last turn.
type appointment struct {
	at   time.Time
	id   string
	turn int
}

// plan puts the operation where it is due now, in place of any other place it has among those that wait.
func (s *step) plan(op Operation) {
	t := s.track.ops[op.ID]
	t.turn++
	if t.waiting || op.Status.Phase.IsTerminal() {
		return
	}
	heap.Push(&s.agenda.waiting, appointment{at: s.dueAt(op), id: op.ID, turn: t.turn})
}

// due takes out one operation that is due.
func (a *agenda) due(now time.Time, ops map[string]*opTrack) (id string, ok bool) {
	if at, ok := a.first(ops); !ok || at.After(now) {
		return "", false
	}
	next, _ := heap.Pop(&a.waiting).(appointment)
	return next.id, true
}

// first returns when the first operation that waits is due.
func (a *agenda) first(ops map[string]*opTrack) (at time.Time, ok bool) {
	for len(a.waiting) > 0 {
		next := a.waiting[0]
		if t := ops[next.id]; t != nil && t.turn == next.turn {
			return next.at, true
		}
		heap.Pop(&a.waiting)
	}
	return time.Time{}, false
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

// dueHeap is a heap by time, and by ID at the same time.
type dueHeap []appointment

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool {
	if c := h[i].at.Compare(h[j].at); c != 0 {
		return c < 0
	}
	return h[i].id < h[j].id
}

func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *dueHeap) Push(x any) {
	if a, ok := x.(appointment); ok {
		*h = append(*h, a)
	}
}

func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
