package backuptest

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// requestRate bounds the requests of one component, first come first served, with a burst of twice the rate as client-go's default of
// 10 for 5. A nil requestRate has no bound.
type requestRate struct {
	each  time.Duration // for one request
	burst time.Duration // what may be saved up while nothing is asked

	mu   sync.Mutex // guards free
	free time.Time  // when all that was asked for has been given
}

func newRequestRate(perSecond float64) *requestRate {
	if perSecond <= 0 {
		return nil
	}
	each := float64(time.Second) / perSecond
	return &requestRate{each: time.Duration(each), burst: time.Duration(max(each, float64(2*time.Second)))}
}

// spend waits until the component may make that many requests more. They are taken together, so that a step is not held up by those
// that ask after it.
func (r *requestRate) spend(ctx context.Context, requests int) error {
	if r == nil {
		return nil
	}
	timer := time.NewTimer(r.reserve(time.Now(), requests))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the request rate: %w", context.Cause(ctx))
	}
}

func (r *requestRate) reserve(now time.Time, requests int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if saved := now.Add(-r.burst); r.free.Before(saved) {
		r.free = saved
	}
	r.free = r.free.Add(time.Duration(requests) * r.each)
	return r.free.Sub(now)
}
