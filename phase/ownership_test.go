package phase_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/phase"
)

// registry are the leases of a model: who died, and who is taken for dead though it lives.
type registry struct {
	mu   sync.Mutex // protects dead
	dead map[string]bool
}

func (r *registry) Heartbeat(_ context.Context, owner string) (phase.Heartbeat, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead[owner] {
		return gone, nil
	}
	return alive, nil
}

func (r *registry) bury(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead[owner] = true
}

// P4, P5, P6, X5: the model test of ownership. Processes find work by Recover and do it while it is theirs; they die, are
// taken for dead, and go on all the same with what they knew; somebody cancels; writes fail in every way. The work ends
// once, whoever does it; nobody but a successor who took it over, or who carries its owner's recorded change on, ever
// changes the owner; no failure and no cancel is lost. Rows phase-5, phase-6, phase-9.
func TestModelOfOwners(t *testing.T) {
	t.Parallel()
	const shards = 4
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 100
	}
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < seeds; seed += shards {
				synctest.Test(t, func(t *testing.T) { modelOfOwners(t, seed) })
			}
		})
	}
}

func modelOfOwners(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 13)) //nolint:gosec // seeded on purpose
	w := newWorld()
	w.pause = jitter(seed)
	w.fault = misfortunes(rng)
	leases := &registry{dead: map[string]bool{}}
	failed := rng.IntN(2) == 0
	s := tale(failed)
	workers := 2 + rng.IntN(2)
	cancels, delay, zombies := rng.IntN(3) == 0, time.Duration(rng.IntN(60))*time.Millisecond, rng.IntN(2) == 0
	var wg sync.WaitGroup
	for i := range workers {
		luck := rand.New(rand.NewPCG(seed, uint64(100+i))) //nolint:gosec // seeded on purpose
		wg.Go(func() { ownUntilEnd(t, w, s, leases, fmt.Sprint("worker-", i), luck, zombies) })
	}
	canceled := false
	if cancels {
		wg.Go(func() {
			time.Sleep(delay)
			canceled = cancelOnce(w.start(t, options{owner: "alice"}))
		})
	}
	wg.Wait()

	what := fmt.Sprintf("seed %d, failed %v, canceled %v, %d workers", seed, failed, canceled, workers)
	w.fault = func(int, string) fault { return pass }
	last := w.start(t, options{owner: "last"})
	state, err := last.Load(last.ctx)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	w.check(t, what)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkEnd(t, what, state, failed, canceled)
	owner := ""
	for _, c := range w.object.Changes() {
		claims := c.Event == phase.EventStart || c.Event == phase.EventTakeOver
		if c.Owner != owner && !claims && !w.machine.IsTerminal(c.To) {
			t.Errorf("%s: %q became the owner after %q by %+v", what, c.Owner, owner, c)
		}
		owner = c.Owner
	}
}

// ownUntilEnd is a worker with its successors. A zombie does not ask whether the work is still its own.
func ownUntilEnd(t *testing.T, w *world, s story, leases *registry, name string, luck *rand.Rand, zombies bool) {
	t.Helper()
	owner := name
	p := w.start(t, options{owner: owner})
	for n := range 2000 {
		r, err := p.Recover(p.ctx, leases)
		switch {
		case err == nil && p.Machine().IsTerminal(r.State.Phase):
			return
		case err == nil && r.Mine:
			if zombies && luck.IntN(4) == 0 {
				leases.bury(owner)
				time.Sleep(time.Duration(luck.IntN(50)) * time.Millisecond)
			}
			_, _ = s.from(p.ctx, p, r.State)
		default:
			time.Sleep(time.Duration(20+luck.IntN(500)) * time.Millisecond)
		}
		leases.mu.Lock()
		deposed := leases.dead[owner]
		leases.mu.Unlock()
		if p.ctx.Err() != nil || deposed {
			p.kill()
			leases.bury(owner)
			owner = fmt.Sprintf("%s-%d", name, n)
			p = w.start(t, options{owner: owner})
		}
	}
	t.Error("the work does not end")
}
