package phasekube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/sheetanchor/sheetanchor/phase"
)

// fence is the lock of a leader election that remembers until when the last renewal is good. The election itself counts
// from the answers of the server: while a renewal is slow, others count from an earlier moment than it does.
type fence struct {
	resourcelock.Interface
	renewDeadline time.Duration
	deposed       chan struct{} // closed when somebody else is seen to hold what we held
	gone          sync.Once     // closes it

	mu     sync.Mutex // guards what follows
	until  time.Time
	holder string // last seen
	err    error  // last error
}

func (l *Lease) lock(identity string) *fence {
	return &fence{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}, Client: l.client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		renewDeadline: l.opts.RenewDeadline, deposed: make(chan struct{}),
	}
}

// Get reads the record.
func (f *fence) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := f.Interface.Get(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		if err := readError(err); !errors.Is(err, phase.ErrNotFound) { // else the answer to the Create that follows matters
			f.err = err
		}
		return nil, nil, err // as it is: the election asks what kind it is
	}
	f.holder = record.HolderIdentity
	if !f.until.IsZero() && f.holder != f.Identity() {
		f.gone.Do(func() { close(f.deposed) })
	}
	return record, raw, nil
}

// Create makes the Lease.
func (f *fence) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.renew(func() error { return f.Interface.Create(ctx, record) })
}

// Update renews or takes the Lease.
func (f *fence) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.renew(func() error { return f.Interface.Update(ctx, record) })
}

func (f *fence) renew(write func() error) error {
	began := time.Now()
	err := write()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.err = writeError(err)
		return err
	}
	f.until, f.holder, f.err = began.Add(f.renewDeadline), f.Identity(), nil
	return nil
}

// good returns until when the work may go on.
func (f *fence) good() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.until
}

// lost says how the lease was lost.
func (f *fence) lost() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder != "" && f.holder != f.Identity() {
		return fmt.Errorf("%w to %q", ErrLeaseLost, f.holder)
	}
	if f.err == nil {
		return fmt.Errorf("%w: no renewal within %v", ErrLeaseLost, f.renewDeadline)
	}
	return fmt.Errorf("%w: no renewal within %v: %w", ErrLeaseLost, f.renewDeadline, f.err)
}

// waited says why the lease was not got.
func (f *fence) waited(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := context.Cause(ctx)
	if f.holder != "" {
		err = fmt.Errorf("%w; %q holds it", err, f.holder)
	}
	if f.err != nil {
		err = fmt.Errorf("%w; last: %w", err, f.err)
	}
	return err
}
