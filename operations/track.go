package operations

import (
	"context"
	"errors"
	"time"
)

// keyTrack is what the poller remembers of a key between two Steps. All of it can be lost.
type keyTrack struct {
	turn  chan struct{} // capacity one: whoever has put a value in owns the fields below
	ops   map[string]*opTrack
	edits map[string]*edit // learnt and not committed
	dirty bool             // committed and not stored
	wrote time.Time        // last write of progress
	heard time.Time        // the record was last what the store held

	// The following is protected by Poller.mu.
	users int
	woken map[string]struct{} // operations to ask about now; an empty ID means all
	bell  chan struct{}
}

// opTrack is what the poller remembers of an operation that runs.
type opTrack struct {
	id      string
	seen    instant   // first
	asked   instant   // to stop, as first seen
	request time.Time // as the record has it
	due     time.Time // of the next question
	waiting bool      // a question is on its way

	at    time.Time // in the agenda: when attention is needed
	place int       // there, counted from one; zero: none

	moved   time.Time // last progress
	stalled bool      // and this was reported

	errs     int // in a row
	firstErr time.Time
	lastErr  error
	odd      error // the last answer was a state that is not known

	stopSent bool      // Cancel has returned nil
	call     *callback // a call that was left behind
}

// sawRequest notes a request to stop of the record. One that another process stored after this one had asked, and could
// not store it, is what the grace time counts from.
func (t *opTrack) sawRequest(at *time.Time, now instant) {
	if at == nil || at.Equal(t.request) {
		return
	}
	if t.asked.own.IsZero() || at.After(t.asked.clock) {
		t.asked = now
	}
	t.request = *at
}

// check returns an error when the poller is nil or zero.
func (p *Poller) check() error {
	if p == nil || p.m == nil {
		return errors.New("the poller was not made by NewPoller")
	}
	return nil
}

// enter takes the key's turn; the caller must leave.
func (p *Poller) enter(ctx context.Context, key Key) (*keyTrack, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	k, ok := p.keys[key]
	if !ok {
		k = &keyTrack{
			turn: make(chan struct{}, 1), bell: make(chan struct{}, 1),
			ops: map[string]*opTrack{}, edits: map[string]*edit{}, heard: time.Now(),
		}
		p.keys[key] = k
	}
	k.users++
	p.mu.Unlock()
	if err := takeTurn(ctx, k.turn); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		k.users--
		p.drop(key, k)
		return nil, err
	}
	return k, nil
}

// leave gives the turn back; a key that is done, or of which nothing is known, is forgotten.
func (p *Poller) leave(key Key, k *keyTrack, done bool) {
	if done {
		clear(k.ops)
		clear(k.edits)
	}
	<-k.turn
	p.mu.Lock()
	defer p.mu.Unlock()
	k.users--
	p.drop(key, k)
}

// drop forgets a key that nobody uses and of which nothing is known. The caller holds mu.
func (p *Poller) drop(key Key, k *keyTrack) {
	if k.users == 0 && len(k.ops) == 0 && len(k.edits) == 0 {
		delete(p.keys, key)
	}
}

// Forget drops what the poller remembers of the key: for a backup that is deleted before its operations have ended. A
// Step that runs is not disturbed.
func (p *Poller) Forget(key Key) {
	if p.check() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.keys[key]; ok && k.users == 0 {
		delete(p.keys, key)
	}
}

// Wake makes operations of the key due now: those of the IDs, or all when none is given. It ends the wait of
// [Poller.Run]; a caller of Step has to call it. A key that the poller has not met needs no waking.
func (p *Poller) Wake(key Key, ids ...string) {
	if p.check() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.keys[key]
	if !ok {
		return
	}
	if len(ids) == 0 {
		ids = []string{""}
	}
	if k.woken == nil {
		k.woken = map[string]struct{}{}
	}
	for _, id := range ids {
		k.woken[id] = struct{}{}
	}
	select {
	case k.bell <- struct{}{}:
	default: // it rings already
	}
}

// bell returns the channel that Wake sends to; nil for a key that the poller has not met.
func (p *Poller) bell(key Key) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.keys[key]; ok {
		return k.bell
	}
	return nil
}

// takeWoken returns what Wake was called with since the last time.
func (p *Poller) takeWoken(k *keyTrack) map[string]struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := k.woken
	k.woken = nil
	select {
	case <-k.bell:
	default:
	}
	return ids
}
