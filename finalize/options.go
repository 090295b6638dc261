package finalize

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Document is one small document in a place that outlives the process. operations.Slot is one.
type Document interface {
	// Load returns the document, or nil and no error when there is none.
	Load(ctx context.Context) ([]byte, error)
	// Save writes the document. It is durable when Save returns nil.
	Save(ctx context.Context, data []byte) error
}

// Options are a [Runner]'s. The zero value works: nothing outlives the process then.
type Options struct {
	// Checkpoint keeps what is done, so that a restart repeats only what is not. Nil: kept in memory.
	Checkpoint Document
	// UID is the owner's. A checkpoint with another UID is [ErrForeignCheckpoint], one without UID too unless this is
	// empty. Empty with a Checkpoint: the checkpoint belongs to whoever runs the hooks, so that an owner that is deleted
	// and made again under its name skips what the first one had done. Leave it empty only when the document's name is
	// the owner's alone for ever, or when nothing is kept.
	UID string
	// Parallelism is how many hooks run at the same time. Zero: 4.
	Parallelism int
	// MaxTotal is when waiting ends, counted from the first step of any process: from then on no hook is called again
	// after a failure or [Later], a hook not called yet is called once, and a checkpoint that cannot be read or written
	// no longer holds up the end. Zero: one hour.
	MaxTotal time.Duration
	// Grace is how long a call that ignores the end of its context is waited for before it is abandoned. Zero: 5 s.
	Grace time.Duration
	// StoreTimeout bounds one read or write of the checkpoint. Zero: 30 s.
	StoreTimeout time.Duration
	// Observer is told of progress.
	Observer Observer
	// Clock gives the time that is written into the checkpoint. Nil, and when it panics, gives the zero time or a year
	// that JSON cannot hold: time.Now.
	Clock func() time.Time
}

func (o Options) withDefaults() (Options, error) {
	var faults []error
	positive := func(field string, v *time.Duration, zero time.Duration) {
		if *v < 0 {
			faults = append(faults, fmt.Errorf("%w options: %s is negative", ErrInvalid, field))
		}
		if *v == 0 {
			*v = zero
		}
	}
	if o.Parallelism < 0 {
		faults = append(faults, fmt.Errorf("%w options: Parallelism is negative", ErrInvalid))
	}
	if o.Parallelism == 0 {
		o.Parallelism = 4
	}
	if o.Checkpoint != nil && isNil(o.Checkpoint) {
		faults = append(faults, fmt.Errorf("%w options: Checkpoint is a nil pointer", ErrInvalid))
	}
	positive("MaxTotal", &o.MaxTotal, time.Hour)
	positive("Grace", &o.Grace, 5*time.Second)
	positive("StoreTimeout", &o.StoreTimeout, 30*time.Second)
	o.Clock = steady(o.Clock)
	return o, errors.Join(faults...)
}

// steady returns the clock, with time.Now in its place where it is nil or fails: a checkpoint without a start is
// malformed, and years of more than four digits cannot be written as JSON.
func steady(clock func() time.Time) func() time.Time {
	return func() time.Time {
		var now time.Time
		if clock != nil {
			contain(func() { now = clock() })
		}
		if year := now.UTC().Year(); now.IsZero() || year < 1 || year > 9999 {
			return time.Now()
		}
		return now
	}
}

// Observer is told of progress. Any function may be nil. They are called one at a time by the goroutine that steps, with
// its context and no lock held, and hold up the step until they return. A panic of theirs is dropped.
type Observer struct {
	// Started is called before each call of a hook; attempt counts from one.
	Started func(ctx context.Context, hook string, attempt int)
	// Waiting is called when a hook is to be called again after d, because it said [Later] or failed.
	Waiting func(ctx context.Context, hook, why string, d time.Duration)
	// Ended is called once for each hook that ends in this process.
	Ended func(ctx context.Context, report HookReport)
}

func (o Observer) started(ctx context.Context, hook string, attempt int) {
	if o.Started != nil {
		contain(func() { o.Started(ctx, hook, attempt) })
	}
}

func (o Observer) waiting(ctx context.Context, hook, why string, d time.Duration) {
	if o.Waiting != nil {
		contain(func() { o.Waiting(ctx, hook, why, d) })
	}
}

func (o Observer) ended(ctx context.Context, report HookReport) {
	if o.Ended != nil {
		contain(func() { o.Ended(ctx, report) })
	}
}

func contain(fn func()) {
	defer func() { _ = recover() }()
	fn()
}
