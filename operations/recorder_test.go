package operations_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// errAny stands for any error in a table.
var errAny = errors.New("any error")

func runtimeGoexit() { runtime.Goexit() }

// recorder counts the calls of a store and lets a test decide what becomes of them.
type recorder struct {
	operations.Store

	mu     sync.Mutex
	reads  int
	writes []time.Time
	// before, when set, is called without a lock before the call is passed on; an error is returned instead of it.
	before func(ctx context.Context, verb, name string) error
	// after, when set, is called after a write that was done; its error is returned instead of the success.
	after func(ctx context.Context, name string) error
}

func newRecorder(s operations.Store) *recorder { return &recorder{Store: s} }

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads, r.writes = 0, nil
}

func (r *recorder) hooks(before func(ctx context.Context, verb, name string) error, after func(ctx context.Context, name string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.after = before, after
}

func (r *recorder) counts() (reads int, writes []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads, append([]time.Time(nil), r.writes...)
}

func (r *recorder) Read(ctx context.Context, name string) ([]byte, string, error) {
	r.mu.Lock()
	r.reads++
	before := r.before
	r.mu.Unlock()
	if before != nil {
		if err := before(ctx, "read", name); err != nil {
			return nil, "", err
		}
	}
	return r.Store.Read(ctx, name)
}

func (r *recorder) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	r.mu.Lock()
	r.writes = append(r.writes, time.Now())
	before, after := r.before, r.after
	r.mu.Unlock()
	if before != nil {
		if err := before(ctx, "write", name); err != nil {
			return "", err
		}
	}
	version, err := r.Store.Write(ctx, name, data, old)
	if err == nil && after != nil {
		if err := after(ctx, name); err != nil {
			return "", err
		}
	}
	return version, err
}
