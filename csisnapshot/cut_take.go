package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// volumeRun is one volume in a run.
type volumeRun struct {
	Volume

	batch *batchRun
	pods  []*podRun // the hooked pods that mount it
	ref   Ref       // of its snapshot
	// leaving is the UID of an earlier snapshot of the volume that is being deleted; empty when there is none. It belongs to
	// the goroutine that runs the batches.
	leaving types.UID

	// Guarded by the run's signal.
	snapshot  *Snapshot // as created or found; nil before
	adopted   bool
	result    Result
	early     bool  // cut before this run came to it
	placed    bool  // has a place of its driver
	picked    bool  // picked up, or given up on being picked up
	isCut     bool  // has a handle
	worked    bool  // cut, and the snapshot-controller has done its work on it, or was given up on
	ended     bool  // cut, or will not be
	err       error // why it will not be
	notInTime bool  // was not cut while all its pods were frozen
}

// batchRun is one batch in a run.
type batchRun struct {
	index   int
	hooked  bool
	pods    []*podRun
	volumes []*volumeRun

	// Guarded by the run's signal.
	open       int // volumes that are not cut and may be
	windows    int // pods that are frozen or about to be
	held       int // pods that are not thawed and settled
	resumed    bool
	start, end time.Time
	told       bool // the observer knows that it ended
}

// podRun is one pod in a run.
type podRun struct {
	Pod

	window context.Context //nolint:containedctx // the window is a part of the pod's state, and ends with it
	close  context.CancelCauseFunc

	// Guarded by the run's signal.
	ready    bool  // frozen, or will not be
	unhooked bool  // nothing is frozen, and its volumes are cut all the same
	closed   bool  // its window is
	err      error // why its volumes must not be cut
	report   PodReport
}

// take makes the run's own picture of the plan. It returns every fault of the plan.
func (r *run) take(plan *Plan) error {
	if plan == nil {
		return errors.New("plan is nil")
	}
	var errs []error
	claims, pods := claimsSeen{uids: map[types.UID]claimKey{}, batches: map[claimKey]int{}}, map[PodRef]int{}
	for i := range plan.Batches {
		batch := &plan.Batches[i]
		b := &batchRun{index: i, hooked: batch.Hooked}
		if batch.Hooked && r.s.opts.Quiescer == nil {
			errs = append(errs, fmt.Errorf("plan: batch %d has hooks, and Options.Quiescer is nil", i+1))
		}
		for _, p := range batch.Pods {
			if err := checkPod(p, i+1, pods); err != nil {
				errs = append(errs, fmt.Errorf("plan: batch %d: %w", i+1, err))
				continue
			}
			b.pods = append(b.pods, &podRun{Pod: p, report: PodReport{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Note: p.Note}})
		}
		for _, v := range batch.Volumes {
			if err := claims.check(v, i+1); err != nil {
				errs = append(errs, fmt.Errorf("plan: batch %d: %w", i+1, err))
				continue
			}
			r.takeVolume(b, v)
		}
		b.open = len(b.volumes)
		r.batches = append(r.batches, b)
	}
	return errors.Join(errs...)
}

// checkPod returns what keeps the pod from being frozen on its own. Each pod may be in one batch only, for two would freeze
// and thaw it independently of each other.
func checkPod(p Pod, batch int, seen map[PodRef]int) error {
	if p.Namespace == "" || p.Name == "" {
		return fmt.Errorf("pod %q: namespace and name are required", p.PodRef)
	}
	name := PodRef{Namespace: p.Namespace, Name: p.Name}
	if other, ok := seen[name]; ok {
		return fmt.Errorf("pod %s: is also in batch %d", name, other)
	}
	seen[name] = batch
	return nil
}

// claimsSeen are the claims of a plan, by UID, and in which batch each is.
type claimsSeen struct {
	uids    map[types.UID]claimKey
	batches map[claimKey]int
}

// check returns what keeps the volume from having a snapshot of its own.
func (c claimsSeen) check(v Volume, batch int) error {
	switch {
	case v.Namespace == "" || v.Claim == "":
		return fmt.Errorf("volume %q: namespace and claim are required", v.key())
	case v.ClaimUID == "":
		return fmt.Errorf("volume %s: UID of the claim is required", v.key())
	case v.Class == "":
		return fmt.Errorf("volume %s: class is required", v.key())
	}
	if other, ok := c.batches[v.key()]; ok {
		return fmt.Errorf("volume %s: is also in batch %d", v.key(), other)
	}
	if other, ok := c.uids[v.ClaimUID]; ok {
		return fmt.Errorf("volume %s: claim UID %s is also that of %s", v.key(), v.ClaimUID, other)
	}
	c.uids[v.ClaimUID], c.batches[v.key()] = v.key(), batch
	return nil
}

func (r *run) takeVolume(b *batchRun, v Volume) {
	run := &volumeRun{Volume: v, batch: b, ref: Ref{Namespace: v.Namespace, Name: r.s.opts.Names.Snapshot(r.owner.UID, v.ClaimUID)}}
	for _, p := range b.pods {
		if b.hooked && p.Hooked && p.Namespace == v.Namespace && p.uses(v.Claim) {
			run.pods = append(run.pods, p)
		}
	}
	b.volumes = append(b.volumes, run)
	r.byRef[run.ref] = run
}

// namespaces are those of the volumes, sorted.
func (r *run) namespaces() []string {
	return namespacesOf(slices.Collect(maps.Values(r.byRef)))
}

// namespacesOf are the namespaces of the volumes, sorted.
func namespacesOf(volumes []*volumeRun) []string {
	var all []string
	for _, v := range volumes {
		all = append(all, v.ref.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hookedPods are the pods to freeze.
func (b *batchRun) hookedPods() []*podRun {
	var hooked []*podRun
	for _, p := range b.pods {
		if b.hooked && p.Hooked {
			hooked = append(hooked, p)
		}
	}
	return hooked
}
