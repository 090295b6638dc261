package csisnapshot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Schedule says when to poll: every Fast for the first FastFor, then every Slow. The zero value is 1 s for 10 s, then
// 5 s. It is a plain value that may be used without a wait, and from several goroutines.
type Schedule struct {
	Fast    time.Duration // Defaults to 1 s
	FastFor time.Duration // Defaults to 10 s
	Slow    time.Duration // Defaults to 5 s
	// Jitter is how much later than its instant a round may be, as a part of the interval, from 0 to 1. The delay of each
	// round is drawn, so that those of many processes that began together spread. Zero: none.
	Jitter float64
}

// Validate reports every negative field, and a jitter that is not from 0 to 1.
func (s Schedule) Validate() error {
	faults := []error{
		notNegative("Schedule.Fast", s.Fast), notNegative("Schedule.FastFor", s.FastFor), notNegative("Schedule.Slow", s.Slow),
	}
	if !jitterKnown(s.Jitter) {
		faults = append(faults, fmt.Errorf("Schedule.Jitter: %v is not from 0 to 1", s.Jitter))
	}
	return errors.Join(faults...)
}

// jitterKnown is false also for what is not a number.
func jitterKnown(jitter float64) bool { return jitter >= 0 && jitter <= 1 }

// Next is the first instant of the schedule after elapsed; both count from the start of the wait. With Jitter it is up to
// that part of an interval later, but sooner than the instant after it: a loop of Next has one round for each instant, and
// the delays do not add up.
func (s Schedule) Next(elapsed time.Duration) time.Duration {
	s = s.withDefaults()
	at, interval := s.instant(max(elapsed, 0))
	if s.Jitter > 0 {
		at += time.Duration(rand.Float64() * s.Jitter * float64(interval)) //nolint:gosec // nothing is guarded by it
	}
	return at
}

// instant is the first instant after elapsed, and an interval that has passed before the instant after that.
func (s Schedule) instant(elapsed time.Duration) (at, interval time.Duration) {
	fast := s.FastFor.Truncate(s.Fast) // the last instant of the fast part
	if at = elapsed.Truncate(s.Fast) + s.Fast; at <= fast {
		return at, min(s.Fast, s.Slow)
	}
	return fast + (elapsed - fast).Truncate(s.Slow) + s.Slow, s.Slow
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
