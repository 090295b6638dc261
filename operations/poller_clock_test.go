package operations_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// O10: deadlines and grace times hold whatever the clock of the options says: nothing, what no record can hold, or an
// earlier time than before.
func TestPollerClockThatLies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		clock  func(now time.Time, age time.Duration) time.Time
	}{
		"zero":             {"the system's time stands in", func(time.Time, time.Duration) time.Time { return time.Time{} }},
		"less than second": {"a record would keep it as zero", func(time.Time, time.Duration) time.Time { return time.Time{}.Add(time.Millisecond) }},
		"beyond year 9999": {"no record can hold it", func(now time.Time, _ time.Duration) time.Time { return now.AddDate(9000, 0, 0) }},
		"jumps back": {
			"an hour is gained by nobody",
			func(now time.Time, age time.Duration) time.Time {
				if age > 5*time.Minute {
					return now.Add(-time.Hour)
				}
				return now
			},
		},
		"jumps back in the grace time": {
			"nor there",
			func(now time.Time, age time.Duration) time.Time {
				if age > 11*time.Minute {
					return now.Add(-time.Hour)
				}
				return now
			},
		},
		"stands still": {
			"time passes all the same",
			func(now time.Time, age time.Duration) time.Time { return now.Add(-age) },
		},
		"is zero now and then": {
			"one good look is enough",
			func(now time.Time, age time.Duration) time.Time {
				if int(age.Seconds())%2 == 0 {
					return time.Time{}
				}
				return now
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				opts := operations.PollerOptions{
					Deadline: 10 * time.Minute, CancelGrace: 2 * time.Minute,
					Clock: func() time.Time { return tc.clock(time.Now(), time.Since(start)) },
				}
				p := newPoll(t, newScript(endAfter(24*time.Hour, operations.StateCompleted)), opts, op("a"))
				p.run(t)
				if got := time.Since(start); got != 12*time.Minute {
					t.Errorf("%s: ended after %v, want deadline and grace", tc.reason, got)
				}
				if got := p.op(t, "a").Status; got.Phase != operations.PhaseAbandoned || got.CancelRequested == nil {
					t.Errorf("%s: status = %+v, want abandoned, with the time of the request", tc.reason, got)
				}
			})
		})
	}
}

// O10: Cancel with a clock that says nothing is stored all the same.
func TestPollerCancelWithZeroClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts := operations.PollerOptions{Clock: func() time.Time { return time.Time{} }}
		p := newPoll(t, newScript(endAfter(24*time.Hour, operations.StateCompleted)), opts, op("a"))
		if err := p.poller.Cancel(t.Context(), testKey, "enough"); err != nil {
			t.Fatal(err)
		}
		if got := p.op(t, "a").Status; got.CancelRequested == nil {
			t.Errorf("status = %+v, want the request", got)
		}
	})
}

// O10: a clock that goes on while the process was suspended is believed.
func TestPollerClockJumpsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Duration(0)
		opts := operations.PollerOptions{Deadline: time.Hour, Clock: func() time.Time { return time.Now().Add(ahead) }}
		p := newPoll(t, newScript(endAfter(24*time.Hour, operations.StateCompleted)), opts, op("a"))
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		ahead = 2 * time.Hour
		time.Sleep(time.Second)
		if _, err := p.poller.Step(t.Context(), testKey); err != nil {
			t.Fatal(err)
		}
		if got := p.op(t, "a").Status.CancelReason; got != "it did not end within 1h0m0s" {
			t.Errorf("CancelReason = %q, want the deadline", got)
		}
	})
}
