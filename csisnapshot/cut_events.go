package csisnapshot

import (
	"sync"
	"time"
)

// dispatcher calls the observer's functions one at a time, in order, in a goroutine of its own, so that a slow one delays
// no thaw.
type dispatcher struct {
	done chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex // guards what follows
	queue []func()
	last  bool          // nothing more will be queued
	left  bool          // the goroutine was left behind: nothing more is called
	wake  chan struct{} // capacity 1
}

func newDispatcher() *dispatcher {
	d := &dispatcher{done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go d.run()
	return d
}

// tell queues an event for fn, which may be nil.
func tell[T any](d *dispatcher, fn func(T), event T) {
	if fn == nil {
		return
	}
	d.mu.Lock()
	d.queue = append(d.queue, func() { fn(event) })
	d.mu.Unlock()
	poke(d.wake)
}

// close calls what is queued and ends the goroutine. An observer that takes too long for that is left behind, and hears of
// nothing more: when close has returned, no call begins.
func (d *dispatcher) close() {
	d.mu.Lock()
	d.last = true
	d.mu.Unlock()
	poke(d.wake)
	grace := time.NewTimer(abandonAfter)
	defer grace.Stop()
	select {
	case <-d.done:
		return
	case <-grace.C:
	}
	d.mu.Lock()
	d.left, d.queue = true, nil
	d.mu.Unlock()
	poke(d.wake)
}

func (d *dispatcher) run() {
	defer close(d.done)
	for {
		switch event, more := d.next(); {
		case event != nil:
			dropPanic(event)
		case !more:
			return
		default:
			<-d.wake
		}
	}
}

// next takes the next event from the queue, and reports whether there will be one if there is none.
func (d *dispatcher) next() (event func(), more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 || d.left {
		return nil, !d.last
	}
	event, d.queue = d.queue[0], d.queue[1:]
	return event, true
}

// dropPanic calls fn: an observer decides nothing, so its panic does not either.
func dropPanic(fn func()) {
	defer func() { _ = recover() }()
	fn()
}
