package csisnapshot_test

import (
	"fmt"
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
