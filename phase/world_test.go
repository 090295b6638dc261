package phase_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// fault is what happens to one write.
type fault string

const (
	pass        fault = "pass"
	refused     fault = "refused, transient"
	broken      fault = "refused, final"
	lostBefore  fault = "no answer, not written"
	lostAfter   fault = "no answer, written"
	late        fault = "no answer, written before the next access"
	hangBefore  fault = "hangs, not written"
	hangAfter   fault = "hangs, written"
	crashBefore fault = "crash before the write"
	crashAfter  fault = "crash after the write"
	twice       fault = "written twice, as by a proxy that repeats requests"
)

// living are the faults that a process survives.
var living = []fault{refused, broken, lostBefore, lostAfter, late, hangBefore, hangAfter, twice}

var (
	errBroken = errors.New("broken for now")
	errDark   = errors.New("connection refused")
)

// world is an object and a record that processes write, and what a watcher saw.
type world struct {
	machine *phase.Machine[MyPhase]
	object  *phase.Memory[MyPhase]
	// fault is asked before the nth write, counted from 0. It is called with mu held.
	fault func(n int, what string) fault
	// pause lets other processes go on; nil: no pause.
	pause func()

	mu       sync.Mutex // protects the fields below
	stored   []byte
	version  int
	writes   int
	pending  []func()  // late writes
	dark     time.Time // until then nothing answers
	terminal map[MyPhase]bool
	ended    int // Transition hooks of terminal changes
	faults   []error
}

func newWorld() *world {
	return &world{
		machine: phase.Backup[MyPhase](), object: phase.NewMemory(phase.State[MyPhase]{}),
		fault: func(int, string) fault { return pass }, terminal: map[MyPhase]bool{},
	}
}

// write does one write with its fault. crash ends the process.
func (w *world) write(ctx context.Context, crash context.CancelFunc, what string, do func() error) error {
	if err := w.access(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	n := w.writes
	w.writes++
	f := w.fault(n, what)
	w.mu.Unlock()
	lost := fmt.Errorf("%w: %s of write %d", phase.ErrUnknownOutcome, what, n)
	switch f {
	case refused:
		return phase.Transient(errBroken)
	case broken:
		return errBroken
	case lostBefore:
		return lost
	case late:
		w.mu.Lock()
		w.pending = append(w.pending, func() { _ = w.done(what, do) })
		w.mu.Unlock()
		return lost
	case hangBefore:
		<-ctx.Done()
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case crashBefore:
		crash()
		return fmt.Errorf("%s: %w", what, ctx.Err())
	default:
	}
	err := w.done(what, do)
	if err != nil {
		return err
	}
	switch f {
	case twice:
		_ = w.done(what, do) // a conditional write is refused the second time
		return nil
	case lostAfter:
		return lost
	case hangAfter:
		<-ctx.Done()
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case crashAfter:
		crash()
		return fmt.Errorf("%s: %w", what, ctx.Err())
	default:
		return nil
	}
}

// access is the start of any read or write: a dead process gets nothing, late writes come in, others run.
func (w *world) access(ctx context.Context) error {
	if w.pause != nil {
		w.pause()
	}
	w.mu.Lock()
	pending := w.pending
	w.pending = nil
	dark := time.Now().Before(w.dark)
	w.mu.Unlock()
	for _, do := range pending {
		do()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("dead: %w", err)
	}
	if dark {
		return phase.Transient(errDark)
	}
	return nil
}

// done does the write and lets the watcher look.
func (w *world) done(what string, do func() error) error {
	if err := do(); err != nil {
		return err
	}
	w.watch(what)
	return nil
}

// watch holds the world against P6 and P5: the object is never ahead of the record, one terminal phase is seen.
func (w *world) watch(what string) {
	state, err := w.object.Get(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.faults = append(w.faults, err)
		return
	}
	at := state.Phase
	if at == "" {
		at = w.machine.Initial()
	}
	if w.machine.IsTerminal(at) {
		w.terminal[at] = true
		if state.Completed.IsZero() {
			w.faults = append(w.faults, fmt.Errorf("after %s: %q without a completion time", what, at))
		}
	}
	recorded := w.recordedPhase()
	if at != recorded && w.leads(recorded, at) {
		w.faults = append(w.faults, fmt.Errorf("after %s: the object is in %q, ahead of the record's %q", what, at, recorded))
	}
}

// recordedPhase returns the phase of the stored record. The caller holds mu.
func (w *world) recordedPhase() MyPhase {
	if w.stored == nil {
		return w.machine.Initial()
	}
	data := w.stored
	c, _, err := phase.NewDocumentRecord[MyPhase](fixed(data), "memory").Load(context.Background())
	if err != nil {
		w.faults = append(w.faults, err)
	}
	return c.To
}

// leads says whether some events lead from one phase to another one.
func (w *world) leads(from, to MyPhase) bool {
	for _, tr := range w.machine.Transitions() {
		if tr.From == from && tr.To != from && (tr.To == to || w.leads(tr.To, to)) {
			return true
		}
	}
	return false
}

type fixed []byte

func (f fixed) Load(context.Context) ([]byte, error) { return f, nil }
func (fixed) Save(context.Context, []byte) error     { return errors.New("read only") }

// process is one life of a program: an applier whose context ends at a crash.
type process struct {
	*phase.Applier[MyPhase]
	ctx  context.Context //nolint:containedctx // a process is its life
	kill context.CancelFunc
}

type options struct {
	owner         string
	noRecord      bool
	unconditional bool
}

func (w *world) start(t *testing.T, opts options) *process {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	t.Cleanup(kill)
	applied := phase.ApplierOptions[MyPhase]{
		Owner: opts.owner,
		Hooks: phase.Hooks[MyPhase]{Transition: func(_ context.Context, c phase.Change[MyPhase]) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if c.Terminal {
				w.ended++
			}
		}},
	}
	if !opts.noRecord {
		applied.Record = phase.NewDocumentRecord[MyPhase](&slot{world: w, kill: kill, unconditional: opts.unconditional}, "memory")
	}
	a, err := phase.NewApplier(w.machine, &remote{world: w, kill: kill}, applied)
	if err != nil {
		t.Fatal(err)
	}
	return &process{Applier: a, ctx: ctx, kill: kill}
}

// remote is the world's object as one process sees it.
type remote struct {
	world *world
	kill  context.CancelFunc
}

func (r *remote) Get(ctx context.Context) (phase.State[MyPhase], error) {
	if err := r.world.access(ctx); err != nil {
		return phase.State[MyPhase]{}, err
	}
	return r.world.object.Get(ctx)
}

func (r *remote) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	alive := context.WithoutCancel(ctx)
	answer := make(chan phase.State[MyPhase], 2) // a write may be done twice; the first answer counts
	err := r.world.write(ctx, r.kill, fmt.Sprintf("object %s", c.To), func() error {
		next, err := r.world.object.Update(alive, old, c)
		answer <- next
		return err
	})
	if err != nil {
		return phase.State[MyPhase]{}, err // a late write may come yet
	}
	return <-answer, nil
}

// slot is the world's document as one process sees it: it remembers the version it loaded, as operations.Slot does.
type slot struct {
	world         *world
	kill          context.CancelFunc
	unconditional bool

	mu      sync.Mutex // protects version
	version int
}

func (s *slot) Load(ctx context.Context) ([]byte, error) {
	if err := s.world.access(ctx); err != nil {
		return nil, err
	}
	s.world.mu.Lock()
	data, version := s.world.stored, s.world.version
	s.world.mu.Unlock()
	s.mu.Lock()
	s.version = version
	s.mu.Unlock()
	return data, nil
}

func (s *slot) Save(ctx context.Context, data []byte) error {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	return s.world.write(ctx, s.kill, "record", func() error {
		s.world.mu.Lock()
		defer s.world.mu.Unlock()
		if s.world.version != version && !s.unconditional {
			return errors.New("store: the document changed")
		}
		s.world.version++
		s.world.stored = data
		return nil
	})
}

// check reports what the watcher saw.
func (w *world) check(t *testing.T, what string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.faults {
		t.Errorf("%s: %v", what, err)
	}
	if len(w.terminal) > 1 {
		t.Errorf("%s: %d terminal phases were seen: %v", what, len(w.terminal), w.terminal)
	}
}
