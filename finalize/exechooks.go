package finalize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// ExecHook is a command that a restore runs in a container once the pod is up.
type ExecHook struct {
	Namespace, Pod, Container, Name string
}

// String returns NAMESPACE/POD, container CONTAINER, hook NAME.
func (h ExecHook) String() string {
	return fmt.Sprintf("%s/%s, container %s, hook %s", h.Namespace, h.Pod, h.Container, h.Name)
}

func (h ExecHook) compare(g ExecHook) int {
	return cmp.Or(strings.Compare(h.Namespace, g.Namespace), strings.Compare(h.Pod, g.Pod), strings.Compare(h.Container, g.Container), strings.Compare(h.Name, g.Name))
}

// ExecState is what became of an [ExecHook]. The zero value says that it is not recorded yet.
type ExecState string

// The closed set of states.
const (
	ExecPending  ExecState = ""
	ExecExecuted ExecState = "executed"
	// ExecSkipped hooks were not run on purpose.
	ExecSkipped ExecState = "skipped"
	// ExecNotFound hooks have no pod or container, or nobody recorded them in time.
	ExecNotFound ExecState = "not found"
)

// ExecRecord is one hook and what became of it.
type ExecRecord struct {
	Hook  ExecHook
	State ExecState
	// Err is why it failed or was not found; nil for one that succeeded.
	Err error
}

// ExecTracker keeps what becomes of the hooks of one restore, in memory. What the restore adds when it creates a pod,
// whoever runs the hooks records, once for each. The zero value is ready to use. It is safe for concurrent use, and holds no
// lock while it calls anything.
type ExecTracker struct {
	mu  sync.Mutex // protects all
	all map[ExecHook]ExecRecord
}

// Add tracks hooks. One that is tracked already keeps what is recorded of it.
func (t *ExecTracker) Add(hooks ...ExecHook) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range hooks {
		if _, ok := t.all[h]; !ok {
			t.put(ExecRecord{Hook: h})
		}
	}
}

// Record notes what became of a hook and reports whether that was news: the first record of a hook stays. One that was not
// added is tracked too. [ExecPending] records nothing.
func (t *ExecTracker) Record(hook ExecHook, state ExecState, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state == ExecPending || t.all[hook].State != ExecPending {
		return false
	}
	t.put(ExecRecord{Hook: hook, State: state, Err: err})
	return true
}

func (t *ExecTracker) put(r ExecRecord) {
	if t.all == nil {
		t.all = map[ExecHook]ExecRecord{}
	}
	t.all[r.Hook] = r
}

// Records returns all hooks, sorted by namespace, pod, container and name.
func (t *ExecTracker) Records() []ExecRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]ExecRecord, 0, len(t.all))
	for _, r := range t.all {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b ExecRecord) int { return a.Hook.compare(b.Hook) })
	return out
}

// errNotRecorded is the fault of a hook that nobody recorded.
var errNotRecorded = errors.New("nobody has told what became of it")

// WaitExecHooks returns the hook "wait-exec-hooks", which comes back until every hook that the tracker has is recorded, and
// at the latest after timeout, counted from its first call in this process; zero or less means 10 minutes. What is not
// recorded by then it records as [ExecNotFound]. Errors of the report, by pod: a hook that failed or was not found. It
// never blocks: one restore whose hooks hang delays no other. [New] refuses it when tracker is nil.
func WaitExecHooks(tracker *ExecTracker, timeout time.Duration, after ...string) Hook {
	if timeout <= 0 {
		timeout = defaultItemTimeout
	}
	var began time.Time
	h := Hook{Name: "wait-exec-hooks", After: after, Run: func(context.Context) error {
		now := time.Now()
		if began.IsZero() {
			began = now
		}
		over := now.Sub(began) >= timeout
		var faults []error
		waits, last := 0, ExecHook{}
		for _, r := range tracker.Records() {
			if r.State == ExecPending && !over {
				waits++
				last = r.Hook
				continue
			}
			if r.State == ExecPending {
				r.State, r.Err = ExecNotFound, fmt.Errorf("%w in %v", errNotRecorded, timeout)
				tracker.Record(r.Hook, r.State, r.Err)
			}
			faults = append(faults, r.fault())
		}
		if waits > 0 {
			pause := min(max(now.Sub(began)/10, minPause), maxPause, timeout-now.Sub(began))
			faults = append(faults, Later(pause, fmt.Sprintf("%d hooks are not recorded, %s", waits, last)))
			return errors.Join(faults...)
		}
		return Permanent(errors.Join(faults...))
	}}
	if tracker == nil {
		h = h.need("tracker", nil)
	}
	return h
}

func (r ExecRecord) fault() error {
	item := func(err error) error {
		return Item(r.Hook.Namespace, r.Hook.Pod, fmt.Errorf("container %s, hook %s: %w", r.Hook.Container, r.Hook.Name, err))
	}
	switch {
	case r.State == ExecNotFound:
		return item(cmp.Or(r.Err, errors.New("not found")))
	case r.Err != nil && r.State == ExecSkipped:
		return Warning(item(fmt.Errorf("skipped: %w", r.Err)))
	case r.Err != nil:
		return item(r.Err)
	}
	return nil
}
