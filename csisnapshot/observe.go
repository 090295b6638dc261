package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	openTimeout  = 10 * time.Second // for a watch to open
	silenceGrace = 5 * time.Second  // between a change that a read found and its event
	shortLife    = time.Second      // a watch that ends sooner is opened again after a pause; without an event it is of no use
	shortLives   = 3                // so many in a row are as good as none
	lastReopen   = 10 * time.Second // the longest pause between tries to watch while the API is in trouble
)

var (
	errSilent     = errors.New("the watch is silent: a read found a change that no event told of")
	errOpenSilent = fmt.Errorf("the watch did not open within %v", openTimeout)
	errShortLived = errors.New("the watch ends as soon as it is open")
)

// stream is one watched resource in one namespace. The waiter's lock guards it.
type stream struct {
	resource, namespace string

	ready    bool      // open, or replaced by polling
	polling  bool      // reads have to replace the watch
	alive    bool      // the watch has told something since it is open
	missed   time.Time // since when a read knows more than the watch told; zero: it does not
	silent   chan struct{}
	trouble  error     // of the last read; nil after a good one
	denied   time.Time // since when every read is refused; zero: not refused
	failures int       // tries to watch that failed in a row
	short    int       // watches that ended at once in a row
}

func newStream(resource, namespace string) *stream {
	return &stream{resource: resource, namespace: namespace, silent: make(chan struct{}, 1)}
}

// follow keeps the stream's watch open until ctx ends.
func (w *Waiter) follow(ctx context.Context, s *stream) {
	if w.opts.Mode == ModePoll {
		w.polls(s, nil)
		return
	}
	if s.resource == contentsResource {
		followAs(ctx, w, s, w.client.Contents(), "", func(e Event[Content], now time.Time) {
			w.contentEvent(&e.Object, e.Type == watch.Deleted, now)
		})
		return
	}
	followAs(ctx, w, s, w.client.Snapshots(), w.names.OwnerSelector(w.owner.UID), w.snapshotEvent)
}

const (
	snapshotsResource = "volumesnapshots"
	contentsResource  = "volumesnapshotcontents"
)

// snapshotEvent takes in an event: of a deleted snapshot first what it was, then that it is gone. Events may come late, so
// that one of another object of the same name says nothing, and that a snapshot is gone or replaced is confirmed by a read:
// it may also only have lost the label by which it is watched. Before it is known which object is meant, only reads count.
func (w *Waiter) snapshotEvent(e Event[Snapshot], now time.Time) {
	vs, gone := &e.Object, e.Type == watch.Deleted
	known := w.entries[vs.Ref()]
	switch {
	case known == nil:
		w.keepSnapshot(vs, gone)
		if gone {
			vs = nil
		}
		w.seeWork(e.Object.Ref(), vs)
	case !known.state.identified():
		w.readSnapshotAt(known, now)
	case known.state.UID != vs.UID:
		if !gone {
			w.confirmAt(known, now)
		}
	default:
		if !known.confirm {
			known.readSnapshot = time.Time{}
		}
		known.toldSnapshot = now
		w.sawSnapshot(known, vs, now)
		if gone && !vs.Terminating() && !known.ended {
			w.confirmAt(known, now)
		}
	}
}

func followAs[T any](ctx context.Context, w *Waiter, s *stream, r Resource[T], selector string, see func(Event[T], time.Time)) {
	for ctx.Err() == nil {
		open, err := openWatch(ctx, r, s.namespace, selector)
		started := time.Now()
		if err == nil {
			w.watches(s)
			err = consume(ctx, w, s, open.watch, see)
			open.stop()
		}
		if ctx.Err() != nil {
			return
		}
		if !sleepUntil(ctx, time.Now().Add(w.lost(s, err, time.Since(started))), nil) {
			return
		}
	}
}

// openedWatch is a watch and what ends it.
type openedWatch[T any] struct {
	watch *Watch[T]
	stop  func()
}

// openWatch opens a watch from the version of a list of one object, so that no event between the two is lost.
func openWatch[T any](ctx context.Context, r Resource[T], namespace, selector string) (openedWatch[T], error) {
	listCtx, done := context.WithTimeoutCause(ctx, openTimeout, errOpenSilent)
	page, err := r.List(listCtx, namespace, ListOptions{Selector: selector, Limit: 1})
	done()
	if err != nil {
		return openedWatch[T]{}, err
	}
	watchCtx, cancel := context.WithCancelCause(ctx)
	limit := time.AfterFunc(openTimeout, func() { cancel(errOpenSilent) })
	open, err := r.Watch(watchCtx, namespace, WatchOptions{Selector: selector, ResourceVersion: page.ResourceVersion})
	limit.Stop()
	if err == nil && watchCtx.Err() != nil {
		open.Stop()
		err = context.Cause(watchCtx)
	}
	if err != nil {
		if cause := context.Cause(watchCtx); errors.Is(cause, errOpenSilent) {
			err = cause
		}
		cancel(nil)
		return openedWatch[T]{}, err
	}
	return openedWatch[T]{watch: open, stop: func() { open.Stop(); cancel(nil) }}, nil
}

// consume takes events until the watch ends, and says why it did; nil is the ordinary end that servers give every watch.
func consume[T any](ctx context.Context, w *Waiter, s *stream, open *Watch[T], see func(Event[T], time.Time)) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.silent:
			return errSilent
		case raw, ok := <-open.ResultChan():
			if !ok {
				return nil
			}
			e := open.Decode(raw)
			if e.Err != nil {
				if apierrors.IsResourceExpired(e.Err) || apierrors.IsGone(e.Err) {
					return nil
				}
				return e.Err
			}
			now := time.Now()
			w.mu.Lock()
			s.alive, s.missed, s.short, s.failures = true, time.Time{}, 0, 0
			if e.Type != watch.Bookmark {
				see(e, now)
			}
			w.mu.Unlock()
			w.publish()
		}
	}
}

// watches notes that the stream's watch is open: what happened before is read.
func (w *Waiter) watches(s *stream) {
	now := time.Now()
	w.mu.Lock()
	again := s.ready
	if s.polling {
		w.events = append(w.events, event{change: s.change(ModeWatch, nil)})
	}
	s.polling, s.alive, s.missed = false, false, time.Time{}
	w.openedOne(s)
	if again {
		w.rereadStream(s, now)
	}
	w.mu.Unlock()
	w.publish()
	poke(w.wake)
}

// polls notes that reads have to replace the stream's watch.
func (w *Waiter) polls(s *stream, err error) {
	now := time.Now()
	w.mu.Lock()
	if !s.polling {
		s.polling = true
		if err != nil {
			w.read.restart(now)
			w.events = append(w.events, event{change: s.change(ModePoll, err)})
		}
	}
	w.openedOne(s)
	w.mu.Unlock()
	w.publish()
	poke(w.wake)
}

func (s *stream) change(m Mode, err error) *ModeChange {
	return &ModeChange{Resource: s.resource, Namespace: s.namespace, Mode: m, Err: err}
}

// openedOne closes Opened when no stream is left to open.
func (w *Waiter) openedOne(s *stream) {
	s.ready = true
	if w.isOpen() {
		closeOnce(w.opened)
	}
}

// lost decides how to go on after a watch ended or did not open: whether to poll meanwhile, and when to try again.
func (w *Waiter) lost(s *stream, err error, lived time.Duration) time.Duration {
	w.mu.Lock()
	alive := s.alive
	s.alive = false
	if err == nil && !alive && lived < shortLife {
		if s.short++; s.short >= shortLives {
			s.short, err = 0, errShortLived
		}
	}
	if err != nil {
		s.failures++
	}
	failures, retry := s.failures, w.opts.RetryWatch
	w.mu.Unlock()
	switch {
	case err == nil && lived < shortLife:
		return shortLife // whatever it told: one that ends with each event would be opened for each
	case err == nil:
		return 0
	case retriable(err) && !errors.Is(err, errSilent) && !errors.Is(err, errOpenSilent) && !errors.Is(err, errShortLived):
		retry = min(retry, lastReopen, time.Second<<min(failures-1, 4)) // API trouble, which passes
	case failures == 1 && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)):
		retry = min(retry, 2*time.Second) // a server that was just started refuses what it will allow
	}
	w.polls(s, err)
	return retry
}
