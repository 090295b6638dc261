package csisnapshot

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// entry is one snapshot that is waited for. It is guarded by the waiter's lock.
type entry struct {
	state    State
	until    Stage
	pending  *Pending
	added    time.Time
	current  bool      // everything that happened before it was added has been read
	snapshot *Snapshot // as last seen, slim once it is judged
	content  *Content  // as last seen, slim once it is judged
	gone     bool      // there is no such snapshot
	ended    bool
	// What has to be read out of turn, and from when on; zero: nothing.
	readSnapshot, readContent time.Time
	toldSnapshot, toldContent time.Time // when an event last told of them
	queued                    bool      // among the reads out of turn
	hinted                    bool      // readContent was set once because the snapshot was ahead of its content
	confirm                   bool      // readSnapshot is by name: an event said that it is gone
	deciding, decided         bool      // the content is read before the snapshot counts as deleted; it was
	verdicts                  map[question]Verdict
	doubts                    []ErrorInfo // to ask the classifier about
	asking                    bool        // the classifier is asked, or will be
}

// Add waits for a snapshot until the stage. It never blocks. If the snapshot cannot be waited for, because its driver
// has stopped making progress or the waiter is not running any more, what it returns has ended already. A snapshot that
// is waited for already is not added twice; the later stage counts.
func (w *Waiter) Add(t Target, until Stage) *Pending {
	t = t.withDefaults()
	now := time.Now()
	if err := w.made(); err != nil {
		return refused(t, until.known(), err, now)
	}
	w.mu.Lock()
	p := w.add(t, until.known(), now)
	w.mu.Unlock()
	w.publish()
	poke(w.wake)
	poke(w.tick)
	return p
}

func (w *Waiter) add(t Target, until Stage, now time.Time) *Pending {
	if old := w.entries[t.Ref]; old != nil {
		if t.UID == "" || t.UID == old.state.UID {
			old.until = max(old.until, until)
			return old.pending
		}
		w.end(old, ErrReplaced, DiagnosisReplaced, nil, now)
	}
	e := &entry{state: NewState(t), until: until, added: now, current: t.Created}
	e.pending = newPending(w, e)
	clock := w.driver(t.Driver)
	clock.join(e, now)
	w.entries[t.Ref] = e
	if t.UID != "" {
		w.uids[t.UID] = e
	}
	switch {
	case w.stopped != nil:
		w.end(e, ErrCanceled, DiagnosisNone, w.stopped, now)
	case !slices.Contains(w.namespaces, t.Ref.Namespace):
		w.end(e, ErrForbidden, DiagnosisUnreadable, fmt.Errorf("namespace %q is none of the waiter's", t.Ref.Namespace), now)
	case clock.isStalled():
		w.end(e, ErrNotStarted, DiagnosisNotStarted, clock.err(w.opts.Timeout), now)
	default:
		w.expect(e, t, now)
	}
	return e.pending
}

// expect arranges what has to be read of a new entry.
func (w *Waiter) expect(e *entry, t Target, now time.Time) {
	if !t.Created || t.Snapshot == nil {
		e.readSnapshot, e.readContent = now, now
		w.read.queue(e)
	}
	w.read.added(now, w.opts.Schedule, w.quiet())
	w.checkBy(now.Add(w.opts.Timeout))
	e.snapshot = t.Snapshot
	w.takeEarly(e, now)
	if e.snapshot != nil {
		w.judge(e, now)
	}
}

// readOf takes in what a read begun at the time found of a snapshot; nil says that none has the name. A read that was
// asked for after it began is still to be made. It reports whether the read told news.
func (w *Waiter) readOf(ref Ref, vs *Snapshot, began, now time.Time) (news bool) {
	e := w.entries[ref]
	if e == nil || began.Before(e.added) {
		return false
	}
	if !e.readSnapshot.After(began) {
		e.readSnapshot, e.confirm = time.Time{}, false
	}
	told := !e.toldSnapshot.Before(began)
	if told && vs != nil && e.snapshot != nil && older(vs.Meta, e.snapshot.Meta) {
		return false
	}
	return w.sawSnapshot(e, vs, now) && !told
}

// sawSnapshot takes in a snapshot and reports whether that was news.
func (w *Waiter) sawSnapshot(e *entry, vs *Snapshot, now time.Time) (news bool) {
	news = vs == nil || e.snapshot == nil || e.snapshot.ResourceVersion != vs.ResourceVersion
	e.snapshot, e.gone = vs, vs == nil
	w.judge(e, now)
	return news
}

// judge decides what the entry has come to, and has the classifier asked about its errors.
func (w *Waiter) judge(e *entry, now time.Time) { w.doubt(e, w.judgeAgain(e, now)) }

// judgeAgain is judge with the verdicts that there are. It returns the errors that were to be classified.
func (w *Waiter) judgeAgain(e *entry, now time.Time) (asked []ErrorInfo) {
	before, look := e.state, Look{Snapshot: e.snapshot, Content: e.content, Now: now}
	if w.asker.classifier != nil {
		look.Classifier = e.known(&asked)
	}
	e.state = Judge(before, look)
	e.slim()
	if e.state.UID != "" && before.UID == "" {
		w.uids[e.state.UID] = e
	}
	if e.state.ProgressAt != before.ProgressAt && e.current { // what happened before is no progress of now
		w.driver(e.state.Driver).moved(e, now)
	}
	w.catchUp(e)
	w.settle(e, now)
	if !e.ended && changedForUser(before, e.state) {
		w.events = append(w.events, event{result: e.state.Result})
	}
	w.hint(e, now)
	return asked
}

// catchUp notes that the first reads of the entry are done.
func (w *Waiter) catchUp(e *entry) {
	e.current = e.current || e.readSnapshot.IsZero() && e.readContent.IsZero()
}

// changedForUser reports whether [WaitEvents.Changed] is called for the step.
func changedForUser(a, b State) bool {
	return a.PickedUp != b.PickedUp || a.Cut != b.Cut || a.Ready != b.Ready || a.Diagnosis != b.Diagnosis || a.LastError != b.LastError
}

// hint asks for the content when the snapshot tells that it must have a handle and no event has brought it.
func (w *Waiter) hint(e *entry, now time.Time) {
	if e.ended || e.hinted || e.state.Cut || e.snapshot == nil || e.snapshot.Status == nil {
		return
	}
	st := e.snapshot.Status
	if st.CreationTime != nil || st.ReadyToUse != nil && *st.ReadyToUse {
		e.hinted = true
		w.readContentAt(e, now.Add(hintDelay))
	}
}

// readContentAt asks for the content out of turn.
func (w *Waiter) readContentAt(e *entry, at time.Time) {
	if e.readContent.IsZero() || e.readContent.After(at) {
		e.readContent = at
		w.read.queue(e)
		poke(w.wake)
	}
}

// hintDelay is how long a content's event may come after its snapshot's.
const hintDelay = time.Second

// settle closes what the state decides.
func (w *Waiter) settle(e *entry, now time.Time) {
	s := e.state
	if s.PickedUp {
		closeOnce(e.pending.picked)
	}
	if s.Cut {
		e.pending.stages[StageCut].settle(s.Result, nil)
		closeOnce(e.pending.freed)
		w.driver(s.Driver).leave(e)
	}
	switch {
	case s.Ready || s.Reached(e.until):
		w.remove(e)
		w.finishStages(e, nil)
		w.leaveTrail(e)
	case s.End != nil && w.contentDecides(e, now):
	case s.End != nil:
		w.end(e, s.End, s.Diagnosis, nil, now)
	}
}

// contentDecides holds back the end of a snapshot that was ready, and is gone, while its content was never read: with a
// handle it counts as ready.
func (w *Waiter) contentDecides(e *entry, now time.Time) bool {
	s := e.state
	if !errors.Is(s.End, ErrDeleted) || s.Cut || s.ReadyToUse == nil || !*s.ReadyToUse || s.UID == "" || e.decided {
		return false
	}
	if !e.deciding {
		e.deciding = true
		w.readContentAt(e, now)
	}
	return true
}

// end ends the entry's wait for every stage that it has not reached.
func (w *Waiter) end(e *entry, category error, d Diagnosis, cause error, now time.Time) {
	if e.ended {
		return
	}
	w.remove(e)
	e.state.Diagnosis = d
	err := func(stage Stage) error { return e.state.failure(stage, category, d, cause, now) }
	w.finishStages(e, err)
	if !errors.Is(category, ErrTimeout) || errors.Is(cause, errDriverStalled) {
		closeOnce(e.pending.freed)
	}
}

// finishStages closes the stages that are open.
func (w *Waiter) finishStages(e *entry, failed func(Stage) error) {
	var last error
	for stage := range e.pending.stages {
		var err error
		if !e.state.Reached(Stage(stage)) && Stage(stage) <= e.until && failed != nil {
			err = failed(Stage(stage))
			last = err
		} else if !e.state.Reached(Stage(stage)) {
			err = fmt.Errorf("snapshot %s: was not waited for until %s", e.state.Ref, Stage(stage))
		}
		e.pending.stages[stage].settle(e.state.Result, err)
	}
	closeOnce(e.pending.picked)
	w.events = append(w.events, event{result: e.state.Result, err: last})
}

// remove takes the entry out of the waiter.
func (w *Waiter) remove(e *entry) {
	e.ended = true
	if w.entries[e.state.Ref] == e {
		delete(w.entries, e.state.Ref)
	}
	if w.uids[e.state.UID] == e {
		delete(w.uids, e.state.UID)
	}
	w.driver(e.state.Driver).leave(e)
	if len(w.entries) == 0 {
		poke(w.tick)
	}
}

// settle writes the outcome once.
func (o *outcome) settle(r Result, err error) {
	select {
	case <-o.done:
	default:
		o.result, o.err = r, err
		close(o.done)
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
