package csisnapshot

import (
	"errors"
	"fmt"
	"time"
)

// driverClock is the time without progress that the snapshots of one driver share. It is guarded by the waiter's lock.
type driverClock struct {
	name    string
	waiting map[*entry]struct{} // not cut and not ended
	held    []*entry            // timed out by themselves; their places are free when the driver moves again
	since   time.Time           // of the last progress, or of the first snapshot that waits
	pickups int
	stalled chan struct{}
}

// errDriverStalled is the cause of waits that ended with their driver.
var errDriverStalled = errors.New("the driver has stopped making progress")

func (w *Waiter) driver(name string) *driverClock {
	c := w.drivers[name]
	if c == nil {
		c = &driverClock{name: name, waiting: map[*entry]struct{}{}, stalled: make(chan struct{})}
		w.drivers[name] = c
	}
	return c
}

// Stalled is closed when the driver has made no progress for Timeout while snapshots waited. They have ended then, and
// so have those that a limit has not let start: every later Add for the driver ends at once with [ErrNotStarted].
func (w *Waiter) Stalled(driver string) <-chan struct{} {
	if w.made() != nil {
		return closed()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.driver(driver).stalled
}

func (c *driverClock) join(e *entry, now time.Time) {
	if len(c.waiting) == 0 && len(c.held) == 0 {
		c.since = now
	}
	c.waiting[e] = struct{}{}
}

func (c *driverClock) leave(e *entry) { delete(c.waiting, e) }

// moved notes that a snapshot was picked up, begun or cut.
func (c *driverClock) moved(e *entry, now time.Time) {
	if _, waiting := c.waiting[e]; !waiting {
		return
	}
	c.since = now
	if e.state.PickedUp {
		c.pickups++
	}
	c.free()
}

// free gives back the places of snapshots that timed out by themselves.
func (c *driverClock) free() {
	for _, e := range c.held {
		closeOnce(e.pending.freed)
	}
	c.held = nil
}

func (c *driverClock) isStalled() bool {
	select {
	case <-c.stalled:
		return true
	default:
		return false
	}
}

func (c *driverClock) err(timeout time.Duration) error {
	return fmt.Errorf("driver %q: no snapshot was picked up or cut for %v: %w", c.name, timeout, errDriverStalled)
}
