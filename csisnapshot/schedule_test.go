package csisnapshot_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestScheduleNext(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	for name, tt := range map[string]struct {
		reason        string
		schedule      csisnapshot.Schedule
		elapsed, want time.Duration
	}{
		"at the start":            {"the first instant", csisnapshot.Schedule{}, 0, s},
		"before the start":        {"clocks may differ", csisnapshot.Schedule{}, -s, s},
		"a round that took long":  {"the next instant is on the grid", csisnapshot.Schedule{}, 3300 * ms, 4 * s},
		"exactly on an instant":   {"never the same twice", csisnapshot.Schedule{}, 4 * s, 5 * s},
		"the end of the fast":     {"", csisnapshot.Schedule{}, 10 * s, 15 * s},
		"slow":                    {"", csisnapshot.Schedule{}, 16 * s, 20 * s},
		"a fast part in between":  {"FastFor is no multiple of Fast", csisnapshot.Schedule{Fast: 4 * s, FastFor: 10 * s}, 8 * s, 13 * s},
		"FastFor shorter than it": {"only slow", csisnapshot.Schedule{Fast: 4 * s, FastFor: s}, 0, 5 * s},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.schedule.Next(tt.elapsed); got != tt.want {
				t.Errorf("Next(%v) = %v, want %v: %s", tt.elapsed, got, tt.want, tt.reason)
			}
		})
	}
}

func TestScheduleJitter(t *testing.T) {
	t.Parallel()
	// S1: with a jitter there is still one round for each instant of the schedule, late by at most that part of an interval,
	// and the delays do not add up.
	for _, jitter := range []float64{0.1, 0.5, 1} {
		plain, spread := csisnapshot.Schedule{}, csisnapshot.Schedule{Jitter: jitter}
		var instant, at, most time.Duration
		for round := range 10_000 {
			instant, at = plain.Next(instant), spread.Next(at)
			allowed := time.Duration(jitter * float64(time.Second))
			if instant > 10*time.Second {
				allowed *= 5
			}
			late := at - instant
			if late < 0 || late > allowed {
				t.Fatalf("jitter %v: round %d at %v, want at most %v after %v", jitter, round, at, allowed, instant)
			}
			most = max(most, late)
		}
		if want := time.Duration(jitter * float64(4*time.Second)); most < want {
			t.Errorf("jitter %v: no round of 10000 was more than %v late", jitter, most)
		}
	}
}

func TestScheduleNamesFaults(t *testing.T) {
	t.Parallel()
	err := csisnapshot.Schedule{Fast: -1, FastFor: -1, Slow: -1, Jitter: 2}.Validate()
	for _, field := range []string{"Schedule.Fast:", "Schedule.FastFor:", "Schedule.Slow:", "Schedule.Jitter:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate = %v, does not name %s", err, field)
		}
	}
	for _, jitter := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if err := (csisnapshot.Schedule{Jitter: jitter}).Validate(); err == nil {
			t.Errorf("a jitter of %v is allowed", jitter)
		}
	}
}

// instants are the instants of the schedule up to the end.
func instants(s csisnapshot.Schedule, end time.Duration) (all []time.Duration) {
	for at := s.Next(0); at <= end; at = s.Next(at) {
		all = append(all, at)
	}
	return all
}

func TestScheduleInstants(t *testing.T) {
	t.Parallel()
	// S1: 1 s for the first 10 s, then every 5 s, by default; every number is configurable.
	const s = time.Second
	want := []time.Duration{s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s, 8 * s, 9 * s, 10 * s, 15 * s, 20 * s, 25 * s, 30 * s}
	if got := instants(csisnapshot.Schedule{}, 34*s); !slices.Equal(got, want) {
		t.Errorf("by default: %v, want %v", got, want)
	}
	want = []time.Duration{2 * s, 4 * s, 11 * s, 18 * s}
	if got := instants(csisnapshot.Schedule{Fast: 2 * s, FastFor: 5 * s, Slow: 7 * s}, 20*s); !slices.Equal(got, want) {
		t.Errorf("with numbers of its own: %v, want %v", got, want)
	}
}

func ExampleSchedule_Next() {
	var s csisnapshot.Schedule // every second for ten seconds, then every five
	for elapsed := 7 * time.Second; elapsed < 20*time.Second; elapsed = s.Next(elapsed) {
		fmt.Println(elapsed)
	}
	// Output:
	// 7s
	// 8s
	// 9s
	// 10s
	// 15s
}
