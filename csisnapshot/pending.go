package csisnapshot

import (
	"context"
	"fmt"
	"time"
)

// Pending is a snapshot that a [Waiter] waits for. Its methods are safe for concurrent use.
type Pending struct {
	waiter *Waiter
	entry  *entry
	picked chan struct{}
	freed  chan struct{}
	stages [StageReady + 1]outcome
}

// outcome is what a stage came to. result and err are written before done is closed.
type outcome struct {
	done   chan struct{}
	result Result
	err    error
}

func newPending(w *Waiter, e *entry) *Pending {
	p := &Pending{waiter: w, entry: e, picked: make(chan struct{}), freed: make(chan struct{})}
	for i := range p.stages {
		p.stages[i].done = make(chan struct{})
	}
	return p
}

// refused is a wait that a waiter which nobody made has refused.
func refused(t Target, until Stage, why error, now time.Time) *Pending {
	w := &Waiter{drivers: map[string]*driverClock{}}
	e := &entry{state: NewState(t), until: until, added: now}
	e.pending = newPending(w, e)
	w.end(e, ErrCanceled, DiagnosisNone, why, now)
	return e.pending
}

// PickedUp is closed when the snapshot-controller is seen to work on the snapshot, or when its wait has ended.
func (p *Pending) PickedUp() <-chan struct{} { return p.picked }

// Done is closed when the stage is reached or its wait has ended. A stage behind the one given to [Waiter.Add] ends
// with it.
func (p *Pending) Done(s Stage) <-chan struct{} { return p.stages[s.known()].done }

// Freed is closed when the snapshot's place under a limit of snapshots in flight may be given to another: when it is
// cut or has failed; but after a timeout only when another snapshot of the driver is picked up or cut, or all have
// ended. So never-ready snapshots cost one timeout in all, whatever the limit.
func (p *Pending) Freed() <-chan struct{} { return p.freed }

// Outcome is what the stage came to, once [Pending.Done] is closed; before, it is what is known now and a nil error.
func (p *Pending) Outcome(s Stage) (Result, error) {
	stage := &p.stages[s.known()]
	select {
	case <-stage.done:
		return stage.result, stage.err
	default:
		return p.Now(), nil
	}
}

// Now is what is known of the snapshot at this moment.
func (p *Pending) Now() Result {
	p.waiter.mu.Lock()
	defer p.waiter.mu.Unlock()
	return p.entry.state.Result
}

// Wait blocks until the stage is reached or has failed. If ctx ends first, the error is a [*WaitError] with what was
// last seen, and the waiter goes on.
func (p *Pending) Wait(ctx context.Context, s Stage) (Result, error) {
	s = s.known()
	stage := &p.stages[s]
	select {
	case <-stage.done:
		return stage.result, stage.err
	default:
	}
	select {
	case <-stage.done:
		return stage.result, stage.err
	case <-ctx.Done():
		return p.interrupted(s, endCategory(ctx), context.Cause(ctx))
	}
}

// Drop ends the wait with [ErrCanceled]; the cluster is not touched.
func (p *Pending) Drop() {
	w := p.waiter
	w.mu.Lock()
	now := time.Now()
	w.end(p.entry, ErrCanceled, p.entry.state.Diagnosis, fmt.Errorf("dropped"), now)
	w.mu.Unlock()
	w.publish()
}

func (p *Pending) interrupted(s Stage, category, cause error) (Result, error) {
	p.waiter.mu.Lock()
	defer p.waiter.mu.Unlock()
	state := p.entry.state
	return state.Result, state.failure(s, category, p.waiter.timeoutDiagnosis(p.entry), cause, time.Now())
}
