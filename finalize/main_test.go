package finalize_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/finalize"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errCrash = errors.New("crash")

// memory is a Document that outlives a runner. It counts writes and can crash after one of them.
type memory struct {
	mu      sync.Mutex // protects what follows
	data    []byte
	writes  int
	crashAt int  // the write after which the process is dead; zero: never
	dead    bool // every further access fails
	down    error
}

func (m *memory) Load(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, errCrash
	}
	return bytes.Clone(m.data), m.down
}

func (m *memory) Save(_ context.Context, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errCrash
	}
	if m.down != nil {
		return m.down
	}
	m.writes++
	m.data = bytes.Clone(data)
	if m.writes == m.crashAt {
		m.dead = true
		return errCrash
	}
	return nil
}

func (m *memory) set(change func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

// log is what happened, in order.
type log struct {
	mu    sync.Mutex // protects lines
	lines []string
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func ok(context.Context) error { return nil }

// untilDone ignores nothing: it returns the cause when its context ends.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func mustNew(tb testing.TB, hooks []finalize.Hook, opts finalize.Options) *finalize.Runner {
	tb.Helper()
	r, err := finalize.New(hooks, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// states maps each hook to its state.
func states(r finalize.Report) map[string]finalize.State {
	out := map[string]finalize.State{}
	for _, h := range r.Hooks {
		out[h.Name] = h.State
	}
	return out
}

// sorted returns what happened, sorted.
func (l *log) sorted() []string { return slices.Sorted(slices.Values(l.all())) }
