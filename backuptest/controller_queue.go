package backuptest

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// verdict is how a look at one key ended.
type verdict uint8

const (
	settled verdict = iota // nothing to do until something changes; its backoff begins anew
	stepped                // something was done: look again, after the others that wait
	waiting                // look again after the backoff, or after a change
)

// workQueue is a first-in first-out queue of keys, as the real controllers have it: a key waits in it at most once, nobody works
// twice on a key at the same time, and a key that failed comes back after a time that doubles. What became due while its key was
// in work comes once after it.
type workQueue struct {
	start, limit time.Duration
	wake         chan struct{}

	mu      sync.Mutex // guards what follows
	line    []string
	queued  map[string]bool
	busy    map[string]bool
	again   map[string]bool // added while busy
	rushed  map[string]bool // whose next turn does not mind a backoff
	hot     map[string]bool // busy in such a turn
	due     map[string]time.Time
	agenda  agenda // of due; an entry that due does not have any more is void
	retries map[string]int
}

func newWorkQueue(start, limit time.Duration) *workQueue {
	return &workQueue{
		start: start, limit: limit, wake: make(chan struct{}, 1),
		queued: map[string]bool{}, busy: map[string]bool{}, again: map[string]bool{}, rushed: map[string]bool{}, hot: map[string]bool{},
		due: map[string]time.Time{}, retries: map[string]int{},
	}
}

// add puts a key in the line. A backoff that runs for it is not shortened: see early.
func (q *workQueue) add(key string) {
	q.mu.Lock()
	q.addLocked(key)
	q.mu.Unlock()
	q.notify()
}

// rush puts a key in the line for a turn that does not mind the backoff that runs for it.
func (q *workQueue) rush(key string) {
	q.mu.Lock()
	q.rushed[key] = true
	q.addLocked(key)
	q.mu.Unlock()
	q.notify()
}

// addAt puts a key in the line at that time, if it is not there by then: the next turn of a settled key.
func (q *workQueue) addAt(key string, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Push(&q.agenda, dueKey{at: at, key: key, extra: true})
	q.notify()
}

func (q *workQueue) addLocked(key string) {
	switch {
	case q.busy[key]:
		q.again[key] = true
	case !q.queued[key]:
		q.queued[key] = true
		q.line = append(q.line, key)
	}
}

func (q *workQueue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// early reports whether the backoff of a key still runs, so that its turn came through a change and not through time.
func (q *workQueue) early(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, found := q.due[key]
	return found && !q.hot[key] && time.Now().Before(at)
}

// cool takes back, for a key in work, that its turn does not mind the backoff.
func (q *workQueue) cool(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.hot, key)
}

// forget ends the backoff of a key.
func (q *workQueue) forget(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.due, key)
	delete(q.retries, key)
}

// run hands keys to work, at most limit at once (0: any number), until ctx ends, and returns after all work has.
func (q *workQueue) run(ctx context.Context, limit int, work func(ctx context.Context, key string) verdict) {
	var workers sync.WaitGroup
	defer workers.Wait()
	var slots chan struct{}
	if limit > 0 {
		slots = make(chan struct{}, limit)
	}
	for ctx.Err() == nil {
		if slots != nil {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		key, ok := q.wait(ctx)
		if !ok {
			return
		}
		workers.Go(func() {
			q.done(key, work(ctx, key))
			if slots != nil {
				<-slots
			}
		})
	}
}

// wait returns the next key of the line.
func (q *workQueue) wait(ctx context.Context) (string, bool) {
	for {
		key, pause := q.next(time.Now())
		if key != "" {
			return key, true
		}
		var timer *time.Timer
		var ring <-chan time.Time
		if pause > 0 {
			timer = time.NewTimer(pause)
			ring = timer.C
		}
		select {
		case <-q.wake:
		case <-ring:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return "", false
		}
	}
}

// next takes the first key of the line, or says how long until one becomes due; 0: none will.
func (q *workQueue) next(now time.Time) (key string, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.agenda) > 0 && pause == 0 {
		first := q.agenda[0]
		switch at, found := q.due[first.key]; {
		case first.extra && first.at.After(now):
			pause = first.at.Sub(now)
		case first.extra:
			heap.Pop(&q.agenda)
			q.addLocked(first.key)
		case !found || !at.Equal(first.at):
			heap.Pop(&q.agenda)
		case at.After(now):
			pause = at.Sub(now)
		default:
			heap.Pop(&q.agenda)
			delete(q.due, first.key)
			q.addLocked(first.key)
		}
	}
	if len(q.line) == 0 {
		return "", pause
	}
	key = q.line[0]
	q.line = q.line[1:]
	delete(q.queued, key)
	q.busy[key], q.hot[key] = true, q.rushed[key]
	delete(q.rushed, key)
	return key, 0
}

func (q *workQueue) done(key string, v verdict) {
	q.mu.Lock()
	delete(q.busy, key)
	delete(q.hot, key)
	again := q.again[key]
	delete(q.again, key)
	switch v {
	case settled:
		delete(q.due, key)
		delete(q.retries, key)
	case stepped:
		again = true
	case waiting:
		if _, runs := q.due[key]; !runs {
			at := time.Now().Add(q.backoff(q.retries[key]))
			q.due[key] = at
			heap.Push(&q.agenda, dueKey{at: at, key: key})
			q.retries[key]++
		}
	}
	if again {
		q.addLocked(key)
	}
	q.mu.Unlock()
	q.notify()
}

func (q *workQueue) backoff(retry int) time.Duration {
	wait := q.start
	for range retry {
		if wait >= q.limit {
			break
		}
		wait *= 2
	}
	return min(wait, q.limit)
}

type dueKey struct {
	at    time.Time
	key   string
	extra bool // from addAt: it is no backoff
}

// agenda is a heap with the earliest key first.
type agenda []dueKey

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(dueKey)) }

func (a *agenda) Pop() any {
	last := len(*a) - 1
	key := (*a)[last]
	*a = (*a)[:last]
	return key
}
