package phase_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// P6, P3: phase-17, fin-23: the store is full or dead and nothing that the last steps do succeeds, so that a reconciler
// never comes to its Advance: by Load alone the object ends in time, never as a success, with few writes to the store. When
// that is back the record follows, once.
func TestLoadEndsFinalizingWithoutTheStore(t *testing.T) {
	t.Parallel()
	full, dead := errors.New("507 insufficient storage"), errors.New("connection refused")
	tests := map[string]struct {
		reason     string
		full, dead error
		start      phase.Tally
		limits     phase.Deadlines[MyPhase]
		forget     bool
		end        MyPhase
		after      time.Duration
		stuck      bool // for good: nothing says since when
	}{
		"full": {
			reason: "it cannot be written", full: full, end: phase.Failed, after: 2 * time.Hour,
			limits: phase.Deadlines[MyPhase]{Phase: map[MyPhase]time.Duration{phase.Finalizing: 2 * time.Hour}},
		},
		"full, after a fatal error": {
			reason: "Grace is the limit", full: full, start: phase.Tally{Fatal: true}, end: phase.Failed, after: 90 * time.Minute,
			limits: phase.Deadlines[MyPhase]{Grace: 90 * time.Minute},
		},
		"full, as on Velero's fields": {
			reason: "the record says since when", full: full, forget: true, end: phase.Failed, after: 2 * time.Hour,
			limits: phase.Deadlines[MyPhase]{Other: 2 * time.Hour},
		},
		"dead": {
			reason: "it cannot be read either, the object says since when", dead: dead, end: phase.Failed, after: 2 * time.Hour,
			limits: phase.Deadlines[MyPhase]{Other: 2 * time.Hour},
		},
		"dead, as on Velero's fields": {
			reason: "nobody can say since when", dead: dead, forget: true, stuck: true,
			limits: phase.Deadlines[MyPhase]{Other: 2 * time.Hour},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, time.Hour, tc.forget, tc.start)
				began := time.Now()
				b.doc.full, b.doc.dead, b.doc.saves, b.limits = tc.full, tc.dead, 0, tc.limits
				var state phase.State[MyPhase]
				var err error
				for range 400 { // hours of a reconciler that is called each minute; half an hour in each process
					state, err = b.process().Load(t.Context())
					if phase.Backup[MyPhase]().IsTerminal(state.Phase) {
						break
					}
					if b.doc.dead != nil && err == nil {
						t.Fatal("Load without a record succeeds")
					}
					time.Sleep(time.Minute)
				}
				if tc.stuck {
					if state.Phase != phase.Finalizing || !errors.Is(err, dead) {
						t.Errorf("Load = %+v, %v, want Finalizing and the error", state, err)
					}
					return
				}
				if state.Phase != tc.end || state.Reason != phase.ReasonStoreUnavailable || state.Completed.IsZero() || !errors.Is(err, phase.ErrStoreUnavailable) {
					t.Fatalf("Load = %+v, %v, want %q, StoreUnavailable: %s", state, err, tc.end, tc.reason)
				}
				if took := time.Since(began); took < tc.after || took > tc.after+5*time.Minute {
					t.Errorf("it took %v, want %v", took, tc.after)
				}
				if b.doc.tries > 2 {
					t.Errorf("%d writes to the store, want at most two", b.doc.tries)
				}
				if len(b.ended) != 1 || b.ended[0] != tc.end {
					t.Errorf("the hooks saw %v end", b.ended)
				}
				b.doc.full, b.doc.dead = nil, nil
				for range 2 {
					if state, err = b.process().Load(t.Context()); err != nil || state.Phase != tc.end {
						t.Fatalf("Load when the store is back = %+v, %v", state, err)
					}
				}
				c, ok, err := phase.NewDocumentRecord[MyPhase](b.doc, "memory").Load(t.Context())
				if err != nil || !ok || c.To != tc.end || c.Reason != phase.ReasonStoreUnavailable || b.doc.saves != 1 {
					t.Errorf("the record is %+v, %v, %v after %d writes, want the object's end in one", c, ok, err, b.doc.saves)
				}
			})
		})
	}
}

// P6: phase-16: a store that answers 409 because the object is immutable is asked once, not for ever: if what is there is
// what was to be written that is success, and else the error is final.
func TestImmutableStore(t *testing.T) {
	t.Parallel()
	immutable := errors.New("409 object is immutable")
	for _, written := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			doc := &paper{save: repeat(immutable, 100), lost: written}
			memory := phase.NewMemory(phase.State[MyPhase]{Phase: phase.Finalizing})
			a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{Record: phase.NewDocumentRecord[MyPhase](doc, "memory")})
			began := time.Now()
			state, err := a.Apply(t.Context(), phase.State[MyPhase]{Phase: phase.Finalizing, UID: "memory"}, phase.EventCompleted, "")
			if written && (err != nil || state.Phase != phase.Completed) {
				t.Errorf("Apply = %+v, %v, want the end: it is written", state, err)
			}
			if !written && (!errors.Is(err, immutable) || phase.IsTransient(err) || len(memory.Changes()) != 0) {
				t.Errorf("Apply = %+v, %v, want the final error and the object untouched", state, err)
			}
			if doc.saves != 1 || time.Since(began) != 0 {
				t.Errorf("%d writes in %v, want one at once", doc.saves, time.Since(began))
			}
		})
	}
}

// phase-19: one transient error while an object or a record is read or written ends nothing: the work goes on as without it.
func TestTransientErrorsEndNothing(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"429": phase.TransientAfter(errors.New("too many requests"), time.Second), "500": phase.Transient(errors.New("internal error")),
		"no answer": phase.ErrUnknownOutcome, "one 403": phase.ErrForbidden, "one 404": phase.ErrNotFound,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				object, doc := newScripted(), &paper{}
				a := newApplier(t, object, phase.ApplierOptions[MyPhase]{Record: phase.NewDocumentRecord[MyPhase](doc, "memory")})
				steps := 0
				for state := (phase.State[MyPhase]{}); state.Phase != phase.Completed; steps++ {
					object.get, object.update = []error{err}, []error{err}
					doc.load, doc.save = []error{err}, []error{err}
					var failed error
					if state, failed = a.Load(t.Context()); failed != nil {
						t.Fatalf("Load: %v", failed)
					}
					if state.Phase == phase.New {
						state, failed = a.Apply(t.Context(), state, phase.EventStart, "")
					} else {
						state, failed = a.Advance(t.Context(), state, phase.Tally{Completed: 1})
					}
					if failed != nil || steps > 3 {
						t.Fatalf("step %d in %q: %v", steps, state.Phase, failed)
					}
				}
				if c, ok, err := phase.NewDocumentRecord[MyPhase](&paper{data: doc.data}, "memory").Load(t.Context()); err != nil || !ok || c.To != phase.Completed {
					t.Errorf("record %+v, %v", c, err)
				}
			})
		})
	}
}

// P2, P7: phase-27: no failure is recorded without its cause, and a failing end is reached only from a phase in which
// nothing was processed or where everything was finalized: a wait that has a reason is another phase than a failed one.
func TestFailuresHaveACause(t *testing.T) {
	t.Parallel()
	for name, m := range readyMade(t) {
		for _, tr := range m.Transitions() {
			if m.IsTerminal(tr.To) && m.Class(tr.From) != phase.ClassReady && m.Class(tr.From) != phase.ClassFinalizing {
				t.Errorf("%s: %q leads straight to %q", name, tr.From, tr.To)
			}
			if !m.IsFailing(tr.To) {
				continue
			}
			a, err := phase.NewApplier(m, phase.NewMemory(phase.State[MyPhase]{Phase: tr.From}), phase.ApplierOptions[MyPhase]{})
			if err != nil {
				t.Fatal(err)
			}
			state, err := a.Apply(t.Context(), phase.State[MyPhase]{Phase: tr.From, UID: "memory"}, tr.Event, "")
			if err != nil || state.Phase != tr.To || state.Reason == "" {
				t.Errorf("%s: %q by %q = %+v, %v, want a reason", name, tr.From, tr.Event, state, err)
			}
		}
	}
}

// newer is the record of a newer release, in a store that cannot be written.
type newer struct{}

func (newer) Load(context.Context) (phase.Change[MyPhase], bool, error) {
	return phase.Change[MyPhase]{From: phase.Finalizing, To: "Sealing", At: someTime}, true, nil
}
func (newer) Save(context.Context, phase.Change[MyPhase]) error { return errBroken }

// P6, X8: work of a newer release is not ended for a store that fails: its record says that it is somebody else's.
func TestNewerWorkIsNotEnded(t *testing.T) {
	t.Parallel()
	memory := phase.NewMemory(phase.State[MyPhase]{Phase: phase.Finalizing, Owner: "me", Entered: someTime, Finalizing: someTime})
	a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{
		Record: newer{}, Owner: "me", MaxFinalize: time.Hour, Deadlines: phase.Deadlines[MyPhase]{Other: time.Hour},
		Clock: func() time.Time { return someTime.Add(9 * time.Hour) },
	})
	if state, err := a.Load(t.Context()); !errors.Is(err, phase.ErrUnknownPhase) || state.Phase != phase.Finalizing {
		t.Errorf("Load = %+v, %v, want ErrUnknownPhase", state, err)
	}
	if r, err := a.Recover(t.Context(), leases{}); !errors.Is(err, phase.ErrUnknownPhase) || r.Mine {
		t.Errorf("Recover = %+v, %v, want ErrUnknownPhase", r, err)
	}
	if len(memory.Changes()) != 0 {
		t.Errorf("the object was written: %+v", memory.Changes())
	}
}

// P5: an object that keeps no owner is not taken for one that somebody else has changed.
func TestAnswerLostOnANamelessObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := phase.NewMemory(phase.State[MyPhase]{})
		object := &lossy{nameless: nameless{memory}}
		a := newApplier(t, object, phase.ApplierOptions[MyPhase]{Record: phase.NewDocumentRecord[MyPhase](&paper{}, "memory"), Owner: "me"})
		state, err := a.Apply(t.Context(), phase.State[MyPhase]{UID: "memory"}, phase.EventStart, "")
		if err != nil || state.Owner != "me" {
			t.Fatalf("Apply = %+v, %v", state, err)
		}
		object.lose = true
		if state, err = a.Advance(t.Context(), state, phase.Tally{Completed: 1}); err != nil || state.Phase != phase.Finalizing || object.lose {
			t.Errorf("Advance with a lost request = %+v, %v, want Finalizing", state, err)
		}
	})
}

// lossy loses the next request to write.
type lossy struct {
	nameless

	lose bool
}

func (o *lossy) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	if o.lose {
		o.lose = false
		return phase.State[MyPhase]{}, phase.ErrUnknownOutcome
	}
	return o.nameless.Update(ctx, old, c)
}
