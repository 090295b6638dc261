package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
)

// Waiter waits for any number of one owner's snapshots with one watch a namespace and one for contents. A run is:
// start [Waiter.Run] in a goroutine, wait for [Waiter.Opened], create snapshots and [Waiter.Add] each, wait on what Add
// returns, [Waiter.Close], and wait for Run. [Waiter.Wait] does all this for snapshots that exist. A waiter is used
// once. Its methods are safe for concurrent use.
type Waiter struct {
	client     Client
	opts       WaitOptions
	owner      Owner
	names      Names
	namespaces []string
	opened     chan struct{} // closed when no stream is opening any more
	wake       chan struct{} // capacity 1: the reader looks again
	tick       chan struct{} // capacity 1: the clock looks again
	ask        chan struct{} // capacity 1: the classifier has to be asked
	asker      asker
	publishing sync.Mutex          // held while events are handed on, in their order; no function of the user's is called under it
	follower   func(Result, error) // of the Cut that the waiter works for, told before the user; nil: none. It returns at once
	worked     func(Ref)           // the same Cut is told when the snapshot-controller has done its work on a snapshot that is cut

	mu       sync.Mutex  // guards what follows; no I/O and no callback under it
	running  bool        // Run was called
	user     *dispatcher // calls the user's functions; nil: nobody hears
	closing  bool
	stopped  error // why Run has ended; nil while it may go on
	entries  map[Ref]*entry
	uids     map[types.UID]*entry
	trail    map[Ref]*entry      // cut and not waited for any more, with work left for the snapshot-controller
	early    map[identity]*early // told of before they were added
	added    map[identity]bool   // all that ever were
	drivers  map[string]*driverClock
	streams  []*stream
	events   []event
	read     readClock
	doubtful []*entry  // the classifier is to be asked about
	unjudged error     // the classifier did not return; nil: it did
	check    time.Time // when expiries are looked at next; zero: nothing is waited for
}

// NewWaiter makes a waiter for the owner's snapshots in the namespaces. It sends no request.
func NewWaiter(c Client, opts WaitOptions, owner Owner, names Names, namespaces []string) (*Waiter, error) {
	var faults []error
	if c == nil {
		faults = append(faults, errors.New("client is nil"))
	}
	faults = append(faults, opts.Validate(), names.Validate())
	if owner.UID == "" {
		faults = append(faults, errors.New("owner: UID is empty"))
	}
	if slices.Contains(namespaces, "") {
		faults = append(faults, errors.New("namespaces: one is empty"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("waiter: %w", err)
	}
	w := &Waiter{
		client: c, opts: opts.withDefaults(), owner: owner, names: names,
		namespaces: slices.Compact(slices.Sorted(slices.Values(namespaces))),
		opened:     make(chan struct{}), wake: make(chan struct{}, 1), tick: make(chan struct{}, 1), ask: make(chan struct{}, 1),
		asker:   asker{classifier: opts.Classifier},
		entries: map[Ref]*entry{}, trail: map[Ref]*entry{}, uids: map[types.UID]*entry{}, early: map[identity]*early{}, added: map[identity]bool{}, drivers: map[string]*driverClock{},
	}
	for _, namespace := range w.namespaces {
		w.streams = append(w.streams, newStream(snapshotsResource, namespace))
	}
	w.streams = append(w.streams, newStream(contentsResource, ""))
	return w, nil
}

// Opened is closed when every watch is open, or replaced by polling: what is created afterwards is not missed. It is
// also closed when Run ends.
func (w *Waiter) Opened() <-chan struct{} {
	if w.made() != nil {
		return closed()
	}
	return w.opened
}

// closed is a channel that nobody waits on.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Run watches and reads until ctx ends or, after [Waiter.Close], nothing is waited for any more, and ends every wait
// that is left. Its error is nil, or says why it ended early, or is [ErrAbandoned] when the classifier or a function of
// [WaitEvents] did not return; the waits have errors of their own. It may be called once.
func (w *Waiter) Run(ctx context.Context) error {
	if err := w.start(); err != nil {
		return err
	}
	if w.opts.MaxWait > 0 {
		cause := fmt.Errorf("MaxWait of %v is over: %w", w.opts.MaxWait, context.DeadlineExceeded)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.opts.MaxWait, cause)
		defer cancel()
	}
	group, inner := errgroup.WithContext(ctx)
	inner, stop := context.WithCancelCause(inner)
	defer stop(nil)
	for _, s := range w.streams {
		group.Go(func() error { w.follow(inner, s); return nil })
	}
	group.Go(func() error { w.readLoop(inner); return nil })
	group.Go(func() error { w.verdictLoop(inner); return nil })
	group.Go(func() error {
		w.clockLoop(inner)
		stop(errWaiterDone)
		return nil
	})
	_ = group.Wait() // nothing in it fails: trouble is kept by the streams, and the waits end with it
	return w.finish(ctx)
}

// errWaiterDone stops the streams when nothing is left to wait for.
var errWaiterDone = errors.New("nothing left to wait for")

func (w *Waiter) start() error {
	if err := w.made(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running || w.stopped != nil {
		return errors.New("a waiter is used once: Run was called before")
	}
	w.running = true
	w.openEvents()
	return nil
}

// finish ends what is still waited for.
func (w *Waiter) finish(ctx context.Context) error {
	w.mu.Lock()
	cause := context.Cause(ctx)
	w.stopped = errors.Join(errors.New("a waiter is used once: its Run has ended"), cause)
	for _, e := range w.sorted() {
		w.end(e, endCategory(ctx), w.timeoutDiagnosis(e), errors.Join(cause, w.trouble()), time.Now())
	}
	select {
	case <-w.opened:
	default:
		close(w.opened)
	}
	unjudged := w.unjudged
	w.mu.Unlock()
	if err := errors.Join(cause, unjudged, w.closeEvents()); err != nil {
		return fmt.Errorf("wait for snapshots: %w", err)
	}
	return nil
}

// endCategory is the category of a wait whose context has ended.
func endCategory(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return ErrTimeout
	}
	return ErrCanceled
}

// Close says that no snapshot will be added any more: Run returns as soon as every wait has ended. It may be called
// more than once.
func (w *Waiter) Close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	poke(w.tick)
}

// poke wakes the goroutine behind a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
