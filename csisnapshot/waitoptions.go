package csisnapshot

import (
	"errors"
	"fmt"
	"time"
)

// Mode is how a wait learns of changes.
type Mode uint8

// The modes. A watch that is forbidden, unsupported or silent is replaced by polling until it works again. Zero is not set:
// it means ModeWatch.
const (
	ModeWatch Mode = iota + 1
	ModePoll
)

// String is "watch" or "poll".
func (m Mode) String() string {
	if m == ModePoll {
		return "poll"
	}
	return "watch"
}

// Stage is what a wait waits for. A value that is none of the stages counts as the last.
type Stage uint8

// The stages, in order.
const (
	StageCut   Stage = iota // the content has a handle: enough to thaw
	StageReady              // the snapshot is ready to use: enough to finish
)

// known is the stage, or the last one if it is none.
func (s Stage) known() Stage { return min(s, StageReady) }

// String is "cut" or "ready".
func (s Stage) String() string {
	if s.known() == StageReady {
		return "ready"
	}
	return "cut"
}

// WaitOptions tunes waiting. The zero value watches, and gives up after ten minutes without progress.
type WaitOptions struct {
	Mode     Mode
	Schedule Schedule // of polling
	// Timeout is the longest time without progress; see the package comment. Defaults to 10 min.
	Timeout time.Duration
	// MaxWait bounds the whole wait, from its start. Zero: only the context does.
	MaxWait time.Duration
	// SafetyRead is the interval of reads beside an open watch, for events that it lost. Defaults to 1 min.
	SafetyRead time.Duration
	// RetryWatch is how long a wait that fell back to polling polls before it tries to watch again. Defaults to 3 min.
	RetryWatch time.Duration
	// CallTimeout bounds one request. Defaults to 30 s.
	CallTimeout time.Duration
	// Classifier says which errors end a snapshot's wait. Nil: none does before the timeout.
	Classifier Classifier
	// Events are called while the wait runs.
	Events WaitEvents
}

// WaitEvents are optional functions that follow a wait. They are called one at a time and in order by a goroutine of the
// wait that does nothing else, so that a slow one delays only those after it. What is left when the wait ends is told within
// a few seconds or not at all: a function that has not returned by then is left behind, and none is called any more. A panic
// in one is recovered and dropped.
type WaitEvents struct {
	// ModeChanged tells that a resource is now watched or polled, and why.
	ModeChanged func(ModeChange)
	// Changed tells that a snapshot was picked up, is cut, is ready, has another diagnosis or error, or has ended.
	Changed func(Result, error)
}

// ModeChange is a change of [Mode] for one resource.
type ModeChange struct {
	Resource  string // "volumesnapshots" or "volumesnapshotcontents"
	Namespace string // empty for contents
	Mode      Mode
	Err       error // why the watch was given up; nil when it is open again
}

// Validate reports every field that cannot be used.
func (o WaitOptions) Validate() error {
	var faults []error
	if o.Mode > ModePoll {
		faults = append(faults, fmt.Errorf("Wait.Mode: %d is unknown", o.Mode))
	}
	faults = append(faults, o.Schedule.Validate(), notNegative("Wait.Timeout", o.Timeout),
		notNegative("Wait.MaxWait", o.MaxWait), notNegative("Wait.SafetyRead", o.SafetyRead),
		notNegative("Wait.RetryWatch", o.RetryWatch), notNegative("Wait.CallTimeout", o.CallTimeout))
	if v, ok := o.Classifier.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("Wait.Classifier: %w", err))
		}
	}
	return errors.Join(faults...)
}

func (o WaitOptions) withDefaults() WaitOptions {
	o.Schedule = o.Schedule.withDefaults()
	for field, value := range map[*time.Duration]time.Duration{
		&o.Timeout: 10 * time.Minute, &o.SafetyRead: time.Minute, &o.RetryWatch: 3 * time.Minute, &o.CallTimeout: 30 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
	return o
}
