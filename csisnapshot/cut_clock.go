package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errCreatesStalled is why snapshots are not sent any more after creates have met nothing but trouble for too long.
var errCreatesStalled = errors.New("no VolumeSnapshot could be created")

// createClock is the time without a create that was answered, for each driver: an admission webhook may refuse one driver's
// only. When it has run out, nothing more of the driver is sent, so that trouble costs any number of volumes one Timeout, as
// [Waiter.Stalled] does for snapshots that are never made, and no pod is frozen for it longer.
type createClock struct {
	ctx   context.Context //nolint:containedctx // what the clocks' contexts end with
	limit time.Duration

	mu      sync.Mutex // guards what follows
	drivers map[string]*trouble
}

// trouble is one driver's clock. It is guarded by its createClock's mutex.
type trouble struct {
	ctx      context.Context //nolint:containedctx // it is what ends windows, and ends with the run
	end      context.CancelCauseFunc
	answered time.Time // the last answer
	since    time.Time // the first create without an answer after that; zero: there is none
	last     error     // of these creates
	timer    *time.Timer
}

// newCreateClock makes a clock whose contexts end with ctx. It must be stopped.
func newCreateClock(ctx context.Context, limit time.Duration) *createClock {
	return &createClock{ctx: ctx, limit: limit, drivers: map[string]*trouble{}}
}

// of is the context of the driver's creates. Its cause wraps errCreatesStalled when the clock ended it.
func (c *createClock) of(driver string) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.driver(driver).ctx
}

// stalled is why nothing of the driver is sent any more, nil while it is.
func (c *createClock) stalled(driver string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.driver(driver)
	c.check(t)
	if cause := context.Cause(t.ctx); errors.Is(cause, errCreatesStalled) {
		return cause
	}
	return nil
}

// driver is the driver's clock. The mutex is held.
func (c *createClock) driver(name string) *trouble {
	t := c.drivers[name]
	if t == nil {
		t = &trouble{}
		t.ctx, t.end = context.WithCancelCause(c.ctx)
		c.drivers[name] = t
	}
	return t
}

// note takes in what became of a create that began at the time: err is nil when it was answered, whatever the answer.
func (c *createClock) note(driver string, began time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.driver(driver)
	if err == nil {
		t.answered, t.since = time.Now(), time.Time{}
		return
	}
	t.last = err
	if t.since.IsZero() {
		t.since = began
		if t.answered.After(began) {
			t.since = t.answered
		}
		c.arm(t)
	}
	c.check(t)
}

// arm sets the timer of a clock that has begun to run. The mutex is held.
func (c *createClock) arm(t *trouble) {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(time.Until(t.since.Add(c.limit)), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.check(t)
	})
}

// check ends the clock's context when its time is over. The mutex is held.
func (c *createClock) check(t *trouble) {
	if !t.since.IsZero() && time.Since(t.since) >= c.limit {
		t.end(fmt.Errorf("%w for %v: %w", errCreatesStalled, c.limit, t.last))
	}
}

// stop frees what the clock holds.
func (c *createClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.drivers {
		t.end(nil)
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}
