package csisnapshot

import (
	"context"
	"errors"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// Run holds one watch of all snapshots with an owner until ctx ends. While it runs, an operation is read again only after its
// snapshot has changed, and every WaitOptions.SafetyRead in case an event was lost; without Run every call reads. A watch that
// ends or is refused is opened anew, at the latest every WaitOptions.RetryWatch, and until then every call reads. The error
// says that Run is running already; the end of ctx is none. It starts no goroutine.
func (a *Action) Run(ctx context.Context) error {
	if err := a.made(); err != nil {
		return err
	}
	a.mu.Lock()
	running := a.running
	a.running = true
	a.mu.Unlock()
	if running {
		return errors.New("action: Run is running")
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running = false
	}()
	for wait := a.opts.Schedule.Fast; ctx.Err() == nil; wait = min(2*wait, a.opts.RetryWatch) {
		if a.follow(ctx) {
			wait = a.opts.Schedule.Fast
		}
		sleepUntil(ctx, time.Now().Add(wait), nil)
	}
	return nil
}

// follow takes the events of one watch until it ends, and reports whether there were any.
func (a *Action) follow(ctx context.Context) (told bool) {
	w, err := a.client.Snapshots().Watch(ctx, "", WatchOptions{Selector: a.names.OwnerLabel()})
	if err != nil {
		return false
	}
	defer w.Stop()
	a.mu.Lock()
	a.open, a.changes = time.Now(), map[Ref]time.Time{}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open, a.changes = time.Time{}, nil
	}()
	for {
		select {
		case <-ctx.Done():
			return told
		case raw, ok := <-w.ResultChan():
			if !ok {
				return told
			}
			event := w.Decode(raw)
			if event.Err != nil {
				return told
			}
			told = true
			if event.Object.Name != "" {
				a.mu.Lock()
				a.changes[event.Object.Ref()] = time.Now()
				a.mu.Unlock()
			}
		}
	}
}

// fresh is the operation's last answer if it was read after the watch was open and after the snapshot's last change.
func (a *Action) fresh(id string, ref Ref, now time.Time) (operations.Progress, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.known[id]
	if m == nil || a.open.IsZero() || !m.began.After(a.open) || now.Sub(m.began) >= a.opts.SafetyRead {
		return operations.Progress{}, false
	}
	if at, changed := a.changes[ref]; changed && !at.Before(m.began) {
		return operations.Progress{}, false
	}
	return m.progress, true
}
