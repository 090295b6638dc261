package phase_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/phase"
)

// depot is a document in a store that may be full, or dead.
type depot struct {
	paper
	full, dead error
	tries      int // to save, since it is full or dead
}

func (d *depot) Load(ctx context.Context) ([]byte, error) {
	if d.dead != nil {
		return nil, d.dead
	}
	return d.paper.Load(ctx)
}

func (d *depot) Save(ctx context.Context, data []byte) error {
	if err := errors.Join(d.full, d.dead); err != nil {
		d.tries++
		return err
	}
	return d.paper.Save(ctx, data)
}

// forgetful is an object that does not keep when its phase began, as Velero's.
type forgetful struct{ *phase.Memory[MyPhase] }

func (o forgetful) Get(ctx context.Context) (phase.State[MyPhase], error) {
	state, err := o.Memory.Get(ctx)
	state.Finalizing, state.Entered, state.Changed = time.Time{}, time.Time{}, time.Time{}
	return state, err
}

func (o forgetful) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	next, err := o.Memory.Update(ctx, old, c)
	next.Finalizing, next.Entered, next.Changed = time.Time{}, time.Time{}, time.Time{}
	return next, err
}

// bench is work that has reached finalizing, and its processes.
type bench struct {
	*testing.T
	doc    *depot
	object *phase.Memory[MyPhase]
	forget bool
	max    time.Duration
	limits phase.Deadlines[MyPhase]
	ended  []MyPhase // what hooks saw
}

func (b *bench) process() *phase.Applier[MyPhase] {
	b.Helper()
	var object phase.Object[MyPhase] = b.object
	if b.forget {
		object = forgetful{b.object}
	}
	opts := phase.ApplierOptions[MyPhase]{
		Record: phase.NewDocumentRecord[MyPhase](b.doc, "memory"), MaxFinalize: b.max, Owner: "a", Deadlines: b.limits,
		Hooks: phase.Hooks[MyPhase]{Transition: func(_ context.Context, c phase.Change[MyPhase]) {
			if c.Terminal {
				b.ended = append(b.ended, c.To)
			}
		}},
	}
	return newApplier(b.T, object, opts)
}

func newBench(t *testing.T, limit time.Duration, forget bool, tally phase.Tally) *bench {
	t.Helper()
	b := &bench{T: t, doc: &depot{}, object: phase.NewMemory(phase.State[MyPhase]{}), max: limit, forget: forget}
	a := b.process()
	state, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
		t.Fatal(err)
	}
	if state, err = a.Advance(t.Context(), state, tally); err != nil || !a.Machine().IsFinalizing(state.Phase) {
		t.Fatalf("Advance = %+v, %v, want finalizing", state, err)
	}
	return b
}

// P6, P7: fin-23: with a store that cannot be written, or not be reached at all, the last steps end by MaxFinalize: with a
// typed error and a terminal object that is no success. The bound counts over restarts and over later changes. When the
// store is back, the record follows.
func TestMaxFinalize(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		tally  phase.Tally // of the last steps
		start  phase.Tally
		cancel bool // recorded while finalizing, before the store dies
		dead   bool // nothing can be read
		forget bool
		passes bool // the store's errors are transient: each call tries for RetryFor
		late   bool // the record of the end arrives at last
		want   MyPhase
		says   string
	}{
		"would complete": {
			reason: "never Completed: nobody can read what was recorded", want: phase.PartiallyFailed, says: "Completed",
		},
		"would complete, store is dead": {
			reason: "the object keeps the start", dead: true, want: phase.PartiallyFailed, says: "Completed",
		},
		"would complete, as on Velero's fields": {
			reason: "the record keeps the start", forget: true, want: phase.PartiallyFailed, says: "Completed",
		},
		"would complete, and is recorded late": {
			reason: "the object is the truth", late: true, want: phase.PartiallyFailed, says: "Completed",
		},
		"would complete, store is busy": {
			reason: "the object has time of its own", passes: true, want: phase.PartiallyFailed, says: "Completed",
		},
		"had failures": {
			reason: "as without it", tally: phase.Tally{Errors: 1}, want: phase.PartiallyFailed, says: "ItemErrors: 1 errors",
		},
		"was fatal": {
			reason: "as without it", tally: phase.Tally{Fatal: true, Message: "disk"}, dead: true, want: phase.Failed, says: "FatalError: disk",
		},
		"was canceled": {
			reason: "the start is that of the first finalizing phase", cancel: true, want: phase.Failed, says: "Canceled: by alice",
		},
		"was canceled, as on Velero's fields": {
			reason: "the start is carried on in the record", cancel: true, forget: true, want: phase.Failed, says: "Canceled: by alice",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, time.Hour, tc.forget, tc.start)
				began := time.Now()
				time.Sleep(30 * time.Minute)
				if tc.cancel {
					a := b.process()
					state, err := a.Load(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if _, err = a.Apply(t.Context(), state, phase.EventCancel, "by alice"); err != nil {
						t.Fatal(err)
					}
				}
				full := errors.New("507 insufficient storage")
				b.doc.full = full
				if tc.passes {
					b.doc.full = phase.Transient(full)
				}
				if tc.dead {
					b.doc.dead = full
				}
				before, _ := b.object.Get(t.Context())
				steps := 0
				for {
					a := b.process() // a restart before every step
					state, err := a.Load(t.Context())
					if tc.dead != (err != nil) {
						t.Fatalf("Load = %+v, %v, store dead: %v", state, err, tc.dead)
					}
					called := time.Now()
					next, err := a.Advance(t.Context(), state, tc.tally)
					if age := called.Sub(began); age < time.Hour {
						now, _ := b.object.Get(t.Context())
						if !errors.Is(err, full) || errors.Is(err, phase.ErrStoreUnavailable) || now != before {
							t.Fatalf("after %v: Advance = %v, object %+v, want the store's error and no change", age, err, now)
						}
						steps++
						time.Sleep(5 * time.Minute)
						continue
					}
					if !errors.Is(err, phase.ErrStoreUnavailable) || !errors.Is(err, full) {
						t.Errorf("Advance = %v, want ErrStoreUnavailable that wraps the store's error", err)
					}
					now, _ := b.object.Get(t.Context())
					if next.Phase != tc.want || now.Phase != tc.want || now.Reason != phase.ReasonStoreUnavailable ||
						now.Completed.IsZero() || !strings.Contains(now.Message, tc.says) || !strings.Contains(now.Message, "507") {
						t.Errorf("Advance = %+v, object %+v, want %q and a message with %q: %s", next, now, tc.want, tc.says, tc.reason)
					}
					break
				}
				if steps == 0 {
					t.Error("the end came at once")
				}
				b.doc.full, b.doc.dead = nil, nil
				if tc.late {
					end := phase.Change[MyPhase]{From: before.Phase, To: phase.Completed, Owner: "a", At: time.Now(), Terminal: true}
					if err := phase.NewDocumentRecord[MyPhase](b.doc, "memory").Save(t.Context(), end); err != nil {
						t.Fatal(err)
					}
				}
				state, err := b.process().Load(t.Context())
				if err != nil || state.Phase != tc.want || state.Reason != phase.ReasonStoreUnavailable {
					t.Errorf("Load when the store is back = %+v, %v", state, err)
				}
				c, _, err := phase.NewDocumentRecord[MyPhase](b.doc, "memory").Load(t.Context())
				if err != nil || c.To != tc.want || !c.Terminal || c.Reason != phase.ReasonStoreUnavailable {
					t.Errorf("the record is %+v, %v, want it to follow", c, err)
				}
				if diff := cmp.Diff([]MyPhase{tc.want}, b.ended); diff != "" {
					t.Errorf("observed ends (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// P6: what MaxFinalize does not end.
func TestMaxFinalizeKeepsAway(t *testing.T) {
	t.Parallel()
	full := errors.New("507 insufficient storage")
	tests := map[string]struct {
		reason string
		max    time.Duration
		forget bool
		change func(b *bench)
		want   error
	}{
		"off": {"the object is never ahead", 0, false, func(b *bench) { b.doc.full = full }, full},
		"nobody knows the start": {
			"no bound is better than a wrong one", time.Hour, true, func(b *bench) { b.doc.dead = full }, full,
		},
		"somebody else was first": {
			"the store lives, and so does the other", time.Hour, false, func(b *bench) {
				end := phase.Change[MyPhase]{From: phase.Finalizing, To: phase.Completed, Owner: "b", At: time.Now(), Terminal: true}
				if err := phase.NewDocumentRecord[MyPhase](b.doc, "memory").Save(b.Context(), end); err != nil {
					b.Fatal(err)
				}
			}, phase.ErrConflict,
		},
		"a newer release's record": {
			"it is not lost", time.Hour, false, func(b *bench) { b.doc.data = []byte(`{"version":9}`) }, phase.ErrInvalid,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tc.max, tc.forget, phase.Tally{})
				time.Sleep(2 * time.Hour)
				state, err := b.process().Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				tc.change(b)
				a := b.process()
				if tc.forget {
					state, _ = a.Load(t.Context())
				}
				_, err = a.Advance(t.Context(), state, phase.Tally{})
				now, _ := b.object.Get(t.Context())
				if !errors.Is(err, tc.want) || errors.Is(err, phase.ErrStoreUnavailable) || now.Phase != phase.Finalizing {
					t.Errorf("Advance = %v, object in %q, want %v and no end: %s", err, now.Phase, tc.want, tc.reason)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Hour, false, phase.Tally{})
		time.Sleep(2 * time.Hour)
		a := b.process()
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		b.doc.full = phase.Transient(full)
		time.AfterFunc(time.Second, cancel)
		if _, err = a.Advance(ctx, state, phase.Tally{}); !errors.Is(err, context.Canceled) || errors.Is(err, phase.ErrStoreUnavailable) {
			t.Errorf("Advance of a process that ends = %v, want no end of the work", err)
		}
		if now, _ := b.object.Get(t.Context()); now.Phase != phase.Finalizing {
			t.Errorf("the object is in %q", now.Phase)
		}
	})
}

// P6, P5: the process that cannot save is not the owner any more: the object's compare-and-swap stops it.
func TestMaxFinalizeLosesAgainstTheOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, time.Hour, false, phase.Tally{})
		time.Sleep(2 * time.Hour)
		a := b.process()
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		end := phase.Change[MyPhase]{From: phase.Finalizing, To: phase.Completed, Owner: "b", At: time.Now(), Terminal: true}
		if _, err := b.object.Update(t.Context(), state, end); err != nil {
			t.Fatal(err)
		}
		b.doc.dead = errors.New("no route")
		_, err = a.Advance(t.Context(), state, phase.Tally{})
		if conflict, ok := errors.AsType[*phase.ConflictError](err); !ok || conflict.Owner != "b" || !errors.Is(err, b.doc.dead) {
			t.Errorf("Advance = %v, want the store's error and a ConflictError that names b", err)
		}
		if now, _ := b.object.Get(t.Context()); now.Phase != phase.Completed {
			t.Errorf("the object is in %q", now.Phase)
		}
	})
}

// X8: a record of an earlier release has no start of finalizing; it counts from its last change.
func TestMaxFinalizeWithAnEarlierRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 0, true, phase.Tally{})
		if strings.Contains(string(b.doc.data), `"finalizing"`) {
			t.Errorf("without MaxFinalize the record is %s", b.doc.data)
		}
		began := time.Now()
		b.max, b.doc.full = time.Hour, errors.New("507")
		time.Sleep(2 * time.Hour)
		a := b.process()
		state, err := a.Load(t.Context())
		if err != nil || !state.Finalizing.Equal(began) {
			t.Fatalf("Load = %+v, %v, want finalizing since %v", state, err, began)
		}
		if state, err = a.Advance(t.Context(), state, phase.Tally{}); !errors.Is(err, phase.ErrStoreUnavailable) || state.Phase != phase.PartiallyFailed {
			t.Errorf("Advance = %+v, %v", state, err)
		}
	})
}
