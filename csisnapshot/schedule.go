package csisnapshot

import (
	"errors"
	"fmt"
	"time"
)

// Schedule says when to poll: every Fast for the first FastFor, then every Slow. The zero value is 1 s for 10 s, then
// 5 s.
type Schedule struct {
	Fast    time.Duration // Defaults to 1 s
	FastFor time.Duration // Defaults to 10 s
	Slow    time.Duration // Defaults to 5 s
}

// Validate reports every negative field.
func (s Schedule) Validate() error {
	return errors.Join(notNegative("Schedule.Fast", s.Fast), notNegative("Schedule.FastFor", s.FastFor),
		notNegative("Schedule.Slow", s.Slow))
}

// Next is the first instant of the schedule after elapsed; both count from the start of the wait.
func (s Schedule) Next(elapsed time.Duration) time.Duration {
	s = s.withDefaults()
	elapsed = max(elapsed, 0)
	fast := s.FastFor.Truncate(s.Fast) // the last instant of the fast part
	if next := elapsed.Truncate(s.Fast) + s.Fast; next <= fast {
		return next
	}
	if elapsed < fast {
		return fast
	}
	return fast + (elapsed - fast).Truncate(s.Slow) + s.Slow
}

func (s Schedule) withDefaults() Schedule {
	if s.Fast == 0 {
		s.Fast = time.Second
	}
	if s.FastFor == 0 {
		s.FastFor = 10 * time.Second
	}
	if s.Slow == 0 {
		s.Slow = 5 * time.Second
	}
	return s
}

func notNegative(field string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s: %v is negative", field, d)
	}
	return nil
}
