package operations

import (
	"errors"
	"fmt"
	"time"
)

// PollerOptions are the options of a [Poller]. The zero PollerOptions work.
type PollerOptions struct {
	// Fast is the time from one answer about an operation to the next question while the operation is younger than
	// FastFor, Slow the time after that. They default to 1 s, 10 s and 5 s. An operation's age counts from
	// [Status.Created], or from when the poller first saw it.
	Fast, FastFor, Slow time.Duration
	// Jitter lengthens every such time by a random part of it, of up to this fraction. From 0, the default, to 1.
	// Operations of a [ManyAction] are asked about together, without jitter.
	Jitter float64
	// Concurrency is how many calls of one action may run at the same time in one Step; ActionConcurrency says so for
	// single actions by name. Defaults to 4.
	Concurrency       int
	ActionConcurrency map[string]int
	// CallTimeout is the deadline of one call of an action. Defaults to 30 s. A call that has not returned CallGrace
	// after the end of its context is left behind. Defaults to 1 s.
	CallTimeout, CallGrace time.Duration
	// ErrorBudget is how long an operation may give nothing but errors, at least three of them, before it is asked to
	// stop. Defaults to 10 min.
	ErrorBudget time.Duration
	// Deadline is the age at which an operation that still runs is asked to stop. Defaults to 4 h.
	Deadline time.Duration
	// StallWindow is how long an operation may run without showing progress, which is any change of its status, before
	// it is reported with [ErrStalled]. It is not ended by that. Defaults to 15 min.
	StallWindow time.Duration
	// CancelGrace is how long an operation that was asked to stop may take to confirm it, before it ends as
	// [PhaseAbandoned]. Defaults to 5 min.
	CancelGrace time.Duration
	// WriteInterval is the least time between two writes of progress to the store; how operations end is written at
	// once. Defaults to 10 s.
	WriteInterval time.Duration
	// ReadInterval is how long a record of running operations may be neither written nor read before a Step reads it
	// again, to hear of what another process stored, as a request to cancel. Defaults to 1 min.
	ReadInterval time.Duration
	// StoreTimeout bounds each time the poller turns to the store: a read, or a write with the reads and the second try
	// that it needs when another process wrote; and each try of [Poller.Cancel]. It includes the wait for other calls
	// of the key. When it is over, the error is the store's and the next Step tries again. Defaults to 30 s.
	StoreTimeout time.Duration
	// Clock gives the times that are stored and that deadlines are counted by. Defaults to time.Now. A time that no
	// record can hold, as the zero time, is replaced by the system's. A clock that jumps back makes no deadline later
	// than it is by the process's own clock; one that jumps ahead is believed, as after a suspended machine.
	Clock func() time.Time
	// Hooks are told what happens.
	Hooks PollerHooks
}

// complete checks the options and fills in the defaults.
func (o *PollerOptions) complete() error {
	var faults []error
	for _, f := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Fast", &o.Fast, time.Second},
		{"FastFor", &o.FastFor, 10 * time.Second},
		{"Slow", &o.Slow, 5 * time.Second},
		{"CallTimeout", &o.CallTimeout, 30 * time.Second},
		{"CallGrace", &o.CallGrace, time.Second},
		{"ErrorBudget", &o.ErrorBudget, 10 * time.Minute},
		{"Deadline", &o.Deadline, 4 * time.Hour},
		{"StallWindow", &o.StallWindow, 15 * time.Minute},
		{"CancelGrace", &o.CancelGrace, 5 * time.Minute},
		{"WriteInterval", &o.WriteInterval, 10 * time.Second},
		{"ReadInterval", &o.ReadInterval, time.Minute},
		{"StoreTimeout", &o.StoreTimeout, 30 * time.Second},
	} {
		if *f.value < 0 {
			faults = append(faults, fmt.Errorf("option %s is negative", f.name))
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	if !(o.Jitter >= 0 && o.Jitter <= 1) {
		faults = append(faults, fmt.Errorf("option Jitter is %v, want 0 to 1", o.Jitter))
	}
	if o.Concurrency < 0 {
		faults = append(faults, errors.New("option Concurrency is negative"))
	}
	if o.Concurrency == 0 {
		o.Concurrency = 4
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.Clock = guarded(o.Clock)
	return errors.Join(faults...)
}

// interval returns the time to the next question about an operation of that age.
func (o *PollerOptions) interval(age time.Duration) time.Duration {
	if age < o.FastFor {
		return o.Fast
	}
	return o.Slow
}
