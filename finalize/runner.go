package finalize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Runner runs hooks once each, over restarts. Make it with [New]. It is safe for concurrent use; steps take turns.
type Runner struct {
	hooks []Hook // in the order of the report
	opts  Options
	doc   *document // nil: no checkpoint
	turn  chan struct{}
	wake  chan struct{} // holds a token when a call may have ended

	// What follows belongs to whoever holds the turn.
	began   time.Time // the first step of this process
	state   *checkpoint
	saved   []byte // what the checkpoint is known to hold
	saveErr error  // why it does not hold the state
	calls   map[string]*call
	pauses  map[string]pause
	called  map[string]bool // in this step
}

// pause is why a hook that has not ended is not called now.
type pause struct {
	until time.Time
	why   string
	later bool    // it said Later, else it failed
	items []Entry // faults that came with Later
}

// Result is what a step came to.
type Result struct {
	// Done reports whether every hook has ended. Further steps do nothing then.
	Done bool
	// RequeueAfter is when to step again, above zero unless Done.
	RequeueAfter time.Duration
	// Report is where every hook stands.
	Report Report
}

// New checks hooks and options. Its error joins every fault: [HookError] for those of hooks, [ErrCycle] and arguments of
// ready-made hooks that are nil among them, and [ErrInvalid] for those of options. No hooks are done at once.
func New(hooks []Hook, opts Options) (*Runner, error) {
	opts, optionErr := opts.withDefaults()
	sorted, hookErr := arrange(hooks)
	if err := errors.Join(hookErr, optionErr); err != nil {
		return nil, err
	}
	r := &Runner{
		hooks: sorted, opts: opts, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		calls: map[string]*call{}, pauses: map[string]pause{}, called: map[string]bool{},
	}
	if opts.Checkpoint != nil {
		r.doc = &document{doc: opts.Checkpoint, timeout: opts.StoreTimeout, grace: opts.Grace}
	}
	return r, nil
}

// Step runs every hook that can run and returns when none can: all have ended, or those left have to wait, which it does
// not do. A hook that has to wait is called again in the same step only while it goes on for another one's first call. It
// returns after the calls it made, each at most its Timeout and the grace, and after the writes of the
// checkpoint, each at most the StoreTimeout and the grace, also when ctx has ended. It errors only when it could not go
// on: ctx ended (the cause is wrapped; what was cut off is not counted as an attempt), [ErrCheckpoint] until
// Options.MaxTotal makes it part of the report, or [ErrInvalid] for a Runner that [New] did not make. The report lists
// every hook that was abandoned.
func (r *Runner) Step(ctx context.Context) (Result, error) {
	if err := r.made(); err != nil {
		return Result{}, err
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return Result{}, fmt.Errorf("finalize: %w", context.Cause(ctx))
	}
	defer func() { <-r.turn }()
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("finalize: %w", context.Cause(ctx))
	}
	if r.began.IsZero() {
		r.began = time.Now()
	}
	if err := r.open(ctx); err != nil {
		if r.overdue() && ctx.Err() == nil {
			return Result{Done: true, Report: r.lost(err)}, nil
		}
		return Result{}, err
	}
	return r.run(ctx)
}

// made refuses a runner without the channel that New makes, on which a step would wait for ever.
func (r *Runner) made() error {
	if r == nil || r.turn == nil {
		return fmt.Errorf("%w runner: it was not made by New", ErrInvalid)
	}
	return nil
}

// Run steps until every hook has ended. A checkpoint that cannot be read or written for now is tried again until
// Options.MaxTotal; one that is foreign or malformed ends Run at once, as ctx does and a Runner that [New] did not make,
// which is [ErrInvalid].
func (r *Runner) Run(ctx context.Context) (Report, error) {
	if err := r.made(); err != nil {
		return Report{}, err
	}
	for failures := 1; ; failures++ {
		res, err := r.Step(ctx)
		switch {
		case err == nil && res.Done:
			return res.Report, nil
		case err == nil:
			failures = 0
		case ctx.Err() != nil, errors.Is(err, ErrForeignCheckpoint), errors.Is(err, ErrMalformedCheckpoint):
			return res.Report, err
		default:
			res.RequeueAfter = backoff(failures)
		}
		timer := time.NewTimer(res.RequeueAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return res.Report, fmt.Errorf("finalize: %w", context.Cause(ctx))
		}
	}
}

// open reads the checkpoint once in a process and makes sure that it holds the start.
func (r *Runner) open(ctx context.Context) error {
	if r.state == nil {
		var data []byte
		if r.doc != nil {
			var err error
			if data, err = r.doc.load(ctx); err != nil {
				return fmt.Errorf("read %w: %w", ErrCheckpoint, err)
			}
		}
		state, err := decodeCheckpoint(data, r.opts.UID)
		if err != nil {
			return err
		}
		r.state, r.saved = state, data
	}
	if r.state.Started.IsZero() {
		r.state.Started = r.opts.Clock().UTC()
	}
	for _, h := range r.hooks {
		if r.state.Hooks[h.Name] == nil {
			r.state.Hooks[h.Name] = &mark{State: Pending}
		}
	}
	r.save(ctx)
	if r.saveErr != nil && !r.overdue() {
		return r.saveErr
	}
	return nil
}

// save writes the checkpoint if it does not hold the state. What has ended is recorded also when ctx has: a restart
// would do it again.
func (r *Runner) save(ctx context.Context) {
	if r.doc == nil {
		return
	}
	data, err := r.state.encode()
	if err == nil && !bytes.Equal(data, r.saved) {
		if err = r.doc.save(context.WithoutCancel(ctx), data); err == nil {
			r.saved = data
		} else {
			err = fmt.Errorf("write %w: %w", ErrCheckpoint, err)
		}
	}
	r.saveErr = err
}

// overdue reports whether MaxTotal has passed, by the persisted start or by this process's own, so that no clock can
// make the work endless.
func (r *Runner) overdue() bool { return r.left() <= 0 }

func (r *Runner) left() time.Duration {
	left := r.opts.MaxTotal - time.Since(r.began)
	if r.state != nil && !r.state.Started.IsZero() {
		left = min(left, r.opts.MaxTotal-max(r.opts.Clock().Sub(r.state.Started), 0))
	}
	return left
}

// lost is the report when the checkpoint could not be read in time: what was done is not known, so nothing is run.
func (r *Runner) lost(err error) Report {
	report := Report{CheckpointErr: err}
	for _, h := range r.hooks {
		report.Hooks = append(report.Hooks, HookReport{Name: h.Name, State: Skipped, Policy: h.OnFailure, Error: oneLine(err.Error())})
	}
	return report
}

func (r *Runner) report() Report {
	report := Report{Started: r.state.Started}
	if r.saveErr != nil && r.overdue() {
		report.CheckpointErr = r.saveErr
	}
	for _, h := range r.hooks {
		report.Hooks = append(report.Hooks, r.hookReport(h))
	}
	return report
}

func (r *Runner) hookReport(h Hook) HookReport {
	m := r.state.Hooks[h.Name]
	out := HookReport{
		Name: h.Name, State: m.State, Policy: h.OnFailure, Attempts: m.Attempts,
		Duration: time.Duration(m.DurationMS) * time.Millisecond, Error: m.Error, Items: slices.Clone(m.Items),
	}
	if p, ok := r.pauses[h.Name]; ok && p.later && m.State == Pending {
		out.State, out.Error = Waiting, p.why
	}
	return out
}
