package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Outcome is how the wait for one snapshot ended.
type Outcome struct {
	Result Result
	Err    error // nil, or a *WaitError
}

// Wait runs the waiter for snapshots that exist, and returns how each wait ended, in the order of the targets. It
// replaces Run, Add and Close.
func (w *Waiter) Wait(ctx context.Context, targets []Target, until Stage) []Outcome {
	outcomes, _ := w.wait(ctx, targets, until)
	return outcomes
}

// wait is Wait with the error of Run.
func (w *Waiter) wait(ctx context.Context, targets []Target, until Stage) (outcomes []Outcome, err error) {
	var run sync.WaitGroup
	run.Go(func() { err = w.Run(ctx) })
	pending := make([]*Pending, 0, len(targets))
	for _, t := range targets {
		pending = append(pending, w.Add(t, until))
	}
	w.Close()
	run.Wait()
	outcomes = make([]Outcome, 0, len(targets))
	for _, p := range pending {
		o := Outcome{Err: err} // Run refused to run: it was called before
		select {
		case <-p.Done(until):
			o.Result, o.Err = p.Outcome(until)
		default:
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, err
}

// Wait waits for the owner's snapshots to reach the stage, and returns how each wait ended, in the order of refs. A snapshot
// without the owner's label (see [Names.Labels]) is waited for, too, but the watch does not tell of it: see [Target]. The
// error is of the call as a whole: an owner that is not valid, or [ErrAbandoned] when the classifier or a function of
// [WaitEvents] did not return.
func (s *Snapshotter) Wait(ctx context.Context, owner Owner, until Stage, refs ...Ref) ([]Outcome, error) {
	if err := errors.Join(s.made(), validRefs(refs)); err != nil {
		return nil, fmt.Errorf("wait for snapshots: %w", err)
	}
	namespaces, targets := make([]string, 0, len(refs)), make([]Target, 0, len(refs))
	for _, ref := range refs {
		namespaces = append(namespaces, ref.Namespace)
		targets = append(targets, Target{Ref: ref})
	}
	w, err := NewWaiter(s.snaps, s.opts.Wait, owner, s.opts.Names, namespaces)
	if err != nil {
		return nil, fmt.Errorf("wait for snapshots: %w", err)
	}
	outcomes, err := w.wait(ctx, targets, until)
	if !errors.Is(err, ErrAbandoned) {
		err = nil // the waits have errors of their own
	}
	return outcomes, err
}
