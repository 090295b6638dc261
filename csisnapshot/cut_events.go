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
	last  bool
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

// close calls what is queued and ends the goroutine. An observer that does not return is left behind.
func (d *dispatcher) close() {
	d.mu.Lock()
	d.last = true
	d.mu.Unlock()
	poke(d.wake)
	grace := time.NewTimer(abandonAfter)
	defer grace.Stop()
	select {
	case <-d.done:
	case <-grace.C:
	}
}

func (d *dispatcher) run() {
	defer close(d.done)
	for {
		d.mu.Lock()
		queue, last := d.queue, d.last
		d.queue = nil
		d.mu.Unlock()
		for _, event := range queue {
			dropPanic(event)
		}
		if len(queue) > 0 {
			continue
		}
		if last {
			return
		}
		<-d.wake
	}
}

// dropPanic calls fn: an observer decides nothing, so its panic does not either.
func dropPanic(fn func()) {
	defer func() { _ = recover() }()
	fn()
}
