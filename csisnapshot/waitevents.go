package csisnapshot

import "fmt"

// event is something that has happened, to be told once the lock is released.
type event struct {
	change *ModeChange // nil: a snapshot's
	result Result
	err    error
	worked bool // nothing has happened but that the snapshot-controller has done its work on it
}

// seen is the event of a snapshot for the functions that follow it.
type seen struct {
	result Result
	err    error
}

// publish hands on what has happened, in order: to the Cut that the waiter works for at once, to the user's functions
// through a queue with a goroutine of its own, so that one that is slow, or does not return, holds up nothing. Before Run
// there is no such goroutine, and what has happened waits for it.
func (w *Waiter) publish() {
	w.publishing.Lock()
	defer w.publishing.Unlock()
	w.mu.Lock()
	if !w.running {
		w.mu.Unlock()
		return
	}
	events, user := w.events, w.user
	w.events = nil
	w.mu.Unlock()
	for _, e := range events {
		if e.worked {
			w.worked(e.result.Ref)
			continue
		}
		if e.change == nil && w.follower != nil {
			w.follower(e.result, e.err)
		}
		if user != nil {
			w.opts.Events.tell(user, e)
		}
	}
}

// tell queues the event for the function that it is for.
func (h WaitEvents) tell(user *dispatcher, e event) {
	switch {
	case e.change != nil:
		tell(user, h.ModeChanged, *e.change)
	case h.Changed != nil:
		tell(user, func(s seen) { h.Changed(s.result, s.err) }, seen{e.result, e.err})
	}
}

// openEvents starts the user's queue, if there is anyone to hear. The waiter's lock is held.
func (w *Waiter) openEvents() {
	if w.opts.Events.ModeChanged != nil || w.opts.Events.Changed != nil {
		w.user = newDispatcher()
	}
}

// closeEvents tells the user what is left, in a bounded time. Its error says that a function did not return.
func (w *Waiter) closeEvents() error {
	w.publish()
	w.mu.Lock()
	user := w.user
	w.user = nil
	w.mu.Unlock()
	if user == nil {
		return nil
	}
	user.close()
	select {
	case <-user.done:
		return nil
	default:
		return fmt.Errorf("a function of WaitEvents: %w", ErrAbandoned)
	}
}
