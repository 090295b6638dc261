package csisnapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
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
	// Drivers are the limits of CSI drivers by their names; those under "" are for every driver that is not named.
	Drivers map[string]DriverLimits
	// MaxPickup bounds how long a freeze waits for the snapshot-controller to do its work on what this run sent before: to
	// pick up what is not cut, and to tell of the cut in the status of what is. Zero means one minute. After that it is left
	// alone for as long as its work took, at most two seconds, in which it saves up requests for the pod's snapshots.
	MaxPickup time.Duration
	// ClassAnnotations are the backup's annotations, among which those that choose a class are looked for.
	ClassAnnotations map[string]string
	// ClaimLabels are the keys of those labels of a claim that its snapshot gets, too; none by default, for tools that own
	// objects by label would remove the snapshot with what they own. Keys of the library's own domain are refused.
	ClaimLabels []string
	// BatchKey puts pods together, as [ByLabel], [ByVM] and [Undivided] do. Nil: every pod by itself.
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
	for _, driver := range slices.Sorted(maps.Keys(o.Drivers)) {
		errs = append(errs, o.Drivers[driver].validate(driver)...)
	}
	own := o.Names.withDefaults().Domain + "/"
	for _, key := range o.ClaimLabels {
		if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
			fault("Options.ClaimLabels", fmt.Sprintf("%q: %s", key, strings.Join(msgs, ", ")))
		} else if strings.HasPrefix(key, own) {
			fault("Options.ClaimLabels", fmt.Sprintf("%q: keys of %s are the library's", key, own))
		}
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
