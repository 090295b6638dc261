package csisnapshot

import (
	"context"
	"sync"
)

// signal lets goroutines wait for any change of what a mutex guards, under their context.
type signal struct {
	mu      sync.Mutex    // guards the state of its user and changed
	changed chan struct{} // closed and replaced at each change
}

func newSignal() *signal { return &signal{changed: make(chan struct{})} }

// update changes the state and wakes all who wait.
func (s *signal) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// read looks at the state.
func (s *signal) read(look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look()
}

// await waits until cond holds, which it looks at under the mutex, and returns nil; or until ctx ends, and returns why.
func (s *signal) await(ctx context.Context, cond func() bool) error {
	for {
		var ok bool
		var changed <-chan struct{}
		s.read(func() { ok, changed = cond(), s.changed })
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
