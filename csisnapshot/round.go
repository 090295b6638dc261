package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	maxGets     = 50 // contents read one by one; more are listed
	readsAtOnce = 8
	deniedFor   = 10 * time.Second // refused reads are believed after so long
)

// readLoop reads what is due until ctx ends.
func (w *Waiter) readLoop(ctx context.Context) {
	for {
		w.mu.Lock()
		r, next := w.plan(time.Now())
		w.mu.Unlock()
		if !r.empty() {
			w.readRound(ctx, r)
			w.publish()
			if ctx.Err() != nil {
				return
			}
			continue
		}
		if !sleepUntil(ctx, next, w.wake) {
			return
		}
	}
}

// readRound is one LIST of our snapshots for each namespace, then GETs of contents, or one LIST if they are many.
func (w *Waiter) readRound(ctx context.Context, r round) {
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for _, namespace := range r.namespaces {
		group.Go(func() error { w.readSnapshots(ctx, namespace, r.safety); return nil })
	}
	_ = group.Wait() // trouble is noted with its stream
	w.confirm(ctx, r.confirm)
	w.readContents(ctx, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again(r.out, time.Now())
}

// again arranges another read of what could not be read.
func (w *Waiter) again(out []*entry, now time.Time) {
	failed := false
	delay := min(lastReopen, time.Second<<min(w.read.failures, 4))
	for _, e := range out {
		if at := e.nextRead(); !e.ended && due(at, now) {
			failed = true
			if due(e.readSnapshot, now) {
				e.readSnapshot = now.Add(delay)
			}
			if due(e.readContent, now) {
				e.readContent = now.Add(delay)
			}
		}
		if !e.ended && !e.nextRead().IsZero() {
			w.read.queue(e)
		}
	}
	if failed {
		w.read.failures++
	} else {
		w.read.failures = 0
	}
}

// readSnapshots lists the owner's snapshots of a namespace. One that is missing is asked for by name before it counts
// as gone: its label may have been removed.
func (w *Waiter) readSnapshots(ctx context.Context, namespace string, safety bool) {
	before, trail, began := w.inNamespace(namespace)
	found := map[Ref]*Snapshot{}
	err := listPages(ctx, w.call, w.client.Snapshots(), namespace, w.names.OwnerSelector(w.owner.UID), func(vs Snapshot) {
		if _, wanted := before[vs.Ref()]; wanted || slices.Contains(trail, vs.Ref()) {
			found[vs.Ref()] = &vs
		}
	})
	s := w.stream(snapshotsResource, namespace)
	now := time.Now()
	w.mu.Lock()
	w.noteRead(s, err, now)
	if err == nil {
		for _, ref := range trail {
			w.seeTrail(ref, found[ref])
		}
	}
	var missing []Ref
	for _, ref := range slices.SortedFunc(maps.Keys(before), Ref.Compare) {
		e, vs := before[ref], found[ref]
		switch {
		case err != nil || e.ended || w.entries[ref] != e:
		case vs == nil:
			missing = append(missing, ref)
		default:
			expected := e.readSnapshot.IsZero()
			if w.readOf(ref, vs, began, now) && expected && safety && !s.polling {
				s.missed = sooner(s.missed, now)
			}
		}
	}
	w.mu.Unlock()
	w.confirm(ctx, missing)
}

// confirm reads snapshots by name.
func (w *Waiter) confirm(ctx context.Context, refs []Ref) {
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for _, ref := range refs {
		group.Go(func() error {
			var vs Snapshot
			began := time.Now()
			err := w.call(ctx, func(ctx context.Context) (err error) {
				vs, err = w.client.Snapshots().Get(ctx, ref.Namespace, ref.Name)
				return err
			})
			now := time.Now()
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case err == nil:
				w.readOf(ref, &vs, began, now)
			case isGone(err):
				w.readOf(ref, nil, began, now)
			default:
				w.noteRead(w.stream(snapshotsResource, ref.Namespace), err, now)
			}
			return nil
		})
	}
	_ = group.Wait() // trouble is noted with the stream
}

// isGone reports whether the answer says that the object does not exist; an answer that names no object says that the
// resource does not.
func isGone(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name != ""
}

// inNamespace is what a read of a namespace that begins now is for.
func (w *Waiter) inNamespace(namespace string) (waiting map[Ref]*entry, trail []Ref, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting = maps.Clone(w.entries)
	maps.DeleteFunc(waiting, func(ref Ref, _ *entry) bool { return ref.Namespace != namespace })
	return waiting, w.trailIn(namespace), time.Now()
}

// call makes one request within its own time.
func (w *Waiter) call(ctx context.Context, request func(context.Context) error) error {
	cause := fmt.Errorf("no answer within %v", w.opts.CallTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, w.opts.CallTimeout, cause)
	defer cancel()
	err := request(ctx)
	if err != nil && errors.Is(context.Cause(ctx), cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func (w *Waiter) stream(resource, namespace string) *stream {
	for _, s := range w.streams {
		if s.resource == resource && s.namespace == namespace {
			return s
		}
	}
	return w.streams[len(w.streams)-1]
}

// noteRead keeps how a read went. Refusals that last are believed where no watch tells what reads cannot.
func (w *Waiter) noteRead(s *stream, err error, now time.Time) {
	if err != nil {
		err = fmt.Errorf("read %s: %w", s.resource, err)
	}
	s.trouble = err
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		w.read.pause = now.Add(time.Duration(seconds) * time.Second)
	}
	if err == nil || !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		s.denied = time.Time{}
		return
	}
	if s.denied.IsZero() {
		s.denied = now
	}
	if now.Sub(s.denied) < deniedFor {
		return
	}
	for _, e := range w.sorted() {
		if e.hangsOn(s) {
			w.end(e, ErrForbidden, DiagnosisUnreadable, err, now)
		}
	}
}

// hangsOn reports whether nothing but reads of the stream can tell how the entry goes on. What a watch has not told of a
// content whose snapshot says that it was made, it will not tell.
func (e *entry) hangsOn(s *stream) bool {
	if s.resource == contentsResource {
		return !e.state.Cut && (s.polling || e.hinted && !e.readContent.IsZero())
	}
	return s.polling && s.namespace == e.state.Ref.Namespace
}

// trouble is what reads failed of last, and a classifier that does not return; nil if there is none.
func (w *Waiter) trouble() error {
	return errors.Join(w.unjudged, w.unread())
}

// unread is what reads failed of last; nil if they did not.
func (w *Waiter) unread() error {
	var all []error
	for _, s := range w.streams {
		all = append(all, s.trouble)
	}
	return errors.Join(all...)
}

// keys are the keys of a set in order.
func keys[K comparable](set map[K]bool, less func(a, b K) bool) []K {
	return slices.SortedFunc(maps.Keys(set), func(a, b K) int {
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		default:
			return 0
		}
	})
}
