package finalize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/operations"
)

// RestorePVOptions are those of [RestorePVs]. The zero value works.
type RestorePVOptions struct {
	// Operations and Key are where the operations are that RestoredVolume.OperationID names. Nil: they are not looked at, nor is
	// Key.
	Operations Operations
	Key        operations.Key
	// Adjust may change what is written to a persistent volume, for example by the user's rules for resources, and is
	// called for each that is bound, also when there is nothing to write. pv is a copy. Its error or panic is an error of
	// the volume. Several calls may run at the same time. A conflict makes it be called again. Nil: nothing is adjusted.
	Adjust func(ctx context.Context, pv *corev1.PersistentVolume, change *PVChange) error
	// Ended is called once for each volume that ends in this process, by the hook's goroutine. A panic of its is dropped.
	Ended func(ctx context.Context, outcome VolumeOutcome)
	// Concurrency is how many persistent volumes are worked on at the same time. Zero or less: 10. How many claims are
	// waited for is not limited.
	Concurrency int
	// ItemTimeout is when a claim that is not bound, or cannot be read or written, has failed: counted from the first look
	// at it or, if later, from the last time another one was done, so that none fails because storage makes the volumes
	// one by one. Zero or less: 10 minutes.
	ItemTimeout time.Duration
	// Timeout is when waiting for all of them ends. Keep it below the Runner's MaxTotal, which loses the names. Zero or
	// less: 45 minutes.
	Timeout time.Duration
}

const (
	defaultPVConcurrency = 10
	defaultItemTimeout   = 10 * time.Minute
	defaultPVTimeout     = 45 * time.Minute
	pvCallTimeout        = time.Minute // one list, or the work on one persistent volume
	pvBudget             = 5 * time.Minute
	minPause, maxPause   = time.Second, 30 * time.Second
	certain              = 2 * time.Second // between two refusals that are final: a restarted API server refuses everything for a moment
	listPage             = 500
)

func (o RestorePVOptions) withDefaults() RestorePVOptions {
	if o.Concurrency <= 0 {
		o.Concurrency = defaultPVConcurrency
	}
	if o.ItemTimeout <= 0 {
		o.ItemTimeout = defaultItemTimeout
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultPVTimeout
	}
	return o
}

// RestorePVs returns the hook "restore-pvs", which waits until the claims of restored volumes are bound and gives their
// dynamically provisioned persistent volumes back the reclaim policy and the labels that the backup saved, by merge patches
// with the resourceVersion that was read; after a conflict all is read and judged again. Saved labels are added. A label that
// the persistent volume has with another value keeps it if its key is in a domain of Kubernetes or in the node affinity,
// which is a warning of the report. No label is removed.
//
// Left alone, with a warning: what is in [SkipReason]; static volumes and those of which nothing was saved without one.
// Errors, by claim: ErrNotBound, ErrLostClaim, ErrReleasedVolume, ErrForeignVolume, a refused request, an Adjust that
// failed. Requests go to the namespaces of the volumes and to no other. Several volumes of one claim count once.
//
// The hook never waits for long: what is not bound makes it come back after a tenth of the time that has passed, 1 s to 30 s.
// It needs list on persistentvolumeclaims in the
// namespaces, list on storageclasses, get and patch on persistentvolumes. [New] refuses it when core is nil, a
// volume has no namespace or claim, or opts.Key is not valid and opts.Operations is there.
func RestorePVs(core kubernetes.Interface, volumes []RestoredVolume, opts RestorePVOptions, after ...string) Hook {
	sorted := slices.SortedStableFunc(slices.Values(volumes), RestoredVolume.compare)
	sorted = slices.CompactFunc(sorted, func(a, b RestoredVolume) bool { return a.compare(b) == 0 })
	r := &pvRestore{core: core, opts: opts.withDefaults()}
	for _, v := range sorted {
		r.items = append(r.items, &pvItem{outcome: VolumeOutcome{Volume: v}})
	}
	h := Hook{Name: "restore-pvs", After: after, Timeout: 2*pvBudget + 5*time.Minute, Run: r.run}
	if opts.Operations != nil {
		h = h.need("opts.Operations", opts.Operations).valid("opts.Key", opts.Key)
	}
	return h.need("core", core).named(volumes)
}

// pvRestore is the part of RestorePVs that lasts over the calls of one process. Calls of one hook never overlap.
type pvRestore struct {
	core  kubernetes.Interface
	opts  RestorePVOptions
	items []*pvItem

	began, progress time.Time
}

// pvItem is one volume. The worker that has it owns it.
type pvItem struct {
	outcome VolumeOutcome
	ended   bool
	why     string // it has not ended
	refused time.Time
	claim   *corev1.PersistentVolumeClaim // bound, as it was just listed; nil: nothing can be done now
}

func (r *pvRestore) run(ctx context.Context) error {
	now := time.Now()
	if r.began.IsZero() {
		r.began, r.progress = now, now
	}
	r.bounded(ctx, r.look)
	r.bounded(ctx, func(budget context.Context) { r.work(ctx, budget) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.expire(ctx)
	return r.result()
}

func (r *pvRestore) bounded(ctx context.Context, part func(budget context.Context)) {
	budget, stop := context.WithTimeout(ctx, pvBudget)
	defer stop()
	part(budget)
}

// look judges the claims of all volumes that have not ended.
func (r *pvRestore) look(ctx context.Context) {
	open := r.open()
	list, listErr := r.operations(ctx, open)
	claims := map[string]map[string]*corev1.PersistentVolumeClaim{}
	failed := map[string]error{}
	classes := r.classes(ctx)
	for _, it := range open {
		v := it.outcome.Volume
		it.claim = nil
		switch {
		case v.Saved == nil:
			r.settle(ctx, it, verdict{skip: SkipNothingSaved})
			continue
		case listErr != nil && v.OperationID != "":
			it.why = listErr.Error()
			continue
		}
		if verdict := judgeOperation(v, list); !verdict.goOn() {
			r.settle(ctx, it, verdict)
			continue
		}
		if claims[v.Namespace] == nil && failed[v.Namespace] == nil {
			claims[v.Namespace], failed[v.Namespace] = listClaims(ctx, r.core, v.Namespace)
		}
		if err := failed[v.Namespace]; err != nil {
			r.trouble(ctx, it, err)
			continue
		}
		pvc := claims[v.Namespace][v.Claim]
		verdict := judgeClaim(v, pvc, classes)
		if verdict.goOn() {
			it.claim = pvc
			continue
		}
		r.settle(ctx, it, verdict)
	}
}

// work gives the volumes whose claims are bound to the workers. One that has begun when the budget is used up is done.
func (r *pvRestore) work(ctx, budget context.Context) {
	queue := make(chan *pvItem)
	var workers sync.WaitGroup
	for range min(r.opts.Concurrency, len(r.items)) {
		workers.Go(func() {
			for it := range queue {
				r.one(ctx, it)
			}
		})
	}
	for _, it := range r.open() {
		if it.claim != nil && budget.Err() == nil {
			queue <- it
		}
	}
	close(queue)
	workers.Wait()
	for _, it := range r.items {
		if it.ended && it.claim != nil {
			it.claim = nil
			r.tell(ctx, it)
		}
	}
}

// settle takes a verdict.
func (r *pvRestore) settle(ctx context.Context, it *pvItem, v verdict) {
	if it.take(v) {
		r.tell(ctx, it)
	}
}

// take takes a verdict and reports whether it ends the volume.
func (it *pvItem) take(v verdict) bool {
	it.refused = time.Time{}
	if v.wait != "" {
		it.why = v.wait
		return false
	}
	it.ended, it.outcome.Skipped, it.outcome.Err = true, v.skip, v.err
	return true
}

// fail takes a failed request: final is one that was refused twice, apart in time.
func (it *pvItem) fail(err error) bool {
	it.why = err.Error()
	if !isRefusal(err) {
		it.refused = time.Time{}
		return false
	}
	if it.refused.IsZero() {
		it.refused = time.Now()
	}
	if time.Since(it.refused) < certain {
		return false
	}
	it.ended, it.outcome.Err = true, err
	return true
}

func (r *pvRestore) trouble(ctx context.Context, it *pvItem, err error) {
	if it.fail(err) {
		r.tell(ctx, it)
	}
}

// tell notes that a volume has ended.
func (r *pvRestore) tell(ctx context.Context, it *pvItem) {
	r.progress = time.Now()
	if r.opts.Ended != nil {
		contain(func() { r.opts.Ended(ctx, it.outcome) })
	}
}

// expire ends the volumes whose time is over.
func (r *pvRestore) expire(ctx context.Context) {
	now := time.Now()
	var limit time.Duration
	switch {
	case now.Sub(r.began) >= r.opts.Timeout:
		limit = r.opts.Timeout
	case now.Sub(r.progress) >= r.opts.ItemTimeout:
		limit = r.opts.ItemTimeout
	default:
		return
	}
	for _, it := range r.open() {
		it.ended = true
		it.outcome.Err = fmt.Errorf("%w: gave up after %v: %s", ErrNotBound, limit, cmp.Or(it.why, "nothing was seen of it"))
		if r.opts.Ended != nil {
			contain(func() { r.opts.Ended(ctx, it.outcome) })
		}
	}
}

// open returns the volumes that have not ended.
func (r *pvRestore) open() (open []*pvItem) {
	for _, it := range r.items {
		if !it.ended {
			open = append(open, it)
		}
	}
	return open
}

// result is what a call of the hook returns.
func (r *pvRestore) result() error {
	var faults []error
	for _, it := range r.items {
		if it.ended {
			faults = append(faults, it.outcome.fault())
		}
	}
	open := r.open()
	if len(open) == 0 {
		return Permanent(errors.Join(faults...))
	}
	now := time.Now()
	pause := min(max(now.Sub(r.began)/10, minPause), maxPause)
	pause = min(pause, r.progress.Add(r.opts.ItemTimeout).Sub(now), r.began.Add(r.opts.Timeout).Sub(now))
	name := types.NamespacedName{Namespace: open[0].outcome.Volume.Namespace, Name: open[0].outcome.Volume.Claim}
	why := fmt.Sprintf("%d of %d volumes, claim %s: %s", len(open), len(r.items), name, open[0].why)
	return errors.Join(append(faults, Later(max(pause, time.Millisecond), why))...)
}
