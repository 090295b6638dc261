package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// RemoveOptions say how snapshots are removed.
type RemoveOptions struct {
	// Policy says what becomes of the physical snapshots. It has no default: Retain keeps them, Delete deletes them.
	Policy DeletionPolicy
	// Before is asked about each snapshot before anything of it is changed. Nil: nothing has to go first.
	Before Gate
	// Concurrency is how many snapshots are worked on at the same time. Zero means 8.
	Concurrency int
	// MinInterval is the least time between two writes. Zero: only the client's own rate bounds them.
	MinInterval time.Duration

	users *users // who refers to physical snapshots, whose are spared; nil: that does not matter
}

// Gate declares the order of deletion: it names what has to be gone before the snapshot may be removed, as in
// "PersistentVolume pv-1", or is empty if nothing is left. Until then nothing of the snapshot is touched; if it takes longer
// than Options.Wait.Timeout the snapshot is reported as [ErrHeld]. An error is trouble, and is asked again. A Gate must be
// safe for concurrent use and return when ctx ends; one that does not is left behind, see [ErrAbandoned].
type Gate func(ctx context.Context, snapshot Ref) (first string, err error)

// ErrHeld is a snapshot that was not removed because of what has to be gone before it.
var ErrHeld = errors.New("something else must be gone first")

// AfterVolumes is a [Gate] for volumes that were restored from the snapshots and still exist: some storage refuses to
// delete a snapshot, or ends up stuck, before them. It reads the named PersistentVolumes, of each snapshot its own.
func AfterVolumes(core kubernetes.Interface, volumes map[Ref][]string) Gate {
	return func(ctx context.Context, snapshot Ref) (string, error) {
		for _, name := range volumes[snapshot] {
			var pv *corev1.PersistentVolume
			pv, err := core.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil:
				return "PersistentVolume " + pv.Name, nil
			case !apierrors.IsNotFound(err):
				return "", fmt.Errorf("read PersistentVolume %s: %w", name, err)
			}
		}
		return "", nil
	}
}

// Validate reports every field that cannot be used.
func (o RemoveOptions) Validate() error {
	var faults []error
	if o.Policy != DeletionPolicyRetain && o.Policy != DeletionPolicyDelete {
		faults = append(faults, fmt.Errorf("RemoveOptions.Policy: %q, want %s or %s", o.Policy, DeletionPolicyRetain, DeletionPolicyDelete))
	}
	if o.Concurrency < 0 {
		faults = append(faults, errors.New("RemoveOptions.Concurrency: negative"))
	}
	return errors.Join(append(faults, notNegative("RemoveOptions.MinInterval", o.MinInterval))...)
}

// Remove is [Snapshotter.Release] or [Snapshotter.Destroy], as the policy says, with options. Faults of the options
// and references without a namespace or name are returned before anything is done.
func (s *Snapshotter) Remove(ctx context.Context, owner Owner, opts RemoveOptions, refs ...Ref) (*ReleaseReport, error) {
	if err := errors.Join(s.made(), owner.Validate(), opts.Validate(), validRefs(refs)); err != nil {
		return &ReleaseReport{}, err
	}
	return s.remove(ctx, owner.UID, opts, false, refs)
}

// WaitGone waits until the owner's snapshots and their contents are gone, and changes nothing. What is still there after
// Options.Wait.Timeout without a change is in the error, a [*RemovalError] for each.
func (s *Snapshotter) WaitGone(ctx context.Context, owner Owner, refs ...Ref) (*ReleaseReport, error) {
	if err := errors.Join(s.made(), owner.Validate(), validRefs(refs)); err != nil {
		return &ReleaseReport{}, err
	}
	return s.remove(ctx, owner.UID, RemoveOptions{Policy: DeletionPolicyDelete}, true, refs)
}

// CleanupContext is a context for the cleaning after work that failed or was cancelled: it outlives ctx, keeps its values,
// and ends by itself after the limit; zero means five minutes.
func CleanupContext(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		limit = 5 * time.Minute
	}
	cause := fmt.Errorf("cleaning took longer than %v: %w", limit, context.DeadlineExceeded)
	return context.WithTimeoutCause(context.WithoutCancel(ctx), limit, cause)
}

// turns spaces out writes.
type turns struct {
	interval time.Duration

	mu   sync.Mutex
	next time.Time
}

// wait blocks until the next write may be sent, or ctx ends.
func (p *turns) wait(ctx context.Context) error {
	if p.interval == 0 {
		return nil
	}
	p.mu.Lock()
	at := time.Now()
	if p.next.After(at) {
		at = p.next
	}
	p.next = at.Add(p.interval)
	p.mu.Unlock()
	if !sleepUntil(ctx, at, nil) {
		return fmt.Errorf("wait for a turn to write: %w", context.Cause(ctx))
	}
	return nil
}

// write makes one request that changes something, in its turn and within its own time.
func (r *remover) write(ctx context.Context, request func(context.Context) error) error {
	if err := r.turns.wait(ctx); err != nil {
		return err
	}
	return r.call(ctx, request)
}

// cleared reports whether nothing has to be gone before the item. Once is enough: what was gone stays so.
func (r *remover) cleared(ctx context.Context, m *removal) (bool, error) {
	if r.before == nil || m.cleared || m.snapshot != nil && m.snapshot.Terminating() {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.CallTimeout)
	defer cancel()
	answers := make(chan string, 1)
	err := call(ctx, func(ctx context.Context) error {
		by, err := r.before(ctx, m.Ref)
		answers <- by
		return err
	})
	if errors.Is(err, ErrAbandoned) { // it is not asked a second time while it hangs
		m.fail(ErrHeld, err)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask what goes before snapshot %s: %w", m.Ref, err)
	}
	first := <-answers
	m.held, m.cleared = first, first == ""
	if m.cleared {
		m.progress = time.Now()
	}
	return m.cleared, nil
}

// holder is the object that keeps the item from going, and its finalizers. A snapshot that only its content's protection
// holds is held by the content.
func (m *removal) holder() (object string, finalizers []string) {
	vs, vsc := m.snapshot, m.content
	ofContent := func(f string) bool { return f == stackPrefix+"volumesnapshot-bound-protection" }
	switch {
	case vs != nil && vsc != nil && vs.Terminating() && (vsc.Terminating() || len(vsc.Finalizers) > 0) &&
		!slices.ContainsFunc(vs.Finalizers, func(f string) bool { return !ofContent(f) }):
		return KindContent + " " + vsc.Name, vsc.Finalizers
	case vs != nil:
		return KindSnapshot + " " + m.Ref.String(), vs.Finalizers
	case vsc != nil:
		return KindContent + " " + vsc.Name, vsc.Finalizers
	default:
		return KindSnapshot + " " + m.Ref.String(), nil
	}
}
