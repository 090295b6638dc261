package phase_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/phase"
)

// scripted is an object whose next answers are given; then it is a Memory.
type scripted struct {
	*phase.Memory[MyPhase]
	get, update []error // nil: the Memory answers
	gets, puts  int
	panics      string // "get" or "update"
}

func (o *scripted) Get(ctx context.Context) (phase.State[MyPhase], error) {
	o.gets++
	if o.panics == "get" {
		panic("boom")
	}
	if err := pop(&o.get); err != nil {
		return phase.State[MyPhase]{}, err
	}
	return o.Memory.Get(ctx)
}

func (o *scripted) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	o.puts++
	if o.panics == "update" {
		panic("boom")
	}
	if err := pop(&o.update); err != nil {
		return phase.State[MyPhase]{}, err
	}
	return o.Memory.Update(ctx, old, c)
}

func pop(errs *[]error) error {
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}

func newScripted() *scripted {
	return &scripted{Memory: phase.NewMemory(phase.State[MyPhase]{})}
}

func newApplier(t *testing.T, object phase.Object[MyPhase], opts phase.ApplierOptions[MyPhase]) *phase.Applier[MyPhase] {
	t.Helper()
	a, err := phase.NewApplier(phase.Backup[MyPhase](), object, opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// P5: phase-2, phase-3: which errors are retried, for how long, and what comes out.
func TestApplyRetries(t *testing.T) {
	t.Parallel()
	unavailable := errors.New("503")
	forbidden := fmt.Errorf("%w: rbac", phase.ErrForbidden)
	lost := fmt.Errorf("%w: reset", phase.ErrUnknownOutcome)
	tests := map[string]struct {
		reason   string
		update   []error
		get      []error
		retryFor time.Duration
		want     error // nil: success
		puts     int   // 0: not checked
		least    time.Duration
		most     time.Duration
	}{
		"no trouble":           {reason: "one write", puts: 1},
		"transient, ten times": {reason: "the write gets through inside the budget", update: repeat(phase.Transient(unavailable), 10), puts: 11, least: time.Second, most: time.Minute},
		"transient for ever": {
			reason: "the budget is a wall-clock bound", update: repeat(phase.Transient(unavailable), 9999),
			want: phase.ErrGaveUp, least: time.Minute, most: time.Minute,
		},
		"transient for ever, short budget": {
			reason: "the budget is the caller's", update: repeat(phase.Transient(unavailable), 9999), retryFor: 3 * time.Second,
			want: phase.ErrGaveUp, least: 3 * time.Second, most: 3 * time.Second,
		},
		"retry-after is honoured": {
			reason: "the server knows best", update: []error{phase.TransientAfter(unavailable, 20*time.Second)},
			puts: 2, least: 20 * time.Second, most: 21 * time.Second,
		},
		"final error": {reason: "nothing is tried again", update: []error{errBroken}, want: errBroken, puts: 1},
		"invalid": {
			reason: "phase-4: the resource does not know the phase", update: []error{fmt.Errorf("%w: enum", phase.ErrInvalid)},
			want: phase.ErrInvalid, puts: 1,
		},
		"namespace terminating": {reason: "it will not come back", update: []error{phase.ErrNamespaceTerminating}, want: phase.ErrNamespaceTerminating, puts: 1},
		"quota exceeded":        {reason: "a type of its own", update: []error{phase.ErrQuotaExceeded}, want: phase.ErrQuotaExceeded, puts: 1},
		"forbidden once": {
			reason: "a restarted API server answers so while its RBAC cache is empty", update: []error{forbidden},
			puts: 2, least: 2 * time.Second, most: 3 * time.Second,
		},
		"forbidden twice": {
			reason: "repeated two seconds later it is believed", update: repeat(forbidden, 2),
			want: phase.ErrForbidden, puts: 2, least: 2 * time.Second, most: 3 * time.Second,
		},
		"not found twice": {
			reason: "the object was deleted", update: repeat(phase.ErrNotFound, 2),
			want: phase.ErrNotFound, puts: 2, least: 2 * time.Second, most: 3 * time.Second,
		},
		"missing API twice": {
			reason: "the resource is not served", update: repeat(phase.ErrMissingAPI, 2),
			want: phase.ErrMissingAPI, puts: 2, least: 2 * time.Second, most: 3 * time.Second,
		},
		"no answer, then it works": {
			reason: "the object is read before the write is tried again", update: []error{lost}, puts: 2, most: time.Second,
		},
		"no answer and the read fails for a while": {
			reason: "reads are retried too", update: []error{lost}, get: repeat(phase.Transient(unavailable), 3), puts: 2, most: 10 * time.Second,
		},
		"no answer and no read": {
			reason: "whether the write was done stays unknown", update: []error{lost}, get: repeat(phase.Transient(unavailable), 9999),
			want: phase.ErrUnknownOutcome, puts: 1, least: time.Minute, most: time.Minute,
		},
		"no answer for ever": {
			reason: "the budget bounds it", update: repeat(lost, 9999), want: phase.ErrUnknownOutcome, least: time.Minute, most: time.Minute,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				object := newScripted()
				object.update, object.get = tc.update, tc.get
				a := newApplier(t, object, phase.ApplierOptions[MyPhase]{RetryFor: tc.retryFor})
				began := time.Now()
				state, err := a.Apply(t.Context(), phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "")
				took := time.Since(began)
				if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
					t.Fatalf("Apply = %v, want %v: %s", err, tc.want, tc.reason)
				}
				if err == nil && state.Phase != phase.InProgress || err != nil && state.Phase != phase.New {
					t.Errorf("Apply returns phase %q with %v", state.Phase, err)
				}
				if took < tc.least || took > tc.most {
					t.Errorf("Apply took %v, want %v to %v: %s", took, tc.least, tc.most, tc.reason)
				}
				if tc.puts > 0 && object.puts != tc.puts {
					t.Errorf("%d writes, want %d: %s", object.puts, tc.puts, tc.reason)
				}
				if n := len(object.Changes()); (err == nil) != (n == 1) {
					t.Errorf("%d changes, with error %v", n, err)
				}
			})
		})
	}
}

// P5: a refusal is final only when repeated; one the budget cut short may be tried again later.
func TestUnconfirmedRefusalIsTransient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		object := newScripted()
		object.get = repeat(phase.ErrForbidden, 9)
		a := newApplier(t, object, phase.ApplierOptions[MyPhase]{RetryFor: time.Second})
		_, err := a.Load(t.Context())
		if !phase.IsTransient(err) || !errors.Is(err, phase.ErrForbidden) || !errors.Is(err, phase.ErrGaveUp) {
			t.Errorf("Load = %v, want a transient ErrForbidden", err)
		}
		a = newApplier(t, object, phase.ApplierOptions[MyPhase]{})
		if _, err = a.Load(t.Context()); phase.IsTransient(err) || !errors.Is(err, phase.ErrForbidden) {
			t.Errorf("Load = %v, want a final ErrForbidden", err)
		}
	})
}

// P7: phase-18: the times are stamped, also on the ways that skip processing.
func TestTimesAreStamped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newApplier(t, newScripted(), phase.ApplierOptions[MyPhase]{Owner: "a"})
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now().UTC()
		apply := func(ev phase.Event) {
			t.Helper()
			if state, err = a.Apply(t.Context(), state, ev, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		apply(phase.EventStart)
		apply(phase.EventFinalize)
		if !state.Started.Equal(began) || !state.Completed.IsZero() {
			t.Errorf("in %q: started %v, completed %v, want %v and none", state.Phase, state.Started, state.Completed, began)
		}
		apply(phase.EventCompleted)
		if end := began.Add(2 * time.Minute); !state.Started.Equal(began) || !state.Completed.Equal(end) {
			t.Errorf("in %q: started %v, completed %v, want %v and %v", state.Phase, state.Started, state.Completed, began, end)
		}
	})
	fixed := time.Date(2031, 5, 1, 12, 0, 0, 5, time.FixedZone("x", 3600))
	a := newApplier(t, newScripted(), phase.ApplierOptions[MyPhase]{Clock: func() time.Time { return fixed }})
	state, err := a.Apply(t.Context(), phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventInvalid, "no name")
	if err != nil || !state.Started.IsZero() || !state.Completed.Equal(fixed) || state.Completed.Location() != time.UTC {
		t.Errorf("refused work = %+v, %v, want no start and the clock's time in UTC", state, err)
	}
}

// P8: a transition is observed with old and new phase, event, reason and time.
func TestTransitionIsObserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []phase.Change[MyPhase]
		object := newScripted()
		a := newApplier(t, object, phase.ApplierOptions[MyPhase]{Owner: "replica-1", Hooks: phase.Hooks[MyPhase]{
			Transition: func(_ context.Context, c phase.Change[MyPhase]) { seen = append(seen, c) },
		}})
		state, err := a.Apply(t.Context(), phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "Scheduled: nightly")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = a.Apply(t.Context(), state, phase.EventCompleted, ""); !errors.Is(err, phase.ErrIllegalTransition) {
			t.Fatalf("Apply of an illegal event = %v", err)
		}
		want := []phase.Change[MyPhase]{{
			From: "New", To: "InProgress", Event: "Start", UID: "memory", Reason: "Scheduled", Message: "nightly", Owner: "replica-1",
			At: time.Now().UTC(), Started: time.Now().UTC(), Entered: time.Now().UTC(), Changed: time.Now().UTC(), Class: phase.ClassWorking,
		}}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("observed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, object.Changes()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// X1: no panic crosses the API; one in a hook does not undo what happened.
func TestPanics(t *testing.T) {
	t.Parallel()
	object := newScripted()
	var logged strings.Builder
	log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
	ctx := logr.NewContext(t.Context(), log)
	a := newApplier(t, object, phase.ApplierOptions[MyPhase]{Hooks: phase.Hooks[MyPhase]{
		Transition: func(context.Context, phase.Change[MyPhase]) { panic("hook") },
	}})
	state, err := a.Apply(ctx, phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "")
	if err != nil || state.Phase != phase.InProgress {
		t.Errorf("Apply with a hook that panics = %+v, %v", state, err)
	}
	if !strings.Contains(logged.String(), "phase hook panicked") {
		t.Errorf("logged %q, want the panic", logged.String())
	}
	object.panics = "update"
	if _, err := a.Apply(ctx, state, phase.EventFinalize, ""); !errors.Is(err, phase.ErrPanic) || !errors.Is(err, phase.ErrUnknownOutcome) {
		t.Errorf("Apply with an object that panics = %v, want ErrPanic of unknown outcome", err)
	}
	if _, err := a.Advance(ctx, state, phase.Tally{}); !errors.Is(err, phase.ErrPanic) {
		t.Errorf("Advance with an object that panics = %v, want ErrPanic", err)
	}
	object.panics = "get"
	if _, err := a.Load(ctx); !errors.Is(err, phase.ErrPanic) {
		t.Errorf("Load with an object that panics = %v, want ErrPanic", err)
	}
}

// X8, X1: a phase that this release does not know is an error, not a guess.
func TestUnknownPhaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	object := phase.NewMemory(phase.State[MyPhase]{Phase: "Paused"})
	a := newApplier(t, object, phase.ApplierOptions[MyPhase]{})
	state, err := a.Load(t.Context())
	if !errors.Is(err, phase.ErrUnknownPhase) || !strings.Contains(err.Error(), "Paused") {
		t.Errorf("Load = %v, want ErrUnknownPhase that names it", err)
	}
	if _, err := a.Apply(t.Context(), state, phase.EventStart, ""); !errors.Is(err, phase.ErrUnknownPhase) {
		t.Errorf("Apply = %v, want ErrUnknownPhase", err)
	}
	if _, err := a.Advance(t.Context(), state, phase.Tally{}); !errors.Is(err, phase.ErrUnknownPhase) {
		t.Errorf("Advance = %v, want ErrUnknownPhase", err)
	}
	if n := len(object.Changes()); n != 0 {
		t.Errorf("%d changes, want none", n)
	}
}

func TestNewApplierRefuses(t *testing.T) {
	t.Parallel()
	_, err := phase.NewApplier(nil, nil, phase.ApplierOptions[MyPhase]{
		RetryFor: -time.Second, MaxFinalize: -time.Hour, Owner: "a\xff", Record: phase.NewDocumentRecord[MyPhase](nil, ""),
	})
	if !errors.Is(err, phase.ErrInvalid) {
		t.Fatalf("NewApplier = %v, want ErrInvalid", err)
	}
	for _, part := range []string{"machine", "object", "RetryFor", "MaxFinalize", "Owner", "Record", "document", "uid"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("NewApplier = %v, want it to name %s", err, part)
		}
	}
}

// P1: a machine that nobody made has no table.
func TestZeroMachineIsRefused(t *testing.T) {
	t.Parallel()
	_, err := phase.NewApplier(new(phase.Machine[MyPhase]), phase.NewMemory(phase.State[MyPhase]{}), phase.ApplierOptions[MyPhase]{
		Deadlines: phase.Deadlines[MyPhase]{Phase: map[MyPhase]time.Duration{phase.New: time.Hour}},
	})
	if !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), "machine") {
		t.Errorf("NewApplier = %v, want ErrInvalid that names the machine", err)
	}
}

// P3, P7, phase-23: a cancel is one-way and idempotent: told again it writes nothing, later counts cannot take it back,
// and a weaker reason does not replace it.
func TestReasonsStay(t *testing.T) {
	t.Parallel()
	object := newScripted()
	a := newApplier(t, object, phase.ApplierOptions[MyPhase]{})
	state, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	step := func(what string, next phase.State[MyPhase], err error, at MyPhase, reason, message string, changes int) {
		t.Helper()
		if err != nil || next.Phase != at || next.Reason != reason || next.Message != message || len(object.Changes()) != changes {
			t.Fatalf("%s = %+v, %v after %d changes, want %q, %q, %q after %d",
				what, next, err, len(object.Changes()), at, reason, message, changes)
		}
		state = next
	}
	ctx := t.Context()
	next, err := a.Apply(ctx, state, phase.EventStart, "Canceled: a word that only a cancel may use")
	step("start", next, err, "InProgress", "", "Canceled: a word that only a cancel may use", 1)
	const waiting = phase.WaitingForPluginOperationsPartiallyFailed
	next, err = a.Advance(ctx, state, phase.Tally{Running: 2, Failed: 1})
	step("a failure", next, err, waiting, "OperationsFailed", "of 3 operations 1 failed", 2)
	next, err = a.Advance(ctx, state, phase.Tally{Running: 2, Failed: 1})
	step("the same counts", next, err, waiting, "OperationsFailed", "of 3 operations 1 failed", 2)
	next, err = a.Advance(ctx, state, phase.Tally{Running: 2, Fatal: true, Message: "disk"})
	step("a fatal error while waiting", next, err, waiting, "FatalError", "disk", 3)
	next, err = a.Advance(ctx, state, phase.Tally{Running: 2, Cancel: true, Message: "by alice"})
	step("a cancel while waiting", next, err, waiting, "Canceled", "by alice", 4)
	next, err = a.Advance(ctx, state, phase.Tally{Running: 2, Cancel: true, Message: "by bob"})
	step("a second cancel by counts", next, err, waiting, "Canceled", "by alice", 4)
	next, err = a.Apply(ctx, state, phase.EventCancel, "by alice")
	step("the same cancel", next, err, waiting, "Canceled", "by alice", 4)
	next, err = a.Apply(ctx, state, phase.EventFatal, "late")
	step("a fatal error after the cancel", next, err, waiting, "Canceled", "by alice", 4)
	next, err = a.Advance(ctx, state, phase.Tally{Completed: 3})
	step("clean counts", next, err, "FinalizingPartiallyFailed", "Canceled", "by alice", 5)
	next, err = a.Advance(ctx, state, phase.Tally{Running: 1})
	step("an operation runs while finalizing", next, err, "FinalizingPartiallyFailed", "Canceled", "by alice", 5)
	next, err = a.Advance(ctx, state, phase.Tally{Completed: 3})
	step("the end", next, err, "Failed", "Canceled", "by alice", 6)
	next, err = a.Advance(ctx, state, phase.Tally{Fatal: true})
	step("after the end", next, err, "Failed", "Canceled", "by alice", 6)
}

func TestReasonsByEvent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		event           phase.Event
		text            string
		reason, message string
	}{
		"cancel without a text":   {phase.EventCancel, "", "Canceled", ""},
		"cancel with its reason":  {phase.EventCancel, "Canceled: by alice", "Canceled", "by alice"},
		"cancel with another":     {phase.EventCancel, "Timeout: 4h", "Canceled", "Timeout: 4h"},
		"fatal with another":      {phase.EventFatal, "QuotaExceeded: full", "FatalError", "QuotaExceeded: full"},
		"fatal for the store":     {phase.EventFatal, "StoreUnavailable: 507", "StoreUnavailable", "507"},
		"invalid without a text":  {phase.EventInvalid, "", "FailedValidation", ""},
		"invalid with another":    {phase.EventInvalid, "NoClass: for ebs", "NoClass", "for ebs"},
		"cancel, no reason":       {phase.EventCancel, ": Timeout: 4h", "Canceled", "Timeout: 4h"},
		"fatal, no reason":        {phase.EventFatal, ": Canceled: by the peer", "FatalError", "Canceled: by the peer"},
		"invalid with plain text": {phase.EventInvalid, "no class", "FailedValidation", "no class"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApplier(t, newScripted(), phase.ApplierOptions[MyPhase]{})
			state, err := a.Apply(t.Context(), phase.State[MyPhase]{UID: "memory"}, tc.event, tc.text)
			if err != nil || state.Reason != tc.reason || state.Message != tc.message {
				t.Errorf("Apply(%s, %q) = %q, %q, %v, want %q, %q", tc.event, tc.text, state.Reason, state.Message, err, tc.reason, tc.message)
			}
		})
	}
}

func TestLongMessageIsCut(t *testing.T) {
	t.Parallel()
	a := newApplier(t, newScripted(), phase.ApplierOptions[MyPhase]{})
	state, err := a.Apply(t.Context(), phase.State[MyPhase]{UID: "memory"}, phase.EventFatal, strings.Repeat("größer ", 1000))
	if err != nil || len(state.Message) > 4096 || len(state.Message) < 4000 || !strings.HasSuffix(state.Message, "…") {
		t.Errorf("message of %d bytes, %v, want it cut at 4096", len(state.Message), err)
	}
	if strings.ContainsRune(state.Message, '\uFFFD') {
		t.Error("a character is cut in two")
	}
}

// P5, P3: a cancel that changes only the reason and whose answer gets lost is not taken for written by the phase alone.
func TestLostCancelIsWrittenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const waiting = phase.WaitingForPluginOperationsPartiallyFailed
		object := &scripted{
			Memory: phase.NewMemory(phase.State[MyPhase]{Phase: waiting}), update: []error{phase.ErrUnknownOutcome},
		}
		a := newApplier(t, object, phase.ApplierOptions[MyPhase]{})
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		state, err = a.Apply(t.Context(), state, phase.EventCancel, "")
		if err != nil || state.Reason != phase.ReasonCanceled || object.puts != 2 {
			t.Errorf("Apply = %+v, %v after %d writes, want the cancel after two", state, err, object.puts)
		}
	})
}

// delayed is an object whose first write has no answer and arrives only with the second.
type delayed struct {
	*phase.Memory[MyPhase]
	first func()
	puts  int
}

func (d *delayed) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	d.puts++
	if d.puts == 1 {
		d.first = func() { _, _ = d.Memory.Update(ctx, old, c) }
		return phase.State[MyPhase]{}, phase.ErrUnknownOutcome
	}
	d.first()
	return d.Memory.Update(ctx, old, c)
}

// P5: the first write arrives late and makes the second one a conflict: with ourselves, which is success.
func TestOwnLateWriteIsNoConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		object := &delayed{Memory: phase.NewMemory(phase.State[MyPhase]{})}
		ctx := t.Context()
		a := newApplier(t, &detached{object}, phase.ApplierOptions[MyPhase]{})
		state, err := a.Apply(ctx, phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "")
		if err != nil || state.Phase != phase.InProgress || len(object.Changes()) != 1 || object.puts != 2 {
			t.Errorf("Apply = %+v, %v after %d writes, want success after two", state, err, object.puts)
		}
	})
}

// detached lets a write outlive the try that sent it.
type detached struct{ phase.Object[MyPhase] }

func (d *detached) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	return d.Object.Update(context.WithoutCancel(ctx), old, c)
}

// P2: a fatal error while the last steps run is recorded, and Outcome ends the work.
func TestCancelWhileFinalizingRuns(t *testing.T) {
	t.Parallel()
	a := newApplier(t, phase.NewMemory(phase.State[MyPhase]{Phase: phase.Finalizing}), phase.ApplierOptions[MyPhase]{})
	state, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state, err = a.Advance(t.Context(), state, phase.Tally{Running: 1, Cancel: true})
	if err != nil || state.Phase != phase.FinalizingPartiallyFailed || state.Reason != phase.ReasonCanceled {
		t.Errorf("Advance = %+v, %v, want the cancel recorded", state, err)
	}
}
