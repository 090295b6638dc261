package phase_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// P7: phase-18: each single write gets no answer, and then nothing can be read for longer than a call lasts. The process
// lives, and is told of every end once.
func TestEndIsObservedAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, s := range stories {
		for _, withRecord := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, record %v", name, withRecord), func(t *testing.T) {
				t.Parallel()
				total := 0
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					s.run(t, w, options{owner: "a", noRecord: !withRecord})
					total = w.writes
				})
				for k := range total {
					for _, kind := range []fault{lostBefore, lostAfter, late, hangBefore, hangAfter} {
						synctest.Test(t, func(t *testing.T) {
							w := newWorld()
							w.fault = func(n int, _ string) fault {
								if n != k {
									return pass
								}
								w.dark = time.Now().Add(150 * time.Second)
								return kind
							}
							s.run(t, w, options{owner: "a", noRecord: !withRecord})
							what := fmt.Sprintf("write %d: %s", k, kind)
							s.checkEnd(t, w, what, withRecord)
							if w.ended != 1 {
								t.Errorf("%s: the end was reported %d times, want once", what, w.ended)
							}
						})
					}
				}
			})
		}
	}
}

// unheard is an object whose writes can be made to get no answer, after which it cannot be read until heard again.
type unheard struct {
	*phase.Memory[MyPhase]
	mode  string // "written", "not written", "panic after the write", "late": the one before comes first; empty: it answers
	write func() // does what was not written, late
	dark  bool
}

func (o *unheard) Get(ctx context.Context) (phase.State[MyPhase], error) {
	if o.dark {
		return phase.State[MyPhase]{}, phase.Transient(errDark)
	}
	return o.Memory.Get(ctx)
}

func (o *unheard) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	late := context.WithoutCancel(ctx)
	if o.mode == "late" {
		o.write()
		return o.Memory.Update(ctx, old, c)
	}
	o.write = func() { _, _ = o.Memory.Update(late, old, c) }
	switch o.mode {
	case "written":
		o.write()
	case "not written":
	case "panic after the write":
		o.write()
		panic("boom")
	default:
		return o.Memory.Update(ctx, old, c)
	}
	o.dark = true
	return phase.State[MyPhase]{}, phase.ErrUnknownOutcome
}

// P7: the answer is found by Recover too, which a process calls again for what it left, and which reads no further when the
// work has ended or is somebody else's by now.
func TestRecoverObservesALostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []MyPhase
		object := &unheard{Memory: phase.NewMemory(phase.State[MyPhase]{Phase: phase.Finalizing, Owner: "a"}), mode: "written"}
		a := newApplier(t, object, phase.ApplierOptions[MyPhase]{Owner: "a", Hooks: phase.Hooks[MyPhase]{
			Transition: func(_ context.Context, c phase.Change[MyPhase]) { seen = append(seen, c.To) },
		}})
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = a.Advance(t.Context(), state, phase.Tally{Completed: 1}); !errors.Is(err, phase.ErrUnknownOutcome) {
			t.Fatalf("Advance = %v, want ErrUnknownOutcome", err)
		}
		object.dark = false
		for range 2 {
			if r, err := a.Recover(t.Context(), phase.SingleOwner()); err != nil || r.State.Phase != phase.Completed {
				t.Fatalf("Recover = %+v, %v, want Completed", r, err)
			}
		}
		if !slices.Equal(seen, []MyPhase{phase.Completed}) {
			t.Errorf("the hooks saw %v, want Completed once", seen)
		}
	})
}

// P7: who is told of a change whose answer got lost, in the cases that the sweep above does not have.
func TestWhoObservesALostAnswer(t *testing.T) {
	t.Parallel()
	type env struct {
		*testing.T
		object *unheard
		doc    *paper
		apply  func(name string) *phase.Applier[MyPhase] // a new process
		a      *phase.Applier[MyPhase]
	}
	load := func(e env, a *phase.Applier[MyPhase]) phase.State[MyPhase] {
		e.Helper()
		state, err := a.Load(e.Context())
		if err != nil {
			e.Fatal(err)
		}
		return state
	}
	tests := map[string]struct {
		reason   string
		mode     string
		noRecord bool
		then     func(e env)
		want     []string
	}{
		"the same process, twice": {
			reason: "it is told at the next Load, and not again", mode: "written",
			then: func(e env) { load(e, e.a); load(e, e.a) }, want: []string{"a: Completed"},
		},
		"without a record": {
			reason: "the object alone says it", mode: "written", noRecord: true,
			then: func(e env) { load(e, e.a); load(e, e.a) }, want: []string{"a: Completed"},
		},
		"a new process": {
			reason: "it wrote nothing", mode: "written",
			then: func(e env) { load(e, e.apply("b")) },
		},
		"the record's turn": {
			reason: "Load writes the recorded change itself and is told once", mode: "not written",
			then: func(e env) { load(e, e.a); load(e, e.a) }, want: []string{"a: Completed"},
		},
		"late, when Load writes": {
			reason: "Load finds the change done, by nobody but us", mode: "not written",
			then: func(e env) {
				e.object.mode = "late"
				load(e, e.a)
			}, want: []string{"a: Completed"},
		},
		"late, when Load has looked": {
			reason: "the write that Load saw missing arrives after all", mode: "not written", noRecord: true,
			then: func(e env) {
				if state := load(e, e.a); state.Phase != phase.Finalizing {
					e.Fatalf("Load = %+v", state)
				}
				e.object.write()
				load(e, e.a)
				load(e, e.a)
			}, want: []string{"a: Completed"},
		},
		"never, and done again": {
			reason: "the second write is another one, at the same second", mode: "not written", noRecord: true,
			then: func(e env) {
				if _, err := e.a.Advance(e.Context(), load(e, e.a), phase.Tally{}); err != nil {
					e.Fatal(err)
				}
				load(e, e.a)
			}, want: []string{"a: Completed"},
		},
		"overtaken by another end": {
			reason: "what we wanted was not written", mode: "not written", noRecord: true,
			then: func(e env) {
				b := e.apply("b")
				if _, err := b.Advance(e.Context(), load(e, b), phase.Tally{Errors: 1}); err != nil {
					e.Fatal(err)
				}
				load(e, e.a)
			}, want: []string{"b: PartiallyFailed"},
		},
		"deleted since": {
			reason: "the end was there, though nobody of us saw it", mode: "written",
			then: func(e env) {
				state, _ := e.object.Memory.Get(e.Context())
				if _, err := e.object.Memory.Update(e.Context(), state, phase.Change[MyPhase]{From: state.Phase, To: phase.Deleting}); err != nil {
					e.Fatal(err)
				}
				if state := load(e, e.a); state.Phase != phase.Deleting {
					e.Fatalf("Load = %+v", state)
				}
			}, want: []string{"a: Completed"},
		},
		"behind a panic": {
			reason: "the write may have been done", mode: "panic after the write",
			then: func(e env) { load(e, e.a); load(e, e.a) }, want: []string{"a: Completed"},
		},
		"many at once": {
			reason: "the Applier is used from many goroutines", mode: "written",
			then: func(e env) {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() { _, _ = e.a.Load(e.Context()) })
				}
				wg.Wait()
			}, want: []string{"a: Completed"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var seen []string
				start, ticks := time.Now(), 0
				clock := func() time.Time { // everything is in one second, which is all that many objects keep
					ticks++
					return start.Add(time.Duration(ticks))
				}
				e := env{T: t, doc: &paper{}, object: &unheard{Memory: phase.NewMemory(phase.State[MyPhase]{Phase: phase.Finalizing})}}
				e.apply = func(name string) *phase.Applier[MyPhase] {
					opts := phase.ApplierOptions[MyPhase]{Owner: name, Clock: clock, Hooks: phase.Hooks[MyPhase]{
						Transition: func(_ context.Context, c phase.Change[MyPhase]) {
							mu.Lock()
							defer mu.Unlock()
							seen = append(seen, fmt.Sprintf("%s: %s", name, c.To))
						},
					}}
					if !tc.noRecord {
						opts.Record = phase.NewDocumentRecord[MyPhase](e.doc, "memory")
					}
					return newApplier(t, e.object, opts)
				}
				e.a = e.apply("a")
				state := load(e, e.a)
				e.object.mode = tc.mode
				if _, err := e.a.Advance(t.Context(), state, phase.Tally{}); err == nil || len(seen) > 0 {
					t.Fatalf("Advance with its answer lost = %v, observed %v", err, seen)
				}
				e.object.mode, e.object.dark = "", false
				tc.then(e)
				if !slices.Equal(seen, tc.want) {
					t.Errorf("observed %v, want %v: %s", seen, tc.want, tc.reason)
				}
			})
		})
	}
}

// P7: an Apply that waits for its next try is overtaken by a Load of the same Applier, which writes the recorded change:
// both find it done, one is told.
func TestLoadOvertakesApply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.object = phase.NewMemory(phase.State[MyPhase]{Phase: phase.Finalizing})
		lost := 0
		w.fault = func(_ int, what string) fault {
			if what == "object Completed" && lost == 0 {
				lost++
				return lostBefore
			}
			return pass
		}
		p := w.start(t, options{owner: "a"})
		state, err := p.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if next, err := p.Advance(t.Context(), state, phase.Tally{}); err != nil || next.Phase != phase.Completed {
				t.Errorf("Advance = %+v, %v", next, err)
			}
		})
		synctest.Wait() // it waits for the next try
		next, err := p.Load(t.Context())
		wg.Wait()
		if err != nil || next.Phase != phase.Completed || lost != 1 {
			t.Errorf("Load = %+v, %v after %d lost writes", next, err, lost)
		}
		if w.ended != 1 {
			t.Errorf("the end was observed %d times, want once", w.ended)
		}
	})
}
