package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
)

const (
	writesAtOnce   = 8
	firstLook      = 200 * time.Millisecond // after the first round; then twice as long each, up to the schedule
	protectionWait = 30 * time.Second       // for the finalizer of a content that was just created
	statusWait     = 5 * time.Second        // the same, when the content has a status
	quietFor       = 2 * time.Second        // a content may still come after its snapshot is gone
	stuckAfter     = 10 * time.Second       // a Terminating content is touched
	touchEvery     = 30 * time.Second
)

// remover removes snapshots: it reads everything, takes for each the step that comes next, and starts again until all
// are gone. What it does depends only on what it reads, so that it may be stopped anywhere and run again.
type remover struct {
	client Client
	names  Names
	opts   WaitOptions
	owner  types.UID
	policy DeletionPolicy
	look   bool   // only look until all are gone
	before Gate   // nil: nothing has to go first
	users  *users // nil: who else refers to a physical snapshot does not matter
	atOnce int
	turns  turns
	items  []*removal
}

// removal is one snapshot that is removed.
type removal struct {
	Removal

	snapshot *Snapshot // as read in this round; nil: gone
	content  *Content  // as read in this round; nil: there is none
	read     bool      // this round's reads succeeded

	orphan      types.UID // of a content that was found without its snapshot
	searched    bool      // a content without a snapshot was looked for
	retained    bool      // the content said Retain when it was last read
	turned      bool      // this call made it say Delete, or tried
	taken       bool      // the status of the snapshot, before it was deleted, told of a physical snapshot
	seen        bool      // the snapshot, or a content of it, existed
	gone        bool      // the snapshot does not exist any more
	done        bool
	snapshotAt  string // version, to tell progress
	contentAt   string
	progress    time.Time // when something changed last
	since       time.Time // first sight of the snapshot
	contentSeen time.Time // first sight of the content
	vanished    time.Time // when both were first seen to be gone
	terminating time.Time // since when the content is
	touched     time.Time
	held        string    // what has to be gone first; empty: nothing, or not asked
	cleared     bool      // nothing has to be gone first
	refused     time.Time // since when the server refuses
	trouble     error     // of the last request; nil after a good one
}

// run removes everything or gives up.
func (r *remover) run(ctx context.Context) {
	started, delay := time.Now(), firstLook
	for {
		r.readAll(ctx)
		r.stepAll(ctx)
		now := time.Now()
		r.giveUp(ctx, now, started)
		if r.allDone() {
			return
		}
		delay = min(delay, r.opts.Schedule.Fast)
		wait := delay
		if elapsed := now.Sub(started); elapsed > r.opts.Schedule.FastFor {
			wait = r.opts.Schedule.Next(elapsed) - elapsed
		}
		delay *= 2
		sleepUntil(ctx, now.Add(wait), nil)
	}
}

// call makes one request within its own time.
func (r *remover) call(ctx context.Context, request func(context.Context) error) error {
	return bounded(ctx, r.opts.CallTimeout, request)
}

func (r *remover) allDone() bool { return len(r.open()) == 0 }

// open are the items that are not done.
func (r *remover) open() []*removal {
	var open []*removal
	for _, item := range r.items {
		if !item.done {
			open = append(open, item)
		}
	}
	return open
}

// stepAll takes the next step of every item, several at a time.
func (r *remover) stepAll(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(r.atOnce)
	for _, item := range r.open() {
		if !item.read || ctx.Err() != nil {
			continue
		}
		group.Go(func() error {
			item.note(r.step(ctx, item), time.Now())
			return nil
		})
	}
	_ = group.Wait() // each item has its own error
}

// giveUp ends the items whose time is over. As long as any of them moves, the others may be waiting in the controllers' queue.
func (r *remover) giveUp(ctx context.Context, now, started time.Time) {
	still := now.Sub(r.lastProgress()) >= r.opts.Timeout
	for _, item := range r.open() {
		switch {
		case ctx.Err() != nil:
			item.fail(endCategory(ctx), errors.Join(context.Cause(ctx), item.trouble))
		case r.opts.MaxWait > 0 && now.Sub(started) >= r.opts.MaxWait:
			item.fail(ErrTimeout, errors.Join(fmt.Errorf("MaxWait of %v is over", r.opts.MaxWait), item.trouble))
		case still && item.held != "" && !item.cleared:
			item.fail(ErrHeld, errors.Join(fmt.Errorf("%s is still there after %v", item.held, r.opts.Timeout), item.trouble))
		case still:
			item.fail(ErrTimeout, errors.Join(fmt.Errorf("nothing changed for %v", r.opts.Timeout), item.trouble))
		}
	}
}

// lastProgress is when any of the items changed last.
func (r *remover) lastProgress() time.Time {
	var last time.Time
	for _, item := range r.items {
		if item.progress.After(last) {
			last = item.progress
		}
	}
	return last
}

// finish marks the item as removed.
func (m *removal) finish() { m.done, m.Gone = true, true }

// fail ends the item with an error that names what is left.
func (m *removal) fail(category, cause error) {
	e := &RemovalError{Ref: m.Ref, Category: category, Err: cause}
	e.Object, e.Finalizers = m.holder()
	if errors.Is(category, ErrForeign) || errors.Is(category, ErrNotCut) {
		e.Finalizers = nil // nothing was deleted, so they hold nothing back
	}
	m.done, m.Err = true, e
}

// note keeps how the item's last request went. Trouble of the API is met by the next round, which reads first; what a
// server refuses is believed when it lasts.
func (m *removal) note(err error, now time.Time) {
	m.trouble = err
	if err == nil || m.done || passes(err) {
		m.refused = time.Time{}
		return
	}
	if m.refused.IsZero() {
		m.refused = now
	}
	if now.Sub(m.refused) >= deniedFor {
		m.fail(ErrRefused, err)
	}
}
