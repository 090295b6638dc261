package csisnapshot

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The variables that [OptionsFromEnv] asks for.
const (
	// EnvMode is "watch" or "poll".
	EnvMode = "SHEETANCHOR_WAIT_MODE"
	// EnvPollFast, EnvPollFastFor and EnvPollSlow are the durations of [Schedule], EnvPollJitter its Jitter.
	EnvPollFast    = "SHEETANCHOR_WAIT_POLL_FAST"
	EnvPollFastFor = "SHEETANCHOR_WAIT_POLL_FAST_FOR"
	EnvPollSlow    = "SHEETANCHOR_WAIT_POLL_SLOW"
	EnvPollJitter  = "SHEETANCHOR_WAIT_POLL_JITTER"
	// EnvTimeout and those after it are the durations of [WaitOptions] of the same name.
	EnvTimeout     = "SHEETANCHOR_WAIT_TIMEOUT"
	EnvMaxWait     = "SHEETANCHOR_WAIT_MAX_WAIT"
	EnvSafetyRead  = "SHEETANCHOR_WAIT_SAFETY_READ"
	EnvRetryWatch  = "SHEETANCHOR_WAIT_RETRY_WATCH"
	EnvCallTimeout = "SHEETANCHOR_WAIT_CALL_TIMEOUT"
)

// OptionsFromEnv makes wait options of variables, which lookup tells as [os.LookupEnv] does; the package itself never reads
// the environment. A duration is written as for [time.ParseDuration] and is positive, the jitter is a number from 0 to 1. A
// variable that is not set, or empty, leaves its field zero. The error joins one for every variable with another value, each
// naming the variable; the options then hold what the others say. A nil lookup is an error.
//
// What a program sets by itself goes before: explicit.Or(fromEnv).
func OptionsFromEnv(lookup func(name string) (value string, ok bool)) (WaitOptions, error) {
	if lookup == nil {
		return WaitOptions{}, errors.New("wait options: lookup is nil")
	}
	var (
		o      WaitOptions
		faults []error
	)
	read := func(name string, parse func(value string) error) {
		value, ok := lookup(name)
		if !ok || value == "" {
			return
		}
		if err := parse(value); err != nil {
			faults = append(faults, fmt.Errorf("%s: %q: %w", name, value, err))
		}
	}
	read(EnvMode, o.Mode.parse)
	for _, d := range o.durations() {
		read(d.env, d.parse)
	}
	read(EnvPollJitter, o.Schedule.parseJitter)
	if err := errors.Join(faults...); err != nil {
		return o, fmt.Errorf("wait options: %w", err)
	}
	return o, nil
}

// Or is o with every field that is zero taken from others. The schedule and the events are taken field by field.
func (o WaitOptions) Or(others WaitOptions) WaitOptions {
	if o.Mode == 0 {
		o.Mode = others.Mode
	}
	theirs := others.durations()
	for i, d := range o.durations() {
		if *d.field == 0 {
			*d.field = *theirs[i].field
		}
	}
	if o.Schedule.Jitter == 0 {
		o.Schedule.Jitter = others.Schedule.Jitter
	}
	if o.Classifier == nil {
		o.Classifier = others.Classifier
	}
	if o.Events.ModeChanged == nil {
		o.Events.ModeChanged = others.Events.ModeChanged
	}
	if o.Events.Changed == nil {
		o.Events.Changed = others.Events.Changed
	}
	return o
}

// duration is a field of the options and its variable.
type duration struct {
	env   string
	field *time.Duration
}

func (o *WaitOptions) durations() []duration {
	return []duration{
		{EnvPollFast, &o.Schedule.Fast},
		{EnvPollFastFor, &o.Schedule.FastFor},
		{EnvPollSlow, &o.Schedule.Slow},
		{EnvTimeout, &o.Timeout},
		{EnvMaxWait, &o.MaxWait},
		{EnvSafetyRead, &o.SafetyRead},
		{EnvRetryWatch, &o.RetryWatch},
		{EnvCallTimeout, &o.CallTimeout},
	}
}

func (d duration) parse(value string) error {
	parsed, err := time.ParseDuration(value)
	if err != nil {
		return errors.New("no duration, want one as in 1m30s")
	}
	if parsed <= 0 {
		return errors.New("not positive; leave the variable away for the default")
	}
	*d.field = parsed
	return nil
}

func (m *Mode) parse(value string) error {
	for _, mode := range []Mode{ModeWatch, ModePoll} {
		if value == mode.String() {
			*m = mode
			return nil
		}
	}
	return fmt.Errorf("no mode, want %q or %q", ModeWatch, ModePoll)
}

func (s *Schedule) parseJitter(value string) error {
	jitter, err := strconv.ParseFloat(value, 64)
	if err != nil || !jitterKnown(jitter) {
		return errors.New("no number from 0 to 1")
	}
	s.Jitter = jitter
	return nil
}
