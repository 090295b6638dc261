package phase_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// jitter lets other goroutines of the bubble run in between.
func jitter(seed uint64) func() {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // seeded on purpose
	return func() {
		mu.Lock()
		d := time.Duration(rng.IntN(5)) * time.Millisecond
		mu.Unlock()
		time.Sleep(d)
	}
}

// P5, X5: phase-10: of K claimants of one new object exactly one wins; the others learn who did. Every event is raced,
// with and without a record, and with answers that get lost.
func TestOneClaimantWins(t *testing.T) {
	t.Parallel()
	const claimants = 8
	for _, noRecord := range []bool{false, true} {
		for _, lossy := range []bool{false, true} {
			t.Run(fmt.Sprintf("record %v, lossy %v", !noRecord, lossy), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(30) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld()
						w.pause = jitter(seed)
						if lossy {
							rng := rand.New(rand.NewPCG(seed, 9)) //nolint:gosec // seeded on purpose
							w.fault = func(int, string) fault {
								return []fault{pass, pass, lostBefore, lostAfter, late}[rng.IntN(5)]
							}
						}
						var wg sync.WaitGroup
						errs := make([]error, claimants)
						for i := range claimants {
							p := w.start(t, options{owner: fmt.Sprintf("replica-%d", i), noRecord: noRecord})
							wg.Go(func() {
								_, errs[i] = p.Apply(p.ctx, phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "")
							})
						}
						wg.Wait()
						if !noRecord {
							w.check(t, fmt.Sprint("seed ", seed))
						}
						changes := w.object.Changes()
						if len(changes) != 1 {
							t.Fatalf("seed %d: %d changes, want one", seed, len(changes))
						}
						winners := 0
						for i, err := range errs {
							owner := fmt.Sprintf("replica-%d", i)
							if err == nil {
								winners++
								if changes[0].Owner != owner {
									t.Errorf("seed %d: %s thinks it won, the object says %s", seed, owner, changes[0].Owner)
								}
								continue
							}
							conflict, ok := errors.AsType[*phase.ConflictError](err)
							if !ok || !errors.Is(err, phase.ErrConflict) {
								t.Fatalf("seed %d: %s got %v, want a ConflictError", seed, owner, err)
							}
							if conflict.Expected != phase.New || conflict.Found != phase.InProgress || conflict.Owner != changes[0].Owner {
								t.Errorf("seed %d: conflict = %+v, want one that names %s", seed, conflict, changes[0].Owner)
							}
						}
						if winners != 1 {
							t.Errorf("seed %d: %d winners, want one", seed, winners)
						}
					})
				}
			})
		}
	}
}

// P5: without owners and without a record the object's compare-and-swap alone decides: a conflict is never taken for our
// own write, though the claimants' changes are all alike.
func TestOneAnonymousClaimantWins(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.pause = jitter(seed)
			var wg sync.WaitGroup
			errs := make([]error, 6)
			for i := range errs {
				p := w.start(t, options{noRecord: true})
				wg.Go(func() {
					_, errs[i] = p.Apply(p.ctx, phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "")
				})
			}
			wg.Wait()
			winners := 0
			for _, err := range errs {
				switch {
				case err == nil:
					winners++
				case !errors.Is(err, phase.ErrConflict):
					t.Errorf("seed %d: %v, want ErrConflict", seed, err)
				}
			}
			if winners != 1 {
				t.Errorf("seed %d: %d winners, want one", seed, winners)
			}
		})
	}
}

// helped is an object that somebody else brings forward just before our first write.
type helped struct {
	*phase.Memory[MyPhase]
	help func()
}

func (h *helped) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	if help := h.help; help != nil {
		h.help = nil
		help()
	}
	return h.Memory.Update(ctx, old, c)
}

// replaced loses the answer of a write, and is another object of the same name after it, which somebody brought to the same
// phase already.
type replaced struct {
	*phase.Memory[MyPhase]
	lost bool
}

func (r *replaced) Update(context.Context, phase.State[MyPhase], phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	r.lost = true
	return phase.State[MyPhase]{}, phase.ErrUnknownOutcome
}

func (r *replaced) Get(ctx context.Context) (phase.State[MyPhase], error) {
	state, err := r.Memory.Get(ctx)
	if r.lost {
		state.UID, state.Phase, state.Owner = "another", phase.InProgress, "a"
	}
	return state, err
}

// P5, X6: a change that is found on another object of the same name is not ours.
func TestAnswerLostAndObjectReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		observed := 0
		a := newApplier(t, &replaced{Memory: phase.NewMemory(phase.State[MyPhase]{})}, phase.ApplierOptions[MyPhase]{
			Owner: "a", Hooks: phase.Hooks[MyPhase]{Transition: func(context.Context, phase.Change[MyPhase]) { observed++ }},
		})
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Apply(t.Context(), state, phase.EventStart, "")
		if conflict, ok := errors.AsType[*phase.ConflictError](err); !ok || !conflict.Replaced || observed != 0 {
			t.Errorf("Apply = %v, observed %d times, want a ConflictError with Replaced and no call", err, observed)
		}
	})
}

// unanswered is an object whose writes end with their context only.
type unanswered struct{ *phase.Memory[MyPhase] }

func (unanswered) Update(ctx context.Context, _ phase.State[MyPhase], _ phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	<-ctx.Done()
	return phase.State[MyPhase]{}, ctx.Err()
}

// P5, X2: a write that the caller's cancel cuts off is unknown, not failed, also where the object returns nothing but the
// context's error.
func TestCancelDuringAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		a := newApplier(t, unanswered{phase.NewMemory(phase.State[MyPhase]{})}, phase.ApplierOptions[MyPhase]{})
		state, err := a.Load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if _, err = a.Apply(ctx, state, phase.EventStart, ""); !errors.Is(err, phase.ErrUnknownOutcome) || !errors.Is(err, stop) {
			t.Errorf("Apply = %v, want ErrUnknownOutcome and the cause", err)
		}
	})
}

// P6, P7: who finds the record ahead writes the object in the other's place. That is the other's success too, and the
// change is observed once, by the one that wrote.
func TestHelpedWriteIsObservedOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	doc := &paper{}
	memory := phase.NewMemory(phase.State[MyPhase]{})
	start := func(owner string, object phase.Object[MyPhase]) *phase.Applier[MyPhase] {
		return newApplier(t, object, phase.ApplierOptions[MyPhase]{
			Owner: owner, Record: phase.NewDocumentRecord[MyPhase](doc, "memory"),
			Hooks: phase.Hooks[MyPhase]{Transition: func(context.Context, phase.Change[MyPhase]) { seen[owner]++ }},
		})
	}
	helper := start("helper", memory)
	object := &helped{Memory: memory, help: func() {
		if state, err := helper.Load(t.Context()); err != nil || state.Phase != phase.InProgress || state.Owner != "claimant" {
			t.Errorf("helper's Load = %+v, %v, want the claimant's change", state, err)
		}
	}}
	state, err := start("claimant", object).Apply(t.Context(), phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "")
	if err != nil || state.Phase != phase.InProgress {
		t.Fatalf("Apply = %+v, %v, want success", state, err)
	}
	if seen["helper"] != 1 || seen["claimant"] != 0 || len(memory.Changes()) != 1 {
		t.Errorf("observed %v, %d changes, want one, by the helper", seen, len(memory.Changes()))
	}
}

// P5, P6, P7, P2: the model test. Several processes do one piece of work, some raise a cancel, writes fail in every way,
// processes die and are followed by others. Whatever happens: one terminal phase, never a phase ahead of the record, no
// failure and no accepted cancel lost, and record and object agree in the end. Rows phase-8, phase-9, phase-11.
func TestModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 100
	}
	const shards = 4
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < seeds; seed += shards {
				synctest.Test(t, func(t *testing.T) { model(t, seed, false) })
			}
		})
	}
}

// P6: with a store that does not write conditionally two owners may fork record and object. They still come together, with
// one terminal phase and no failure lost.
func TestModelUnconditionalStore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { model(t, seed, true) })
	}
}

func model(t *testing.T, seed uint64, unconditional bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // seeded on purpose
	w := newWorld()
	w.pause = jitter(seed)
	w.fault = misfortunes(rng)
	failed := rng.IntN(2) == 0
	s := tale(failed)
	writers := 1 + rng.IntN(3)
	cancels, delay := rng.IntN(3) == 0, time.Duration(rng.IntN(60))*time.Millisecond
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { workUntilEnd(t, w, s, options{owner: fmt.Sprint("owner-", i), unconditional: unconditional}) })
	}
	canceled := false
	if cancels {
		wg.Go(func() {
			time.Sleep(delay)
			canceled = cancelOnce(w.start(t, options{owner: "alice", unconditional: unconditional}))
		})
	}
	wg.Wait()

	what := fmt.Sprintf("seed %d, failed %v, canceled %v, %d writers", seed, failed, canceled, writers)
	if unconditional {
		w.faults = nil // a fork may put the object ahead for a moment
	}
	w.fault = func(int, string) fault { return pass }
	last := w.start(t, options{owner: "last", unconditional: unconditional})
	state, err := last.Load(last.ctx)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	w.check(t, what)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkEnd(t, what, state, failed, canceled)
	at := MyPhase(phase.New)
	for _, c := range w.object.Changes() { // the object's history is a path of the machine, or a jump along one
		if c.From != at || c.From != c.To && !w.leads(c.From, c.To) {
			t.Errorf("%s: change from %q to %q after %q", what, c.From, c.To, at)
		}
		at = c.To
	}
}

// misfortunes is a fault for a quarter of the first 200 effects.
func misfortunes(rng *rand.Rand) func(n int, what string) fault {
	kinds := append([]fault{crashBefore, crashAfter}, living...)
	return func(n int, _ string) fault {
		if n < 200 && rng.IntN(4) == 0 {
			return kinds[rng.IntN(len(kinds))]
		}
		return pass
	}
}

// tale is the story of two operations, of which one may fail.
func tale(failed bool) story {
	s := story{working: phase.Tally{Running: 2}, waiting: phase.Tally{Completed: 2}, final: phase.Tally{Completed: 2}}
	if failed {
		s.waiting = phase.Tally{Completed: 1, Failed: 1}
		s.final = s.waiting
	}
	return s
}

// checkEnd checks where a model has ended. The world's mutex is held.
func (w *world) checkEnd(t *testing.T, what string, state phase.State[MyPhase], failed, canceled bool) {
	t.Helper()
	if recorded := w.recordedPhase(); recorded != state.Phase {
		t.Errorf("%s: the record says %q, the object %q", what, recorded, state.Phase)
	}
	switch {
	case !w.machine.IsTerminal(state.Phase):
		t.Errorf("%s: ended in %q", what, state.Phase)
	case canceled && (state.Phase != phase.Failed || state.Reason != phase.ReasonCanceled):
		t.Errorf("%s: ended in %q with reason %q, the cancel is lost", what, state.Phase, state.Reason)
	case failed && state.Phase == phase.Completed:
		t.Errorf("%s: ended in %q, the failure is lost", what, state.Phase)
	}
}

func workUntilEnd(t *testing.T, w *world, s story, opts options) {
	t.Helper()
	p := w.start(t, opts)
	for range 1000 {
		done, _ := s.step(p.ctx, p)
		if done {
			return
		}
		if p.ctx.Err() != nil {
			p = w.start(t, opts)
		}
	}
	t.Error("the work does not end")
}

// cancelOnce says whether the cancel was accepted.
func cancelOnce(p *process) bool {
	state, err := p.Load(p.ctx)
	if err != nil {
		return false
	}
	_, err = p.Apply(p.ctx, state, phase.EventCancel, "by alice")
	return err == nil
}

// P5: the context that ends stops a writer that waits for its turn to try again.
func TestContextEndsRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fault = func(int, string) fault { return refused }
		p := w.start(t, options{owner: "a"})
		cause := errors.New("the manager stops")
		ctx, cancel := context.WithCancelCause(p.ctx)
		time.AfterFunc(3*time.Second, func() { cancel(cause) })
		began := time.Now()
		_, err := p.Apply(ctx, phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "")
		if !errors.Is(err, cause) || !errors.Is(err, errBroken) || !phase.IsTransient(err) {
			t.Errorf("Apply = %v, want the cause and the last error, which is transient", err)
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("Apply took %v, want 3s", got)
		}
	})
}
