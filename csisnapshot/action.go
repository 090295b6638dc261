package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sheetanchor/sheetanchor/operations"
)

// Action answers for the operations of snapshots: an operation is completed when its snapshot is ready to use with a
// handle, and failed when the snapshot was deleted or replaced or its error is final. A snapshot of the name that was
// created after the start in the operation's ID is not the operation's. It waits for nothing and starts
// nothing: every call reads the cluster once, or not at all while [Action.Run] watches it, and operations that go on for too long are the poller's to end.
//
// It remembers what it saw of each operation for an hour after it was last asked. What it has called completed stays
// completed for as long, also when the snapshot is released meanwhile; the record of operations keeps it for ever.
//
// CSI cannot cancel a snapshot. Cancel writes an annotation on the snapshot, and Progress answers canceled from then on;
// a snapshot that Cancel finds ready is not canceled. Deleting the objects is [Snapshotter.Destroy]'s work.
type Action struct {
	client Client
	names  Names
	opts   WaitOptions
	asker  asker

	mu      sync.Mutex // guards what follows
	known   map[string]*memory
	swept   time.Time         // when known was last looked through
	running bool              // Run is
	open    time.Time         // since when the watch of Run is; zero: it is not
	changes map[Ref]time.Time // told by that watch
}

var _ operations.ManyAction = (*Action)(nil)

// memory is what the action saw of one operation.
type memory struct {
	state    State
	asked    time.Time
	began    time.Time // when the read behind progress began; zero: nothing was read
	progress operations.Progress
}

// forgetAfter is how long an operation is remembered that nobody asks for.
const forgetAfter = time.Hour

// sweepAfter is how long nobody looks for what is to be forgotten.
const sweepAfter = 5 * time.Minute

// NewAction makes an action. Of the options it uses Classifier and CallTimeout, and [Action.Run] uses Schedule, SafetyRead and
// RetryWatch. It sends no request.
func NewAction(c Client, names Names, opts WaitOptions) (*Action, error) {
	if c == nil {
		return nil, errors.New("action: client is nil")
	}
	if err := errors.Join(names.Validate(), opts.Validate()); err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	return newAction(c, names, opts.withDefaults()), nil
}

func newAction(c Client, names Names, opts WaitOptions) *Action {
	return &Action{client: c, names: names, opts: opts, asker: asker{classifier: opts.Classifier}, known: map[string]*memory{}}
}

// Action answers for the operations of [Report.Operations], for the poller of package operations. Each call makes one
// with a memory of its own.
func (s *Snapshotter) Action() operations.ManyAction {
	if s == nil {
		return &Action{} // whose calls say so
	}
	return newAction(s.snaps, s.opts.Names, s.opts.Wait)
}

// Progress reads one snapshot and its content.
func (a *Action) Progress(ctx context.Context, operationID string) (operations.Progress, error) {
	all, err := a.ProgressMany(ctx, []string{operationID})
	if err != nil {
		return operations.Progress{}, err
	}
	return all[operationID].Progress, all[operationID].Err
}

// ProgressMany answers for all operations with one list of snapshots for each namespace, and one read of each content
// that is not known to be cut, or one list of contents if those are more than 50.
func (a *Action) ProgressMany(ctx context.Context, ids []string) (map[string]operations.ProgressResult, error) {
	if err := a.made(); err != nil {
		return nil, err
	}
	answers := make(map[string]operations.ProgressResult, len(ids))
	byNamespace := map[string][]*asked{}
	now := time.Now()
	for _, id := range ids {
		ref, err := ParseOperationID(id)
		switch {
		case err != nil:
			answers[id] = operations.ProgressResult{Err: operations.Permanent(err)}
		default:
			q := &asked{id: id, ref: ref, began: now, state: a.recall(id, ref, now)}
			if q.state.Ready {
				answers[id] = operations.ProgressResult{Progress: q.progress()}
				continue
			}
			if p, ok := a.fresh(id, ref, now); ok {
				answers[id] = operations.ProgressResult{Progress: p}
				continue
			}
			byNamespace[ref.Namespace] = append(byNamespace[ref.Namespace], q)
		}
	}
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	var all []*asked
	for namespace, questions := range byNamespace {
		all = append(all, questions...)
		group.Go(func() error { a.readSnapshots(ctx, namespace, questions); return nil })
	}
	_ = group.Wait() // each question has its own error
	slices.SortFunc(all, func(x, y *asked) int { return x.ref.Compare(y.ref) })
	a.readContents(ctx, all)
	for _, q := range all {
		answers[q.id] = a.answer(ctx, q)
	}
	return answers, nil
}

// asked is one operation that is asked for.
type asked struct {
	id       string
	ref      Ref
	began    time.Time
	state    State
	snapshot *Snapshot // nil with a nil err: there is none
	newer    bool      // snapshot is not the operation's, but one that was made later
	content  *Content
	err      error
}

// recall is what was seen of the operation before.
func (a *Action) recall(id string, ref Ref, now time.Time) State {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.swept) > sweepAfter {
		a.swept = now
		maps.DeleteFunc(a.known, func(_ string, m *memory) bool { return now.Sub(m.asked) > forgetAfter })
	}
	m := a.known[id]
	if m == nil {
		m = &memory{state: NewState(Target{Ref: ref})}
		a.known[id] = m
	}
	m.asked = now
	return m.state
}

// answer judges what was read and remembers it.
func (a *Action) answer(ctx context.Context, q *asked) operations.ProgressResult {
	if q.err != nil {
		return operations.ProgressResult{Err: q.err}
	}
	if q.snapshot != nil && a.names.OwnerOf(q.snapshot.Meta) == "" {
		err := fmt.Errorf("snapshot %s: %w", q.ref, ErrForeign)
		return operations.ProgressResult{Err: operations.Permanent(err)}
	}
	if q.newer {
		q.state.End = ErrReplaced
		return operations.ProgressResult{Progress: operations.Progress{State: operations.StateFailed, Error: q.state.endText(), Total: 1, Units: units}}
	}
	if q.snapshot != nil {
		q.state.Driver = driverOf(q.content, q.state.Driver)
	}
	q.state = Judge(q.state, Look{Snapshot: q.snapshot, Content: q.content, Classifier: a.asker.within(ctx), Now: time.Now()})
	canceled := q.snapshot != nil && q.snapshot.UID == q.state.UID && q.snapshot.Annotations[a.names.cancelKey()] != ""
	if canceled {
		return operations.ProgressResult{Progress: operations.Progress{
			State: operations.StateCanceled, Error: "canceled by request", Started: q.snapshot.Created, Total: 1, Units: units,
		}}
	}
	p := q.progress()
	a.mu.Lock()
	a.known[q.id] = &memory{state: q.state, asked: time.Now(), began: q.began, progress: p}
	a.mu.Unlock()
	return operations.ProgressResult{Progress: p}
}

// driverOf is the driver that the classifier is told: the content's, while nothing better is known.
func driverOf(vsc *Content, known string) string {
	if known == "" && vsc != nil {
		return vsc.Driver
	}
	return known
}

// units is what the progress of a snapshot counts.
const units = "snapshots"

// progress says what the state means for the operation. It holds nothing that changes by itself with time.
func (q *asked) progress() operations.Progress {
	s := q.state
	p := operations.Progress{State: operations.StateRunning, Total: 1, Units: units, Description: s.describe()}
	if q.snapshot != nil {
		p.Started, p.Updated = q.snapshot.Created, q.snapshot.Created
	}
	if s.CreationTime != nil && s.CreationTime.After(p.Updated) {
		p.Updated = *s.CreationTime
	}
	switch {
	case s.Ready:
		p.State, p.Completed = operations.StateCompleted, 1
	case s.End != nil:
		p.State, p.Error = operations.StateFailed, s.endText()
	}
	return p
}

// endText is why the snapshot failed.
func (s State) endText() string {
	text := fmt.Sprintf("snapshot %s: %v", s.Ref, s.End)
	if s.LastError != "" {
		text += ": " + s.LastError
	}
	return text
}

// describe says in a few words where the snapshot is.
func (s State) describe() string {
	switch {
	case s.Ready:
		return "ready to use"
	case s.Diagnosis == DiagnosisError:
		return "error, the driver's sidecar retries: " + s.LastError
	case s.Diagnosis != DiagnosisNone:
		return string(s.Diagnosis)
	case s.Cut:
		return "cut, not ready to use yet"
	default:
		return "being cut"
	}
}

// cancelKey is the annotation of a snapshot whose operation was canceled.
func (n Names) cancelKey() string { return n.key("canceled") }
