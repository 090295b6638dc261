package csisnapshot

import (
	"errors"
	"fmt"
	"time"
)

// Options change how a [Snapshotter] works. The zero value takes snapshots without hooks, one batch after the other.
type Options struct {
	// Names are given to snapshots, labels and annotations. The zero value is the library's own.
	Names Names
	// Wait says how cuts and readiness are waited for.
	Wait WaitOptions
	// Quiescer finds and runs hooks. Nil: no pod has any.
	Quiescer Quiescer
	// Intents keeps the freeze intents. It is required when Quiescer is set, and belongs to one workflow.
	Intents Document
	// MaxFreeze is the longest time a pod stays frozen, from the return of its last pre hook. When it ends, the post
	// hooks start at once and no further snapshot of its volumes is sent. Zero: no limit of its own.
	MaxFreeze time.Duration
	// MaxFrozenPods is how many pods are frozen at the same time. Zero means 1. Pods that share a batch are frozen
	// together even if they are more.
	MaxFrozenPods int
	// Concurrency is how many snapshots of a batch may be sent and not yet cut. Zero: no limit.
	Concurrency int
	// MaxPickup bounds how long a freeze waits for the snapshot-controller to pick up what this run sent before.
	// Zero means one minute.
	MaxPickup time.Duration
	// ClassAnnotations are the backup's annotations, among which those that choose a class are looked for.
	ClassAnnotations map[string]string
	// BatchKey puts pods together. Nil: every pod by itself.
	BatchKey BatchKey
	// Clock tells the time that is written down: in freeze intents, and as start times in operation IDs. Nil: time.Now,
	// which also stands in for a clock that panics or tells no time that can be written down. It may be called from several
	// goroutines at once.
	Clock func() time.Time
	// Observer is told of progress.
	Observer Observer
}

// validate returns all faults, each naming its field.
func (o Options) validate() error {
	var errs []error
	fault := func(field, reason string) { errs = append(errs, fmt.Errorf("%s: %s", field, reason)) }
	if err := o.Names.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Options.Names: %w", err))
	}
	if err := o.Wait.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Options.Wait: %w", err))
	}
	if o.Quiescer != nil && o.Intents == nil {
		fault("Options.Intents", "required when Quiescer is set: a pod must not be frozen without a durable intent")
	}
	if o.MaxFreeze < 0 {
		fault("Options.MaxFreeze", "negative")
	}
	if o.MaxFrozenPods < 0 {
		fault("Options.MaxFrozenPods", "negative")
	}
	if o.Concurrency < 0 {
		fault("Options.Concurrency", "negative")
	}
	if o.MaxPickup < 0 {
		fault("Options.MaxPickup", "negative")
	}
	return errors.Join(errs...)
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	o.Names = o.Names.withDefaults()
	o.Wait = o.Wait.withDefaults()
	if o.MaxFrozenPods == 0 {
		o.MaxFrozenPods = 1
	}
	if o.MaxPickup == 0 {
		o.MaxPickup = time.Minute
	}
	o.Clock = soundClock(o.Clock)
	return o
}

// soundClock is the user's clock, or the system's where the user's fails: a zero time would make a thaw record look like
// none, and years of more than four digits cannot be written as JSON.
func soundClock(clock func() time.Time) func() time.Time {
	if clock == nil {
		return time.Now
	}
	return func() (now time.Time) {
		defer func() {
			if recover() != nil || now.IsZero() || now.UTC().Year() < 1 || now.UTC().Year() > 9999 {
				now = time.Now()
			}
		}()
		return clock()
	}
}
