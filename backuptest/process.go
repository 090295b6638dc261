package backuptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Trouble is what happens to one effect of a [Process].
type Trouble uint8

const (
	// CrashAfter lets the effect happen and ends the process before it learns of it, as a kill or a loss of power does.
	CrashAfter Trouble = iota + 1
	// CrashBefore ends the process instead of the effect.
	CrashBefore
	// LoseAnswer lets the effect happen and gives the process an error instead of the answer. The process goes on.
	LoseAnswer
	// FailEffect gives the process an error instead of the effect. The process goes on.
	FailEffect
)

var troubleNames = map[Trouble]string{
	CrashAfter: "crash after", CrashBefore: "crash before", LoseAnswer: "lose the answer of", FailEffect: "fail",
}

// String is, for example, "crash after".
func (t Trouble) String() string {
	if name, known := troubleNames[t]; known {
		return name
	}
	return fmt.Sprintf("trouble %d of", uint8(t))
}

var (
	// ErrCrashed is the cause of a dead process's context, and what its effects and requests return.
	ErrCrashed = errors.New("the process has crashed")
	// ErrNoAnswer is what an effect returns that happened, and whose answer was lost.
	ErrNoAnswer = errors.New("the answer got lost")
	// ErrEffectFailed is what an effect returns that did not happen.
	ErrEffectFailed = errors.New("the effect failed")
)

// Process is one life of the program under test. What it does to the world are its effects: writes through the clients of
// [Process.Config], writes to a store of [Store.In], hooks of [Hooks.In] and whatever else passes through [Process.Do].
// They are counted together, from 1, in the order in which they begin. Once it has crashed, its context has ended and it
// can neither read nor change anything any more, while its goroutines may still run: nothing of them leaves it. It is safe
// for concurrent use.
type Process struct {
	kill func(error)

	mu       sync.Mutex
	troubles map[int]Trouble
	wrong    error // about troubles; it is not changed
	effects  []string
	met      bool
	doomed   bool // its crash is under way: no further effect begins
	dead     bool
	running  map[*running]bool // what ends with it, whatever contexts it has
}

type running struct{ end context.CancelCauseFunc }

// NewProcess returns a process that meets the troubles, by the number of the effect, and its context, which ends with it or
// with ctx. Call [Process.Kill] when done. Most tests use [EachCrash] instead. The zero trouble is none, and
// no effect is before the first. With an unknown trouble every effect fails with an error that names it, and does not happen.
func NewProcess(ctx context.Context, troubles map[int]Trouble) (context.Context, *Process) {
	ctx, kill := context.WithCancelCause(ctx)
	return ctx, &Process{kill: kill, troubles: maps.Clone(troubles), wrong: wrongTroubles(troubles)}
}

func wrongTroubles(troubles map[int]Trouble) error {
	var errs []error
	for _, effect := range slices.Sorted(maps.Keys(troubles)) {
		if troubles[effect] > FailEffect {
			errs = append(errs, fmt.Errorf("trouble of effect %d: %d is unknown", effect, uint8(troubles[effect])))
		}
	}
	return errors.Join(errs...)
}

// Kill ends the process at once, as SIGKILL does: its connections break, and what it waits for in a store or a hook ends, whatever
// contexts these have. It may be called more than once.
func (p *Process) Kill() {
	p.mu.Lock()
	p.doomed, p.dead = true, true
	ending := p.running
	p.running = nil
	p.mu.Unlock()
	for r := range ending {
		r.end(ErrCrashed)
	}
	if p.kill != nil {
		p.kill(ErrCrashed)
	}
}

// Crashed reports whether the process is dead.
func (p *Process) Crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Effects returns the effects that have begun, in order, such as "patch pods shop/db-0", "write backups/a.json" or "freeze
// shop/db-0". The one that was troubled is among them.
func (p *Process) Effects() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.effects)
}

// tie returns a context that ends with ctx, with the process, and with done, which must be called.
func (p *Process) tie(ctx context.Context) (tied context.Context, done func()) {
	tied, end := context.WithCancelCause(ctx)
	r := &running{end: end}
	p.mu.Lock()
	dead := p.dead
	if !dead {
		if p.running == nil {
			p.running = map[*running]bool{}
		}
		p.running[r] = true
	}
	p.mu.Unlock()
	if dead {
		end(ErrCrashed)
	}
	return tied, func() {
		p.mu.Lock()
		delete(p.running, r)
		p.mu.Unlock()
		end(context.Canceled)
	}
}

// insideEffect marks the context of a running effect.
type insideEffect struct{ *Process }

// Do counts an effect of that name and makes it happen by calling do, unless its trouble forbids. Effects of the same process
// inside do, made with its context, are parts of it: they are not counted. After a crash nothing happens.
//
// # Errors
//
// That of do, [ErrCrashed], [ErrNoAnswer] or [ErrEffectFailed]; that do is nil or a trouble unknown.
func (p *Process) Do(ctx context.Context, name string, do func(context.Context) error) error {
	if do == nil {
		return fmt.Errorf("effect %q: the function that does it is nil", name)
	}
	if ctx.Value(insideEffect{p}) != nil {
		return do(ctx)
	}
	trouble, err := p.begin(name)
	if err != nil {
		return err
	}
	if trouble == CrashBefore {
		p.Kill()
		return ErrCrashed
	}
	if trouble == FailEffect {
		return ErrEffectFailed
	}
	tied, done := p.tie(context.WithValue(ctx, insideEffect{p}, true))
	defer done()
	err = do(tied)
	switch {
	case trouble == CrashAfter:
		p.Kill()
		return ErrCrashed
	case p.Crashed():
		return ErrCrashed
	case trouble == LoseAnswer:
		return ErrNoAnswer
	}
	return err
}

// begin counts an effect.
func (p *Process) begin(name string) (Trouble, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doomed {
		return 0, ErrCrashed
	}
	if p.wrong != nil {
		return 0, p.wrong
	}
	p.effects = append(p.effects, name)
	trouble := p.troubles[len(p.effects)]
	p.met = p.met || trouble != 0
	p.doomed = trouble == CrashAfter || trouble == CrashBefore
	return trouble, nil
}

func (p *Process) metTrouble() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met
}
