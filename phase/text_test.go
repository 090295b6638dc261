package phase_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// P5, P6: a record whose answer is lost is recognised as ours, wherever a text that is not UTF-8 came from.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	const bad = "driver says \xff\xfe, twice \xff"
	tests := map[string]struct {
		object phase.State[MyPhase]
		apply  func(ctx context.Context, a *phase.Applier[MyPhase], s phase.State[MyPhase]) (phase.State[MyPhase], error)
	}{
		"the reason of an event": {
			phase.State[MyPhase]{Phase: phase.InProgress},
			func(ctx context.Context, a *phase.Applier[MyPhase], s phase.State[MyPhase]) (phase.State[MyPhase], error) {
				return a.Apply(ctx, s, phase.EventFinalizePartiallyFailed, bad)
			},
		},
		"the message of a tally": {
			phase.State[MyPhase]{Phase: phase.InProgress},
			func(ctx context.Context, a *phase.Applier[MyPhase], s phase.State[MyPhase]) (phase.State[MyPhase], error) {
				return a.Advance(ctx, s, phase.Tally{Fatal: true, Message: bad})
			},
		},
		"a reason that is long": {
			phase.State[MyPhase]{Phase: phase.InProgress},
			func(ctx context.Context, a *phase.Applier[MyPhase], s phase.State[MyPhase]) (phase.State[MyPhase], error) {
				return a.Apply(ctx, s, phase.EventFatal, strings.Repeat(bad, 1000))
			},
		},
		"the object": {
			phase.State[MyPhase]{Phase: phase.FinalizingPartiallyFailed, Reason: "Odd\xff", Message: bad, Owner: "o\xff"},
			func(ctx context.Context, a *phase.Applier[MyPhase], s phase.State[MyPhase]) (phase.State[MyPhase], error) {
				return a.Advance(ctx, s, phase.Tally{})
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				doc := &paper{save: []error{errors.New("connection reset")}, lost: true}
				object := phase.NewMemory(tc.object)
				a := newApplier(t, object, phase.ApplierOptions[MyPhase]{Record: phase.NewDocumentRecord[MyPhase](doc, "memory")})
				state, err := a.Load(t.Context())
				if err != nil {
					t.Fatalf("Load with the answer of the record lost: %v", err)
				}
				doc.save = []error{errors.New("connection reset")}
				next, err := tc.apply(t.Context(), a, state)
				if err != nil || next.Phase == state.Phase || strings.Contains(next.Message, "\xff") || len(next.Message) > 4096 {
					t.Fatalf("with the answer of the record lost: %+v, %v", next, err)
				}
				if again, err := a.Load(t.Context()); err != nil || again != next {
					t.Errorf("Load = %+v, %v, want %+v", again, err, next)
				}
			})
		})
	}
}

// X8: a record that could not be read, or not as it is, is never written.
func TestRecordIsReadableOrRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		change func(*phase.Change[MyPhase])
	}{
		"no time":                {"a clock that is not set", func(c *phase.Change[MyPhase]) { c.At = time.Time{} }},
		"no target":              {"it says nothing", func(c *phase.Change[MyPhase]) { c.To = "" }},
		"no source":              {"it says nothing", func(c *phase.Change[MyPhase]) { c.From = "" }},
		"phase that is no text":  {"it would be read as another phase", func(c *phase.Change[MyPhase]) { c.To = "\xff" }},
		"event that is no text":  {"it would be read as another event", func(c *phase.Change[MyPhase]) { c.Event = "\xff" }},
		"year that is too large": {"JSON has no such time", func(c *phase.Change[MyPhase]) { c.At = someTime.AddDate(9000, 0, 0) }},
		"huge":                   {"it is not read", func(c *phase.Change[MyPhase]) { c.Message = strings.Repeat("x", 1<<20) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := &paper{}
			rec := phase.NewDocumentRecord[MyPhase](doc, "uid-1")
			c := someChange()
			tc.change(&c)
			if err := rec.Save(t.Context(), c); !errors.Is(err, phase.ErrInvalid) || doc.saves != 0 {
				t.Errorf("Save = %v after %d writes, want ErrInvalid and none: %s", err, doc.saves, tc.reason)
			}
			if err := rec.Save(t.Context(), someChange()); err != nil {
				t.Errorf("Save of a good change after that: %v", err)
			}
		})
	}
}

// A UID that is not UTF-8 would make every record a foreign one.
func TestUIDThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	doc := &paper{}
	if err := phase.NewDocumentRecord[MyPhase](doc, "uid-\xff").Save(t.Context(), phase.Change[MyPhase]{}); !errors.Is(err, phase.ErrInvalid) || doc.saves != 0 {
		t.Errorf("Save = %v after %d writes, want ErrInvalid and none", err, doc.saves)
	}
}

// A clock that returns the zero time is refused before anything is written, and the work goes on when it is right.
func TestClockReturnsZero(t *testing.T) {
	t.Parallel()
	now := time.Time{}
	doc := &paper{}
	object := phase.NewMemory(phase.State[MyPhase]{})
	a := newApplier(t, object, phase.ApplierOptions[MyPhase]{
		Clock: func() time.Time { return now }, Record: phase.NewDocumentRecord[MyPhase](doc, "memory"),
	})
	state, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Apply(t.Context(), state, phase.EventStart, "")
	if !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), "Clock") || doc.saves != 0 || len(object.Changes()) != 0 {
		t.Errorf("Apply = %v after %d saves, want ErrInvalid that names Clock, and no write", err, doc.saves)
	}
	now = someTime
	if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil || !state.Started.Equal(someTime) {
		t.Errorf("Apply with the right time = %+v, %v", state, err)
	}
	// Load needs the time too, to record what the object says of itself.
	doc.data, doc.saves, now = nil, 0, time.Time{}
	if _, err = a.Load(t.Context()); !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), "Clock") || doc.saves != 0 {
		t.Errorf("Load = %v after %d saves, want ErrInvalid that names Clock", err, doc.saves)
	}
}
