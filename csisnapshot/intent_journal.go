package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// documentTimeout bounds one read or write of the document.
const documentTimeout = 30 * time.Second

// errDocumentTimeout is the cause when it ran out.
var errDocumentTimeout = fmt.Errorf("no answer within %v: %w", documentTimeout, context.DeadlineExceeded)

// journal keeps the freeze intents of a run in their document. Saves are one at a time and always of the whole list, so a
// thaw record whose save failed is written by the next one.
type journal struct {
	doc   Document
	owner Owner
	clock func() time.Time

	turn    chan struct{} // capacity 1: held while intents are changed and saved
	intents []intent      // guarded by turn
	dirty   bool          // guarded by turn: the document may differ from intents
	broken  error         // guarded by turn: why nothing can be saved any more
}

// openJournal reads the document. Without one the journal is empty and saves nothing.
func openJournal(ctx context.Context, doc Document, owner Owner, clock func() time.Time) (*journal, error) {
	j := &journal{doc: doc, owner: owner, clock: clock, turn: make(chan struct{}, 1)}
	if doc == nil {
		return j, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, documentTimeout, errDocumentTimeout)
	defer cancel()
	loaded := make(chan []byte, 1)
	err := call(ctx, func(ctx context.Context) error {
		data, err := doc.Load(ctx)
		loaded <- data
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load %w: %w", ErrIntents, err)
	}
	if j.intents, err = decodeIntents(<-loaded); err != nil {
		return nil, fmt.Errorf("load %w", err)
	}
	return j, nil
}

// open returns a copy of the intents without a thaw record. It must not run beside a change.
func (j *journal) open() []intent {
	var open []intent
	for _, i := range j.intents {
		if i.open() {
			open = append(open, i)
		}
	}
	return open
}

// freeze saves the intent to freeze the pod. It is durable when freeze returns nil; otherwise the pod must not be frozen.
func (j *journal) freeze(ctx context.Context, pod PodRef, hook string) error {
	return j.change(ctx, func(before []intent) (now, failed []intent, save bool) {
		now = slices.DeleteFunc(slices.Clone(before), func(i intent) bool { return !i.open() || i.PodUID == pod.UID })
		return append(now, intent{
			Namespace: pod.Namespace, Pod: pod.Name, PodUID: pod.UID, Hook: hook,
			Owner:    intentOwner{UID: j.owner.UID, Namespace: j.owner.Namespace, Name: j.owner.Name},
			FrozenAt: j.clock().UTC(),
		}), before, true
	})
}

// thaw saves the thaw record of the pod. A record that cannot be saved is kept for the next save.
func (j *journal) thaw(ctx context.Context, pod PodRef, outcome string) error {
	return j.change(ctx, func(before []intent) (now, failed []intent, save bool) {
		now = slices.Clone(before)
		for n := range now {
			if i := &now[n]; i.PodUID == pod.UID && i.open() {
				i.ThawedAt, i.Outcome = j.clock().UTC(), outcome
			}
		}
		return now, now, true
	})
}

// flush saves what an earlier save could not.
func (j *journal) flush(ctx context.Context) error {
	return j.change(ctx, func(before []intent) (now, failed []intent, save bool) {
		return before, before, j.dirty
	})
}

// change saves the intents that edit makes of those there were, one change at a time, and keeps them; if they cannot be
// saved it keeps failed instead.
func (j *journal) change(ctx context.Context, edit func(before []intent) (now, failed []intent, save bool)) error {
	if j.doc == nil {
		return nil
	}
	if ctx.Err() != nil { // with a free turn too, select would choose either
		return fmt.Errorf("save %w: %w", ErrIntents, context.Cause(ctx))
	}
	select {
	case j.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("save %w: %w", ErrIntents, context.Cause(ctx))
	}
	defer func() { <-j.turn }()
	if j.broken != nil {
		return j.broken
	}
	now, failed, save := edit(j.intents)
	if !save {
		return nil
	}
	err := j.save(ctx, now)
	if j.dirty = err != nil; j.dirty {
		now = failed
	}
	j.intents = now
	return err
}

// save writes the document. After a save that was abandoned no other is tried: its late write could undo theirs.
func (j *journal) save(ctx context.Context, intents []intent) error {
	data, err := encodeIntents(intents)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, documentTimeout, errDocumentTimeout)
	defer cancel()
	err = call(ctx, func(ctx context.Context) error { return j.doc.Save(ctx, data) })
	if err == nil {
		return nil
	}
	err = fmt.Errorf("save %w: %w", ErrIntents, err)
	if errors.Is(err, ErrAbandoned) {
		j.broken = err
	}
	return err
}
