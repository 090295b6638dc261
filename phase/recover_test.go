package phase_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// leases are the heartbeats of some owners, renewed at the given times.
type leases map[string]phase.Heartbeat

func (l leases) Heartbeat(_ context.Context, owner string) (phase.Heartbeat, error) {
	return l[owner], nil
}

var (
	alive = phase.Heartbeat{Renewed: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC), ValidFor: time.Minute}
	gone  = phase.Heartbeat{Deposed: true}
)

// P4, X5: phase-5, phase-6: what Recover does with an object in each situation, and that doing it again changes nothing.
func TestRecover(t *testing.T) {
	t.Parallel()
	waiting := phase.State[MyPhase]{Phase: phase.WaitingForPluginOperations, Owner: "other"}
	ahead := phase.Change[MyPhase]{From: phase.InProgress, To: phase.WaitingForPluginOperations, Owner: "other", At: someTime}
	tests := map[string]struct {
		reason  string
		object  phase.State[MyPhase]
		rec     *phase.Change[MyPhase]
		other   phase.Heartbeat
		restart phase.Restart // of InProgress
		want    phase.Action
		mine    bool
		phase   MyPhase
		why     string
		owner   string
		writes  int // to the object
	}{
		"nobody started it": {
			reason: "whoever starts it owns it", want: phase.ActionStart, mine: true, phase: phase.New,
		},
		"its owner lives": {
			reason: "phase-6: it is not touched", object: waiting, rec: &ahead, other: alive,
			want: phase.ActionLeave, phase: phase.WaitingForPluginOperations, owner: "other",
		},
		"its owner lives, and is between two writes": {
			reason: "phase-6: it is not touched", object: phase.State[MyPhase]{Phase: phase.InProgress, Owner: "other"}, rec: &ahead, other: alive,
			want: phase.ActionLeave, phase: phase.InProgress, owner: "other",
		},
		"nothing is known of its owner": {
			reason: "phase-6: that proves nothing", object: waiting, rec: &ahead,
			want: phase.ActionLeave, phase: phase.WaitingForPluginOperations, owner: "other",
		},
		"its owner is dead": {
			reason: "phase-5: it is taken over", object: waiting, rec: &ahead, other: gone,
			want: phase.ActionResume, mine: true, phase: phase.WaitingForPluginOperations, owner: "me", writes: 1,
		},
		"its owner died between two writes": {
			reason: "the object follows first", object: phase.State[MyPhase]{Phase: phase.InProgress, Owner: "other"}, rec: &ahead, other: gone,
			want: phase.ActionResume, mine: true, phase: phase.WaitingForPluginOperations, owner: "me", writes: 2,
		},
		"its owner died while it processed items": {
			reason: "they are processed again", object: phase.State[MyPhase]{Phase: phase.InProgress, Owner: "other"}, other: gone,
			want: phase.ActionRerun, mine: true, phase: phase.InProgress, owner: "me", writes: 1,
		},
		"its owner died in the middle of what cannot be repeated": {
			reason: "it fails, with a reason, and its last steps are ours", object: phase.State[MyPhase]{Phase: phase.InProgress, Owner: "other"},
			other: gone, restart: phase.RestartFail,
			want: phase.ActionFail, mine: true, phase: failing, why: phase.ReasonInterrupted, owner: "me", writes: 2,
		},
		"it is ours": {
			reason: "it is carried on", object: phase.State[MyPhase]{Phase: phase.InProgress, Owner: "me"},
			want: phase.ActionRerun, mine: true, phase: phase.InProgress, owner: "me",
		},
		"its last steps take too long": {
			reason: "phase-22: it fails", object: phase.State[MyPhase]{Phase: phase.Finalizing, Owner: "me", Entered: someTime.AddDate(-100, 0, 0)},
			want: phase.ActionFail, mine: true, phase: phase.FinalizingPartiallyFailed, why: phase.ReasonDeadlineExceeded, owner: "me", writes: 1,
		},
		"it has ended": {
			reason: "there is nothing to do", object: phase.State[MyPhase]{Phase: phase.Completed, Owner: "other"},
			rec:  &phase.Change[MyPhase]{From: phase.Finalizing, To: phase.Completed, Owner: "other"},
			want: phase.ActionNone, phase: phase.Completed, owner: "other",
		},
		"it has ended, and the object does not say so": {
			reason: "phase-15: the object follows", object: phase.State[MyPhase]{Phase: phase.Finalizing, Owner: "other"},
			rec:  &phase.Change[MyPhase]{From: phase.Finalizing, To: phase.Completed, Owner: "other"},
			want: phase.ActionNone, phase: phase.Completed, owner: "other", writes: 1,
		},
		"it is being deleted": {
			reason: "somebody else set that", object: phase.State[MyPhase]{Phase: phase.Deleting, Owner: "other"}, other: gone,
			want: phase.ActionNone, phase: phase.Deleting, owner: "other",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := phase.Backup[MyPhase]().Extend([]spec{{Phase: phase.InProgress, Class: phase.ClassWorking, Restart: tc.restart}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			doc, memory := &paper{}, phase.NewMemory(tc.object)
			record := phase.NewDocumentRecord[MyPhase](doc, "memory")
			rec := tc.rec
			if rec == nil && tc.object.Phase != "" {
				rec = &phase.Change[MyPhase]{From: phase.New, To: tc.object.Phase, Owner: tc.object.Owner}
			}
			if rec != nil {
				saved := *rec // the cases share some
				saved.At = someTime
				if err := record.Save(t.Context(), saved); err != nil {
					t.Fatal(err)
				}
			}
			before := string(doc.data)
			for range 2 {
				a, err := phase.NewApplier(m, memory, phase.ApplierOptions[MyPhase]{
					Record: record, Owner: "me",
					Deadlines: phase.Deadlines[MyPhase]{Phase: map[MyPhase]time.Duration{phase.Finalizing: 200 * 365 * 24 * time.Hour}, Grace: -1},
					Clock:     func() time.Time { return someTime.AddDate(101, 0, 0) },
				})
				if err != nil {
					t.Fatal(err)
				}
				r, err := a.Recover(t.Context(), leases{"other": tc.other})
				if err != nil {
					t.Fatalf("Recover: %v", err)
				}
				if r.Action != tc.want || r.Mine != tc.mine || r.State.Phase != tc.phase || r.State.Reason != tc.why || r.State.Owner != tc.owner {
					t.Fatalf("Recover = %v, mine %v, state %+v, want %v, mine %v, %q, %q, owner %q: %s",
						r.Action, r.Mine, r.State, tc.want, tc.mine, tc.phase, tc.why, tc.owner, tc.reason)
				}
				if got := len(memory.Changes()); got != tc.writes {
					t.Errorf("the object was written %d times, want %d", got, tc.writes)
				}
				if untouched := string(doc.data) == before; untouched != (tc.writes == 0) && tc.phase != phase.Completed {
					t.Errorf("the record is %s, was %s", doc.data, before)
				}
				if tc.want == phase.ActionFail { // it has failed; the second time its end is carried on
					tc.want = phase.ActionResume
				}
			}
		})
	}
}

// P4, P5, X5: phase-10: of K processes that find the same orphan at start-up exactly one takes it over, whatever answers get
// lost and whichever die; the others find a live owner, or an orphan again.
func TestOneTakesOver(t *testing.T) {
	t.Parallel()
	for _, noRecord := range []bool{false, true} {
		t.Run(fmt.Sprint("record ", !noRecord), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(150) {
				synctest.Test(t, func(t *testing.T) { takeOver(t, seed, noRecord) })
			}
		})
	}
}

func takeOver(t *testing.T, seed uint64, noRecord bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // seeded on purpose
	w := newWorld()
	first := w.start(t, options{owner: "first", noRecord: noRecord})
	state, err := first.Load(first.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = first.Apply(first.ctx, state, phase.EventStart, ""); err != nil {
		t.Fatal(err)
	}
	first.kill()
	w.pause = jitter(seed)
	w.fault = func(int, string) fault {
		return []fault{pass, pass, pass, refused, lostBefore, lostAfter, late, crashBefore, crashAfter}[rng.IntN(9)]
	}
	var mu sync.Mutex // protects dead
	dead := map[string]bool{"first": true}
	live := phase.LivenessFunc(func(_ context.Context, owner string) (phase.Heartbeat, error) {
		mu.Lock()
		defer mu.Unlock()
		if dead[owner] {
			return gone, nil
		}
		return alive, nil
	})
	var wg sync.WaitGroup
	mine := make([]bool, 5)
	procs := make([]*process, len(mine))
	for i := range mine {
		owner := fmt.Sprint("replica-", i)
		p := w.start(t, options{owner: owner, noRecord: noRecord})
		procs[i] = p
		wg.Go(func() {
			for range 20 {
				r, err := p.Recover(p.ctx, live)
				if p.ctx.Err() != nil {
					mu.Lock()
					defer mu.Unlock()
					dead[owner] = true
					return
				}
				if err == nil && r.Mine {
					mine[i] = r.State.Owner == owner
					return
				}
				time.Sleep(time.Second)
			}
		})
	}
	wg.Wait()
	if !noRecord {
		w.check(t, fmt.Sprint("seed ", seed))
	}
	now, err := w.object.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	owners := 0
	for i, m := range mine {
		if !m {
			continue
		}
		owners++
		if now.Owner != fmt.Sprint("replica-", i) {
			t.Errorf("seed %d: replica-%d thinks it took over, the object says %q", seed, i, now.Owner)
		}
	}
	living := slices.ContainsFunc(procs, func(p *process) bool { return p.ctx.Err() == nil })
	if owners > 1 || living && owners == 0 {
		t.Errorf("seed %d: %d took over, some live: %v", seed, owners, living)
	}
	for _, c := range w.object.Changes()[1:] {
		if c.Event != phase.EventTakeOver || c.From != c.To || c.Held == c.Owner {
			t.Errorf("seed %d: change %+v, want take-overs only", seed, c)
		}
	}
}

// X5: phase-8, phase-9: a process that was taken for dead and lives gets a conflict that names its successor: it changes
// neither object nor record.
func TestDeposedOwnerIsFenced(t *testing.T) {
	t.Parallel()
	for _, forget := range []bool{false, true} {
		t.Run(fmt.Sprint("object keeps no owner: ", forget), func(t *testing.T) {
			t.Parallel()
			doc, memory := &paper{}, phase.NewMemory(phase.State[MyPhase]{})
			applier := func(owner string) *phase.Applier[MyPhase] {
				var object phase.Object[MyPhase] = memory
				if forget {
					object = nameless{memory}
				}
				return newApplier(t, object, phase.ApplierOptions[MyPhase]{Record: phase.NewDocumentRecord[MyPhase](doc, "memory"), Owner: owner})
			}
			old, successor := applier("old"), applier("new")
			state, err := old.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if state, err = old.Apply(t.Context(), state, phase.EventStart, ""); err != nil || state.Owner != "old" {
				t.Fatalf("Apply = %+v, %v", state, err)
			}
			r, err := successor.Recover(t.Context(), leases{"old": gone})
			if err != nil || !r.Mine || r.State.Owner != "new" || r.Action != phase.ActionRerun {
				t.Fatalf("Recover = %+v, %v, want the work", r, err)
			}
			stored := string(doc.data)
			_, err = old.Advance(t.Context(), state, phase.Tally{Completed: 1})
			conflict, ok := errors.AsType[*phase.ConflictError](err)
			if !ok || conflict.Owner != "new" || string(doc.data) != stored {
				t.Errorf("Advance of the deposed owner = %v, record %s, want a conflict with its successor", err, doc.data)
			}
			if r, err := old.Recover(t.Context(), leases{"new": alive}); err != nil || r.Action != phase.ActionLeave || r.Owner != "new" {
				t.Errorf("Recover of the deposed owner = %+v, %v, want to leave it", r, err)
			}
			if next, err := successor.Advance(t.Context(), r.State, phase.Tally{Completed: 1}); err != nil || next.Phase != phase.Finalizing {
				t.Errorf("Advance of the successor = %+v, %v", next, err)
			}
		})
	}
}

// nameless is an object that keeps no owner and no times but those of Velero's.
type nameless struct{ *phase.Memory[MyPhase] }

func (o nameless) Get(ctx context.Context) (phase.State[MyPhase], error) {
	s, err := o.Memory.Get(ctx)
	s.Owner, s.Entered, s.Changed = "", time.Time{}, time.Time{}
	return s, err
}

func (o nameless) Update(ctx context.Context, old phase.State[MyPhase], c phase.Change[MyPhase]) (phase.State[MyPhase], error) {
	s, err := o.Memory.Update(ctx, old, c)
	s.Owner, s.Entered, s.Changed = "", time.Time{}, time.Time{}
	return s, err
}

// P4, P3: who cancels the work of another does not become its owner: at a start-up nobody takes the canceler's end for the
// worker's.
func TestCancelerIsNoOwner(t *testing.T) {
	t.Parallel()
	doc, memory := &paper{}, phase.NewMemory(phase.State[MyPhase]{})
	applier := func(owner string) *phase.Applier[MyPhase] {
		return newApplier(t, memory, phase.ApplierOptions[MyPhase]{Record: phase.NewDocumentRecord[MyPhase](doc, "memory"), Owner: owner})
	}
	worker := applier("worker")
	state, err := worker.Apply(t.Context(), phase.State[MyPhase]{UID: "memory", Version: "1"}, phase.EventStart, "")
	if err != nil {
		t.Fatal(err)
	}
	canceled, err := applier("alice").Apply(t.Context(), state, phase.EventCancel, "by alice")
	if err != nil || canceled.Owner != "worker" || canceled.Reason != phase.ReasonCanceled {
		t.Fatalf("cancel by alice = %+v, %v, want the worker to stay the owner", canceled, err)
	}
	r, err := applier("other").Recover(t.Context(), leases{"worker": alive, "alice": gone})
	if err != nil || r.Action != phase.ActionLeave {
		t.Errorf("Recover = %+v, %v, want to leave it to the worker", r, err)
	}
	if state, err = worker.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next, err := worker.Advance(t.Context(), state, phase.Tally{Canceled: 1}); err != nil || next.Phase != phase.FinalizingPartiallyFailed {
		t.Errorf("the worker goes on to %+v, %v", next, err)
	}
}

// P4: work whose owner nobody named, as in Velero's own fields without a record, is taken over only by a program that says
// that it runs alone.
func TestRecoverNamelessWork(t *testing.T) {
	t.Parallel()
	memory := phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress})
	a := newApplier(t, nameless{memory}, phase.ApplierOptions[MyPhase]{Owner: "me"})
	if r, err := a.Recover(t.Context(), leases{}); err != nil || r.Action != phase.ActionLeave || r.Mine {
		t.Errorf("Recover = %+v, %v, want to leave it", r, err)
	}
	if r, err := a.Recover(t.Context(), phase.SingleOwner()); err != nil || r.Action != phase.ActionRerun || !r.Mine {
		t.Errorf("Recover by a single owner = %+v, %v, want the work", r, err)
	}
}

// P4: what stands in the way of a decision is an error, and nothing is written.
func TestRecoverErrors(t *testing.T) {
	t.Parallel()
	waiting := phase.State[MyPhase]{Phase: phase.WaitingForPluginOperations, Owner: "other"}
	saved := &phase.Change[MyPhase]{From: phase.InProgress, To: phase.WaitingForPluginOperations, Owner: "other", At: someTime}
	tests := map[string]struct {
		reason string
		live   phase.Liveness
		load   error // of the record
		object phase.State[MyPhase]
		uid    string // of the record's object
		owner  string
		want   error
		action phase.Action
	}{
		"no liveness": {reason: "it is required", owner: "me", object: waiting, want: phase.ErrInvalid},
		"no owner":    {reason: "nobody could be told from us", live: leases{}, object: waiting, want: phase.ErrInvalid},
		"heartbeats are not to be had": {
			reason: "phase-6: not read is not dead", owner: "me", object: waiting, want: errBroken,
			live: phase.LivenessFunc(func(context.Context, string) (phase.Heartbeat, error) { return phase.Heartbeat{}, errBroken }),
		},
		"panic": {
			reason: "X1: it does not cross the API", owner: "me", object: waiting, want: phase.ErrPanic,
			live: phase.LivenessFunc(func(context.Context, string) (phase.Heartbeat, error) { panic("oops") }),
		},
		"record is not to be had, owner dead":  {reason: "it may be ahead", live: leases{"other": gone}, load: errBroken, owner: "me", object: waiting, want: errBroken},
		"record is not to be had, owner lives": {reason: "it is left all the same", live: leases{"other": alive}, load: errBroken, owner: "me", object: waiting, action: phase.ActionLeave},
		"another object's record":              {reason: "it is not adopted", live: leases{"other": gone}, owner: "me", object: phase.State[MyPhase]{Phase: phase.InProgress, UID: "new"}, want: phase.ErrForeignRecord},
		"unknown phase":                        {reason: "a newer release's", live: leases{"other": gone}, owner: "me", object: phase.State[MyPhase]{Phase: "Paused"}, want: phase.ErrUnknownPhase},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, memory := &paper{}, phase.NewMemory(tc.object)
			record := phase.NewDocumentRecord[MyPhase](doc, "memory")
			if err := record.Save(t.Context(), *saved); err != nil {
				t.Fatal(err)
			}
			doc.saves = 0
			if tc.load != nil {
				doc.load = slices.Repeat([]error{tc.load}, 9)
			}
			a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{Record: record, Owner: tc.owner})
			r, err := a.Recover(t.Context(), tc.live)
			if !errors.Is(err, tc.want) || r.Action != tc.action || r.Mine {
				t.Errorf("Recover = %+v, %v, want %v, %v: %s", r, err, tc.action, tc.want, tc.reason)
			}
			if len(memory.Changes()) != 0 || doc.saves != 0 {
				t.Errorf("%d writes to the object, %d to the record, want none", len(memory.Changes()), doc.saves)
			}
		})
	}
}

// phase-26, X5: a start-up finds a backlog: work in progress is carried on, and no more is started than the cap leaves,
// counted from what the objects say.
func TestBacklogAtStartUp(t *testing.T) {
	t.Parallel()
	m := queuedBackup(t)
	var objects []*phase.Memory[MyPhase]
	for i, p := range []MyPhase{phase.InProgress, phase.Queued, phase.Queued, phase.InProgress, phase.Finalizing, phase.Completed, phase.Queued, phase.ReadyToStart} {
		objects = append(objects, phase.NewMemory(phase.State[MyPhase]{Phase: p, Owner: "old", UID: fmt.Sprint(i)}))
	}
	const limit = 3
	for range 3 { // restarts
		working, started := 0, 0
		phases := func(yield func(MyPhase) bool) {
			for _, o := range objects {
				s, err := o.Get(t.Context())
				if err != nil || !yield(s.Phase) {
					return
				}
			}
		}
		for _, o := range objects {
			a, err := phase.NewApplier(m, o, phase.ApplierOptions[MyPhase]{Owner: "me"})
			if err != nil {
				t.Fatal(err)
			}
			r, err := a.Recover(t.Context(), leases{"old": gone})
			if err != nil {
				t.Fatal(err)
			}
			ready := r.State.Phase == phase.ReadyToStart || r.State.Phase == phase.Queued
			if ready != (r.Action == phase.ActionStart) {
				t.Errorf("Recover of %q = %v", r.State.Phase, r.Action)
			}
			if ready && m.Admit(phases, limit) > 0 {
				if r.State.Phase == phase.Queued {
					r.State, err = a.Apply(t.Context(), r.State, "Ready", "")
				}
				if err == nil {
					_, err = a.Apply(t.Context(), r.State, phase.EventStart, "")
				}
				if err != nil {
					t.Fatal(err)
				}
				started++
			}
		}
		for p := range phases {
			if m.Class(p) == phase.ClassWorking {
				working++
			}
		}
		if working != limit || m.Admit(phases, limit) != 0 || m.Admit(phases, limit-2) != 0 || m.Admit(phases, limit+2) != 2 {
			t.Errorf("%d are worked on, %d started, want %d in all", working, started, limit)
		}
	}
}

// P4, P6: a take-over that was recorded and not yet written to the object is carried out, never taken back: the successor
// may be about to write it, and what the owner before decides is refused already.
func TestRecordedTakeOverIsCarriedOut(t *testing.T) {
	t.Parallel()
	rec := phase.Change[MyPhase]{From: phase.InProgress, To: phase.InProgress, Event: phase.EventTakeOver, Owner: "new", At: someTime}
	object := phase.State[MyPhase]{Phase: phase.InProgress, Owner: "old"}
	d, err := phase.Backup[MyPhase]().Decide(phase.Evidence[MyPhase]{State: object, Kept: true, Record: rec, Me: "third", Heartbeat: beats[phase.Live], Now: someTime})
	if err != nil || d.Owner != "new" || d.Differs != phase.ObjectFollows || d.Action != phase.ActionLeave {
		t.Errorf("Decide = %+v, %v, want to leave it to the successor", d, err)
	}
	a, memory, _, _ := diverged(t, object, &rec, phase.Hooks[MyPhase]{})
	state, err := a.Load(t.Context())
	if err != nil || state.Owner != "new" || len(memory.Changes()) != 1 || memory.Changes()[0].Event != phase.EventTakeOver {
		t.Errorf("Load = %+v, %v after %v, want the successor as the owner", state, err, memory.Changes())
	}
	// Without a take-over the object's compare-and-swap has decided, and the record follows.
	rec.Event, rec.From = phase.EventStart, phase.New
	a, memory, record, _ := diverged(t, object, &rec, phase.Hooks[MyPhase]{})
	if state, err = a.Load(t.Context()); err != nil || state.Owner != "old" || len(memory.Changes()) != 0 {
		t.Errorf("Load = %+v, %v, want the object's owner", state, err)
	}
	if c, _, err := record.Load(t.Context()); err != nil || c.Owner != "old" {
		t.Errorf("the record names %q, %v, want the object's owner", c.Owner, err)
	}
}

// P4: phase-6: clocks differ: an owner whose time is just over is not taken for dead.
func TestRecoverAllowsForClocks(t *testing.T) {
	t.Parallel()
	for skew, want := range map[time.Duration]phase.Action{0: phase.ActionLeave, time.Second: phase.ActionResume, -1: phase.ActionResume, time.Minute: phase.ActionLeave} {
		a := newApplier(t, phase.NewMemory(phase.State[MyPhase]{Phase: phase.Finalizing, Owner: "other"}), phase.ApplierOptions[MyPhase]{
			Owner: "me", ClockSkew: skew, Clock: func() time.Time { return someTime },
		})
		beat := phase.Heartbeat{Renewed: someTime.Add(-20 * time.Second), ValidFor: 15 * time.Second}
		if r, err := a.Recover(t.Context(), leases{"other": beat}); err != nil || r.Action != want {
			t.Errorf("Recover with a skew of %v = %v, %v, want %v", skew, r.Action, err, want)
		}
	}
}

// P5: who ends work that nobody processed yet by a cancel is named in it, so that of several one has won.
func TestCancelOfQueuedWorkNamesTheCanceler(t *testing.T) {
	t.Parallel()
	a, err := phase.NewApplier(queuedBackup(t), phase.NewMemory(phase.State[MyPhase]{Phase: phase.Queued, Owner: "queue"}), phase.ApplierOptions[MyPhase]{Owner: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	state, err := a.Apply(t.Context(), phase.State[MyPhase]{Phase: phase.Queued, UID: "memory", Owner: "queue"}, phase.EventCancel, "")
	if err != nil || state.Phase != phase.Failed || state.Owner != "alice" {
		t.Errorf("cancel = %+v, %v, want Failed by alice", state, err)
	}
}

// P4: what Recover meets on its way is no reason to give up: somebody else moves the work on between its steps.
func TestRecoverIsOvertaken(t *testing.T) {
	t.Parallel()
	memory := phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress, Owner: "other"})
	object := &helped{Memory: memory, help: func() {
		state, err := memory.Get(t.Context())
		if err != nil {
			t.Error(err)
		}
		a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{Owner: "faster"})
		if r, err := a.Recover(t.Context(), leases{"other": gone}); err != nil || !r.Mine {
			t.Errorf("Recover of the faster one in %q = %+v, %v", state.Phase, r, err)
		}
	}}
	a := newApplier(t, object, phase.ApplierOptions[MyPhase]{Owner: "me"})
	if r, err := a.Recover(t.Context(), leases{"other": gone, "faster": alive}); err != nil || r.Action != phase.ActionLeave || r.Owner != "faster" || r.Mine {
		t.Errorf("Recover = %+v, %v, want to leave it to the faster one", r, err)
	}
}

// P4: our own work is carried on without asking anybody, with what the record knows and the object does not keep; while the
// record cannot be read it is not, because that may be ahead.
func TestRecoverOwnWork(t *testing.T) {
	t.Parallel()
	doc, memory := &paper{}, phase.NewMemory(phase.State[MyPhase]{Phase: failing})
	record := phase.NewDocumentRecord[MyPhase](doc, "memory")
	saved := phase.Change[MyPhase]{
		From: phase.InProgress, To: failing, Event: phase.EventCancel, Reason: phase.ReasonCanceled, Owner: "me", At: someTime,
	}
	if err := record.Save(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	unread := phase.LivenessFunc(func(context.Context, string) (phase.Heartbeat, error) { return phase.Heartbeat{}, errBroken })
	a := newApplier(t, nameless{memory}, phase.ApplierOptions[MyPhase]{Record: record, Owner: "me", Clock: func() time.Time { return someTime }})
	r, err := a.Recover(t.Context(), unread)
	if err != nil || r.Action != phase.ActionResume || !r.Mine || r.Owner != "me" {
		t.Errorf("Recover = %+v, %v, want to carry it on", r, err)
	}
	if r.State.Owner != "me" || r.State.Reason != phase.ReasonCanceled || !r.State.Entered.Equal(someTime) || !r.State.Changed.Equal(someTime) {
		t.Errorf("Recover returns the state %+v, want what the record knows", r.State)
	}
	owned := phase.NewMemory(phase.State[MyPhase]{Phase: failing, Owner: "me"})
	a = newApplier(t, owned, phase.ApplierOptions[MyPhase]{Record: record, Owner: "me"})
	doc.load = repeat(errBroken, 2)
	if r, err := a.Recover(t.Context(), unread); !errors.Is(err, errBroken) || r.Mine || r.Action != phase.ActionNone {
		t.Errorf("Recover without the record = %+v, %v, want its error", r, err)
	}
}

// P6, P4: phase-15: an object that is ahead of its record, which an unconditional store can lose, is carried on only after the
// record has followed; if that has a failure that the object lacks, both enter the failing phase, now.
func TestRecoverMakesTheRecordFollow(t *testing.T) {
	t.Parallel()
	now := someTime.Add(time.Hour)
	tests := map[string]struct {
		at, recorded, want MyPhase
		entered            time.Time
	}{
		"object is ahead":         {phase.Finalizing, phase.InProgress, phase.Finalizing, someTime},
		"record has the failure":  {phase.Finalizing, failing, phase.FinalizingPartiallyFailed, now},
		"object has the failure":  {phase.FinalizingPartiallyFailed, phase.InProgress, phase.FinalizingPartiallyFailed, someTime},
		"object is one way ahead": {phase.WaitingForPluginOperations, phase.InProgress, phase.WaitingForPluginOperations, someTime},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := &paper{}
			record := phase.NewDocumentRecord[MyPhase](doc, "memory")
			saved := phase.Change[MyPhase]{From: phase.New, To: tc.recorded, Reason: phase.ReasonItemErrors, Owner: "me", At: someTime}
			if err := record.Save(t.Context(), saved); err != nil {
				t.Fatal(err)
			}
			memory := phase.NewMemory(phase.State[MyPhase]{Phase: tc.at, Owner: "me", Entered: someTime, Changed: someTime})
			a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{Record: record, Owner: "me", Clock: func() time.Time { return now }})
			r, err := a.Recover(t.Context(), leases{})
			if err != nil || !r.Mine || r.Action != phase.ActionResume || r.State.Phase != tc.want || !r.State.Entered.Equal(tc.entered) {
				t.Errorf("Recover = %+v, %v, want %q entered %v", r, err, tc.want, tc.entered)
			}
			if c, _, err := record.Load(t.Context()); err != nil || c.To != tc.want || !c.Entered.Equal(tc.entered) {
				t.Errorf("the record is %+v, %v, want %q entered %v", c, err, tc.want, tc.entered)
			}
		})
	}
}
