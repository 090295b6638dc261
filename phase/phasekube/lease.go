package phasekube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/sheetanchor/sheetanchor/phase"
)

// What [Lease.Hold] can end with, beside the categories of package phase. Ask with errors.Is.
var (
	// ErrLeaseLost: the lease could not be renewed in time, or somebody else holds it. It is the cause of the context that
	// [Lease.Hold] gives.
	ErrLeaseLost = errors.New("lease lost")
	// ErrAbandoned: what ran under the lease did not return after its context had ended. It may still run.
	ErrAbandoned = errors.New("abandoned callback")
)

// LeaseOptions say how long a lease lasts. The zero value has the times of client-go's leader election.
type LeaseOptions struct {
	// Duration is how long others wait, without a sign of life, before they take the lease: whole seconds. Defaults to 15 seconds.
	Duration time.Duration
	// RenewDeadline is how long after the last successful renewal the holder's work is told to end; what is left of Duration
	// then is its time to end. Defaults to two thirds of Duration.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals. Defaults to two fifteenths of Duration.
	RetryPeriod time.Duration
	// Grace is how long Hold waits for work to return after its context has ended. Defaults to 30 seconds.
	Grace time.Duration
}

// Lease is a coordination.k8s.io Lease, by which one of several processes is the one that works: [Lease.Hold] holds it,
// [Lease.Read] and [Lease.Heartbeat] look at it from outside. It is safe for concurrent use.
type Lease struct {
	client          coordinationclient.LeasesGetter
	namespace, name string
	opts            LeaseOptions
	holding         atomic.Bool

	mu    sync.Mutex // guards what follows
	last  Holder
	since time.Time // when last was first seen, by our clock
}

var _ phase.Liveness = (*Lease)(nil)

// Holder is what a Lease says. The zero Holder is that of a Lease that does not exist.
type Holder struct {
	// Identity of the process that holds it; empty if it was given back.
	Identity string
	// Acquired and Renewed are by the holder's clock; zero if it did not say.
	Acquired, Renewed time.Time
	// Duration is how long others wait after a renewal; zero if it did not say.
	Duration time.Duration
	// Transitions counts how often the lease went to another holder.
	Transitions int
}

// NewLease returns the lease with this name, which need not exist. Client is Clientset.CoordinationV1(). Faults of the
// arguments are phase.ErrInvalid, all joined: a nil client, an empty namespace or name, a negative time, a Duration that is
// not whole seconds, and times that do not fit each other: RetryPeriod must be well below RenewDeadline, and that below
// Duration.
func NewLease(client coordinationclient.LeasesGetter, namespace, name string, opts LeaseOptions) (*Lease, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w lease %s/%s: "+format, append([]any{phase.ErrInvalid, namespace, name}, args...)...))
	}
	if client == nil {
		fault("the client is nil")
	}
	if namespace == "" || name == "" {
		fault("namespace and name are needed")
	}
	if opts.Duration == 0 {
		opts.Duration = 15 * time.Second
	}
	if opts.RenewDeadline == 0 {
		opts.RenewDeadline = opts.Duration / 3 * 2
	}
	if opts.RetryPeriod == 0 {
		opts.RetryPeriod = opts.Duration * 2 / 15
	}
	if opts.Grace == 0 {
		opts.Grace = 30 * time.Second
	}
	switch {
	case opts.Grace < 0:
		fault("option Grace is negative")
	case opts.Duration < 0 || opts.RenewDeadline < 0 || opts.RetryPeriod < 0:
		fault("option Duration, RenewDeadline or RetryPeriod is negative")
	case opts.Duration%time.Second != 0:
		fault("option Duration: %v is not whole seconds", opts.Duration)
	case opts.RenewDeadline >= opts.Duration:
		fault("option RenewDeadline: %v is not below the Duration, %v", opts.RenewDeadline, opts.Duration)
	case opts.RenewDeadline < 2*opts.RetryPeriod:
		fault("option RetryPeriod: %v is more than half of the RenewDeadline, %v", opts.RetryPeriod, opts.RenewDeadline)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &Lease{client: client, namespace: namespace, name: name, opts: opts}, nil
}

// Read returns who holds the lease, without a cache; the zero Holder if there is no such Lease. The errors are those of
// [Object.Get].
func (l *Lease) Read(ctx context.Context) (Holder, error) {
	lease, err := l.client.Leases(l.namespace).Get(ctx, l.name, metav1.GetOptions{})
	if err == nil {
		return holder(&lease.Spec), nil
	}
	err = readError(err)
	if errors.Is(err, phase.ErrNotFound) {
		return Holder{}, nil
	}
	return Holder{}, fmt.Errorf("read lease %s/%s: %w", l.namespace, l.name, err)
}

func holder(spec *coordinationv1.LeaseSpec) Holder {
	var h Holder
	if spec.HolderIdentity != nil {
		h.Identity = *spec.HolderIdentity
	}
	if spec.AcquireTime != nil {
		h.Acquired = spec.AcquireTime.Time
	}
	if spec.RenewTime != nil {
		h.Renewed = spec.RenewTime.Time
	}
	if spec.LeaseDurationSeconds != nil {
		h.Duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	if spec.LeaseTransitions != nil {
		h.Transitions = int(*spec.LeaseTransitions)
	}
	return h
}

// Heartbeat is phase.Liveness for processes that work only while they hold this lease, with their identity as
// phase.ApplierOptions.Owner. An owner that does not hold it is deposed: it had to stop before somebody else could get it.
// Of the holder, Renewed is when this Lease first saw its last renewal, counted back from now, so that neither a difference
// of clocks nor a clock that is set matters; a process that just started waits for the whole Duration before it takes the holder for dead. Where
// there is no Lease, or one that tells no duration, nothing is known until that has lasted for Duration.
//
// It reads without a cache. The errors are those of [Object.Get]; a missing Lease is none.
func (l *Lease) Heartbeat(ctx context.Context, owner string) (phase.Heartbeat, error) {
	now, err := l.Read(ctx)
	if err != nil {
		return phase.Heartbeat{}, err
	}
	since := l.observe(now)
	switch {
	case now.Identity == owner || now == Holder{}:
		valid := now.Duration
		if valid <= 0 {
			valid = l.opts.Duration
		}
		return phase.Heartbeat{Renewed: since, ValidFor: valid}, nil
	default:
		return phase.Heartbeat{Deposed: true}, nil
	}
}

// observe returns since when the lease is as it is now, by a clock that is as it is now: what has passed since is counted by
// the monotonic clock, because the other one may have been set, and while a machine sleeps its leases are not renewed.
func (l *Lease) observe(now Holder) time.Time {
	seen := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || !l.last.same(now) {
		l.last, l.since = now, seen
	}
	return seen.Add(-seen.Sub(l.since)).Round(0)
}

func (h Holder) same(other Holder) bool {
	return h.Identity == other.Identity && h.Acquired.Equal(other.Acquired) && h.Renewed.Equal(other.Renewed) &&
		h.Duration == other.Duration && h.Transitions == other.Transitions
}
