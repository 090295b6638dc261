package operations_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// The times of the model. Past calm the store works; what the actions do stays as it is.
const (
	modelDeadline, modelGrace = 10 * time.Minute, 2 * time.Minute
	modelCalm                 = modelDeadline + modelGrace
	modelSlack                = 2 * time.Minute // calls under way, a restart, a write
)

// world is what is true outside of the pollers: how far each job is, and what the actions have told.
type world struct {
	mu      sync.Mutex
	rng     *rand.Rand
	start   time.Time
	release chan struct{} // closed at the end: callbacks that were left behind return
	jobs    map[string]*job
	faults  []string
}

// job is the truth about one operation.
type job struct {
	ends      time.Duration // its age then, unless it was stopped; negative: never
	how       operations.State
	obeys     time.Duration // how long it takes to stop; negative: it does not
	stopAt    time.Time
	final     operations.State
	told      map[operations.State]bool // what an action has answered, or is about to
	permanent bool                      // an action has answered, or is about to, that no answer will come
}

func newWorld(seed, n int) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(uint64(seed), 7)), start: time.Now(), release: make(chan struct{}), jobs: map[string]*job{},
	}
	for i := range n {
		j := &job{ends: time.Duration(w.rng.IntN(900)) * time.Second, obeys: time.Duration(w.rng.IntN(150)) * time.Second, told: map[operations.State]bool{}}
		j.how = []operations.State{operations.StateCompleted, operations.StateCompleted, operations.StateFailed}[w.rng.IntN(3)]
		if w.rng.IntN(4) == 0 {
			j.ends = -1
		}
		if w.rng.IntN(4) == 0 {
			j.obeys = -1
		}
		w.jobs[fmt.Sprint("op", i)] = j
	}
	return w
}

// operations returns those that the jobs are recorded as; some are parts of an earlier one.
func (w *world) operations() []operations.Operation {
	var out []operations.Operation
	for i := range len(w.jobs) {
		o := op(fmt.Sprint("op", i))
		o.Action = []string{"one", "many"}[w.dice(2)]
		if i > 0 && w.dice(2) == 0 {
			o.Parent = fmt.Sprint("op", w.dice(i))
		}
		out = append(out, o)
	}
	return out
}

func (w *world) dice(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) faultf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf("+%v ", time.Since(w.start))+fmt.Sprintf(format, args...))
}

// truth says how far the job is, and remembers that it was said.
func (w *world) truth(id string) operations.Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	j, age := w.jobs[id], time.Since(w.start)
	if j.final == "" && j.ends >= 0 && age >= j.ends {
		j.final = j.how
	}
	if j.final == "" && !j.stopAt.IsZero() && !time.Now().Before(j.stopAt) {
		j.final = operations.StateCanceled
	}
	if j.final != "" {
		j.told[j.final] = true
		return operations.Progress{State: j.final}
	}
	return operations.Progress{State: operations.StateRunning, Completed: int64(age.Seconds()), Total: 1000}
}

// stop asks the job to stop.
func (w *world) stop(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[id]; j.obeys >= 0 && j.stopAt.IsZero() {
		j.stopAt = time.Now().Add(j.obeys)
	}
}

// misbehave does, on some calls, what an action should not do, and otherwise takes some time.
func (w *world) misbehave(ctx context.Context) error {
	luck := w.dice(40)
	if luck >= 7 {
		return wait(ctx, time.Duration(w.dice(1500))*time.Millisecond)
	}
	switch luck {
	case 0:
		panic("the action broke")
	case 1:
		runtimeGoexit()
	case 2: // hangs
		<-ctx.Done()
		return context.Cause(ctx)
	case 3: // does not hear the end of ctx
		timer := time.NewTimer(time.Duration(w.dice(300)) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.release:
		}
	case 4: // never comes back
		if w.dice(4) == 0 {
			<-w.release
		}
	}
	return errAny
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// witness is what one incarnation of a process sees: its calls and what its hook was told.
type witness struct {
	w       *world
	mu      sync.Mutex
	running map[string]int
	stopped map[string]int
	ended   map[string]int
}

func newWitness(w *world) *witness {
	return &witness{w: w, running: map[string]int{}, stopped: map[string]int{}, ended: map[string]int{}}
}

func (v *witness) enter(ids ...string) func() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		if v.running[id]++; v.running[id] > 1 {
			v.w.faultf("%s: %d callbacks at the same time", id, v.running[id])
		}
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, id := range ids {
			v.running[id]--
		}
	}
}

func (v *witness) changed(_ context.Context, _ operations.Key, o operations.Operation) {
	if !o.Status.Phase.IsTerminal() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended[o.ID]++; v.ended[o.ID] > 1 {
		v.w.faultf("%s: told %d times that it ended", o.ID, v.ended[o.ID])
	}
}

func (v *witness) Progress(ctx context.Context, id string) (operations.Progress, error) {
	defer v.enter(id)()
	if err := v.w.misbehave(ctx); err != nil {
		return operations.Progress{}, err
	}
	switch v.w.dice(60) {
	case 0:
		return operations.Progress{State: "Paused"}, nil
	case 1:
		v.w.mu.Lock()
		v.w.jobs[id].permanent = true
		v.w.mu.Unlock()
		return operations.Progress{}, operations.Permanent(errAny)
	}
	return v.w.truth(id), nil
}

func (v *witness) Cancel(ctx context.Context, id string) error {
	defer v.enter(id)()
	if err := v.w.misbehave(ctx); err != nil {
		return err
	}
	v.w.stop(id)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopped[id]++; v.stopped[id] > 1 && ctx.Err() == nil {
		v.w.faultf("%s: asked to stop %d times", id, v.stopped[id])
	}
	return nil
}

// manyWitness answers for many at once, and leaves some out.
type manyWitness struct{ *witness }

func (v manyWitness) ProgressMany(ctx context.Context, ids []string) (map[string]operations.ProgressResult, error) {
	defer v.enter(ids...)()
	if err := v.w.misbehave(ctx); err != nil {
		return nil, err
	}
	out := map[string]operations.ProgressResult{}
	for _, id := range ids {
		if v.w.dice(20) > 0 {
			out[id] = operations.ProgressResult{Progress: v.w.truth(id)}
		}
	}
	return out, nil
}

// watchedStore is a store of a model; it looks at every document that is in the store between two calls.
type watchedStore struct {
	operations.Store
	w   *world
	mem *operations.MemoryStore

	mu      sync.Mutex
	last    operations.List
	version string
	writes  int
	ended   map[string]time.Time
}

func (s *watchedStore) inner() operations.Store {
	if time.Since(s.w.start) > modelCalm {
		return s.mem
	}
	return s.Store
}

func (s *watchedStore) Read(ctx context.Context, name string) ([]byte, string, error) {
	defer s.look(ctx, name)
	return s.inner().Read(ctx, name)
}

func (s *watchedStore) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	defer s.look(ctx, name)
	s.mu.Lock()
	s.writes++
	s.mu.Unlock()
	return s.inner().Write(ctx, name, data, old)
}

// look checks what the store holds now against what it held before.
func (s *watchedStore) look(ctx context.Context, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, version, err := s.mem.Read(context.WithoutCancel(ctx), name)
	if err != nil || version == s.version {
		return
	}
	list, err := operations.BackupForm.Decode(testKey, data)
	if err != nil {
		s.w.faultf("a document cannot be read: %v", err)
		return
	}
	for o := range list.All() {
		old, _ := s.last.Get(o.ID)
		switch {
		case old.Status.Phase.IsTerminal() && old.Status.Phase != o.Status.Phase:
			s.w.faultf("%s: was %s and is %s", o.ID, old.Status.Phase, o.Status.Phase)
		case old.Status.CancelRequested != nil && o.Status.CancelRequested == nil:
			s.w.faultf("%s: the request to stop is lost", o.ID)
		case o.Status.Phase.IsTerminal() && !old.Status.Phase.IsTerminal():
			s.ended[o.ID] = time.Now()
			s.w.explains(o)
		}
		parent, ok := list.Get(o.Parent)
		if ok && isFailed(parent.Status.Phase) && !o.Status.Phase.IsTerminal() && o.Status.CancelRequested == nil {
			s.w.faultf("%s: its parent %s is %s, and it was not asked to stop", o.ID, parent.ID, parent.Status.Phase)
		}
	}
	s.last, s.version = list, version
}

func isFailed(p operations.Phase) bool { return p.IsTerminal() && p != operations.PhaseCompleted }

// explains checks that an operation ended for a reason.
func (w *world) explains(o operations.Operation) {
	w.mu.Lock()
	j := w.jobs[o.ID]
	ok := map[operations.Phase]bool{
		operations.PhaseCompleted: j.told[operations.StateCompleted],
		operations.PhaseFailed:    j.told[operations.StateFailed] || j.permanent,
		operations.PhaseCanceled:  j.told[operations.StateCanceled],
		operations.PhaseAbandoned: o.Status.CancelRequested != nil && time.Since(*o.Status.CancelRequested) >= modelGrace,
	}[o.Status.Phase]
	w.mu.Unlock()
	if !ok {
		w.faultf("%s: ended as %s (%s) without a reason", o.ID, o.Status.Phase, o.Status.Error)
	}
}

func modelPoller(v *witness, store operations.Store) (*operations.Poller, error) {
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		return nil, err
	}
	return operations.NewPoller(m, map[string]operations.Action{"one": v, "many": manyWitness{v}}, operations.PollerOptions{
		Fast: 5 * time.Second, FastFor: time.Minute, Slow: 20 * time.Second, Jitter: 0.2,
		CallTimeout: 10 * time.Second, CallGrace: time.Second, Concurrency: 2, ErrorBudget: 3 * time.Minute,
		Deadline: modelDeadline, CancelGrace: modelGrace, StallWindow: time.Minute, StoreTimeout: 5 * time.Second,
		Hooks: operations.PollerHooks{Changed: v.changed},
	})
}

// process polls until nothing runs. It crashes now and then: its calls end and all that it knew is gone.
func (w *world) process(ctx context.Context, store operations.Store) (lives int) {
	for lives = 1; ; lives++ {
		v := newWitness(w)
		p, err := modelPoller(v, store)
		if err != nil {
			w.faultf("%v", err)
			return lives
		}
		life, die := context.WithTimeout(ctx, time.Duration(10+w.dice(600))*time.Second)
		sum, err := p.Run(life, testKey)
		die()
		switch {
		case err == nil && (sum.Running > 0 || sum.Total != len(w.jobs)):
			w.faultf("Run is done with %+v", sum)
			return lives
		case err == nil:
			return lives
		case time.Since(w.start) > modelCalm+modelSlack:
			w.faultf("Run has not ended: %+v, %v", sum, err)
			return lives
		}
		if err := wait(ctx, time.Duration(w.dice(10))*time.Second); err != nil {
			return lives
		}
	}
}

// meddle asks for cancellation from outside.
func (w *world) meddle(ctx context.Context, store operations.Store) {
	for range 2 {
		if wait(ctx, time.Duration(w.dice(600))*time.Second) != nil || w.dice(3) > 0 {
			continue
		}
		p, err := modelPoller(newWitness(w), store)
		if err != nil {
			w.faultf("%v", err)
			return
		}
		id := fmt.Sprint("op", w.dice(len(w.jobs)))
		if err := p.Cancel(ctx, testKey, "a user asked", id); errors.Is(err, operations.ErrUnknownOperation) {
			w.faultf("Cancel: %v", err)
		}
	}
}

// O6, O9, O10, O11, X1, ops-7, ops-8, ops-14, ops-22: whatever actions and stores do, wherever a process dies, and with
// two of them: each operation ends once, for a reason, in its time; no end is ever overwritten; children of what failed
// are asked to stop in the same write; there is at most one callback for an operation; a request to stop that arrived
// is not repeated; writes are as few as they can be; and nothing is left running.
func TestPollerModel(t *testing.T) {
	t.Parallel()
	lives, ended := 0, 0
	seeds := 5 * *modelSeeds
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			n := 1 + seed%5
			w := newWorld(seed, n)
			mem := operations.NewMemoryStore()
			store := &watchedStore{Store: mem, w: w, mem: mem, ended: map[string]time.Time{}}
			ops := w.operations()
			mustUpdate(t, newMap(t, store), testKey, func(l *operations.List) error {
				for i := range ops {
					ops[i].Status.Created = &w.start
				}
				return l.Add(ops...)
			})
			faulty, processes := seed%3 > 0, 1+seed%3/2
			if faulty {
				store.Store = &faultyStore{MemoryStore: mem, rng: rand.New(rand.NewPCG(uint64(seed), 1))}
			}
			var wg sync.WaitGroup
			born := make([]int, processes)
			ctx, cancel := context.WithCancel(t.Context())
			for i := range processes {
				wg.Go(func() { born[i] = w.process(ctx, store) })
			}
			wg.Go(func() { w.meddle(ctx, store) })
			wg.Wait()
			cancel()
			elapsed := time.Since(w.start)
			close(w.release)
			time.Sleep(10 * time.Minute) // late writes, and callbacks that were left behind
			store.look(t.Context(), operations.BackupForm.FileName(testKey.Name))

			for _, b := range born {
				lives += b
			}
			ended += len(store.ended)
			for _, o := range ops {
				if at, ok := store.ended[o.ID]; !ok || at.Sub(w.start) > modelCalm+modelSlack {
					w.faultf("%s: ended %v, %v after the start", o.ID, ok, at.Sub(w.start))
				}
			}
			// Progress once in each interval, each life may begin with a write, and each operation has two urgent ones. The
			// requests from outside are two at most.
			if most := int(elapsed/(10*time.Second)) + born[0] + 2*n + 3; !faulty && store.writes > most {
				w.faultf("%d writes in %v, want at most %d", store.writes, elapsed, most)
			}
			for _, fault := range w.faults {
				t.Errorf("seed %d: %s", seed, fault)
			}
		})
	}
	t.Logf("%d seeds, %d lives of processes, %d operations ended", seeds, lives, ended)
}
