package operations_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/internal/race"
	"github.com/sheetanchor/sheetanchor/operations"
)

var modelSeeds = flag.Int("model.seeds", 0, "seeds of TestModel; zero: 1000, and 100 with the race detector or -short")

const (
	modelClients = 3
	modelCalls   = 6 // of each client
	modelTotal   = modelClients * modelCalls
)

// call is one call of a history, with what came of it.
type call struct {
	kind    string
	base    int    // index of the call whose record was put; -1: a record of the caller's own
	content string // what is put, or the ID that Update adds

	begin, end int64
	class      string // "", "conflict", "completed", "failed"
	got        string // content of the returned record
}

func (c call) String() string {
	return fmt.Sprintf("[%d,%d] %s base=%d content=%q -> %q got=%q", c.begin, c.end, c.kind, c.base, c.content, c.class, c.got)
}

// O1, O2, O3, O5, O6: random calls of several clients on a store that fails, is slow, hangs, does not answer, or writes
// after it has not answered, have the results of some order of steps of the sequential model in modelstate_test.go.
// ops-12 under -race.
func TestModel(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	seeds := *modelSeeds
	switch {
	case seeds > 0:
	case race.Enabled || testing.Short():
		seeds = 100
	default:
		seeds = 1000
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			store := &faultyStore{MemoryStore: operations.NewMemoryStore(), rng: rand.New(rand.NewPCG(uint64(seed), 1))}
			m := newMap(t, store)
			keys := []operations.Key{{Namespace: "app", Name: "one", UID: "u1"}, {Namespace: "app", Name: "two", UID: "u2"}}
			histories := make([][]call, len(keys))
			var clock atomic.Int64
			var wg sync.WaitGroup
			for k, key := range keys {
				histories[k] = make([]call, modelTotal)
				for c := range modelClients {
					rng := rand.New(rand.NewPCG(uint64(seed), uint64(10*k+c+2)))
					wg.Go(func() { modelClient(t.Context(), m, key, rng, &clock, histories[k], c) })
				}
			}
			wg.Wait()
			time.Sleep(time.Hour) // late writes
			for k := range keys {
				calls.Add(modelTotal)
				if !linearizable(histories[k]) {
					t.Errorf("seed %d, key %d: no order explains\n%s", seed, k, printHistory(histories[k]))
				}
			}
		})
	}
	t.Logf("seeds 0 to %d, %d calls checked", seeds-1, calls.Load())
}

// modelClient makes the calls of one client, one after another, and writes them into its part of the history.
func modelClient(ctx context.Context, m *operations.Map, key operations.Key, rng *rand.Rand, clock *atomic.Int64, history []call, client int) {
	records := map[int]operations.Record{}
	last := -1 // call that returned a record
	for n := range modelCalls {
		i := client*modelCalls + n
		c := &history[i]
		*c = call{kind: pickKind(rng), base: last, content: fmt.Sprintf("id-%d", i)}
		rec := operations.Record{Key: key}
		if r, ok := records[last]; ok && rng.IntN(8) > 0 {
			rec = r
		} else {
			c.base = -1
		}
		put := c.kind == "Put" || c.kind == "UploadProgressAndPut"
		if prev := i - 1; n > 0 && put && history[prev].kind == c.kind && history[prev].class == "failed" && rng.IntN(2) == 0 {
			c.base, c.content = history[prev].base, history[prev].content // try the same again
			rec = operations.Record{Key: key}
			if c.base >= 0 {
				rec = records[c.base]
			}
			rec.List = modelList(c.content)
		} else if put {
			c.content = strings.TrimPrefix(contentOf(rec)+","+c.content, ",")
			rec.List = modelList(c.content)
		}
		callCtx, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(1500))*time.Millisecond)
		c.begin = clock.Add(1)
		got, err := modelCall(callCtx, m, key, rec, c)
		c.end = clock.Add(1)
		cancel()
		c.class = classOf(err)
		if err == nil && got.Key == key {
			records[i], last, c.got = got, i, contentOf(got)
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
	}
}

func pickKind(rng *rand.Rand) string {
	kinds := []string{
		"Get", "Get", "Get", "Update", "Update", "Update", "Put", "Put", "UploadProgressAndPut", "UploadProgressAndPut",
		"UploadProgressAndPut", "Upload", "Upload", "Load", "Evict", "Complete",
	}
	return kinds[rng.IntN(len(kinds))]
}

func modelCall(ctx context.Context, m *operations.Map, key operations.Key, rec operations.Record, c *call) (operations.Record, error) {
	switch c.kind {
	case "Get":
		return m.Get(ctx, key)
	case "Update":
		return m.Update(ctx, key, func(l *operations.List) error { return l.Add(doneOp(c.content)) })
	case "Put":
		return m.Put(ctx, rec)
	case "UploadProgressAndPut":
		return m.UploadProgressAndPut(ctx, rec)
	case "Upload":
		return operations.Record{}, m.Upload(ctx, key)
	case "Load":
		return m.Load(ctx, key)
	case "Evict":
		m.Evict(key)
		return operations.Record{}, nil
	default:
		_, err := m.Complete(ctx, key)
		return operations.Record{}, err
	}
}

func classOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, operations.ErrConflict):
		return "conflict"
	case errors.Is(err, operations.ErrCompleted):
		return "completed"
	default:
		return "failed"
	}
}

func doneOp(id string) operations.Operation {
	return operations.Operation{ID: id, Action: "test", Status: operations.Status{Phase: operations.PhaseCompleted}}
}

func modelList(content string) operations.List {
	var ops []operations.Operation
	for id := range strings.SplitSeq(content, ",") {
		ops = append(ops, doneOp(id))
	}
	l, err := operations.NewList(ops...)
	if err != nil {
		panic(err)
	}
	return l
}

func contentOf(rec operations.Record) string {
	var ids []string
	for o := range rec.List.All() {
		ids = append(ids, o.ID)
	}
	return strings.Join(ids, ",")
}

func printHistory(history []call) string {
	var b strings.Builder
	for i, c := range history {
		fmt.Fprintf(&b, "%2d %v\n", i, c)
	}
	return b.String()
}

// faultyStore takes time, and on some calls fails, hangs until ctx ends, or writes with no answer, now or later.
type faultyStore struct {
	*operations.MemoryStore

	mu  sync.Mutex
	rng *rand.Rand
}

func (s *faultyStore) dice(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

var errStore = errors.New("store failed")

func (s *faultyStore) delay(ctx context.Context) error {
	timer := time.NewTimer(time.Duration(s.dice(200)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *faultyStore) Read(ctx context.Context, name string) ([]byte, string, error) {
	if err := s.delay(ctx); err != nil {
		return nil, "", err
	}
	switch s.dice(20) {
	case 0:
		return nil, "", errStore
	case 1:
		<-ctx.Done()
		return nil, "", context.Cause(ctx)
	}
	return s.MemoryStore.Read(ctx, name)
}

func (s *faultyStore) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	if err := s.delay(ctx); err != nil {
		return "", err
	}
	switch s.dice(10) {
	case 0:
		return "", errStore
	case 1:
		<-ctx.Done()
		return "", context.Cause(ctx)
	case 2: // done, and no answer
		_, _ = s.MemoryStore.Write(context.WithoutCancel(ctx), name, data, old)
		return "", operations.ErrUnknownOutcome
	case 3: // no answer, and done later
		ctx, data := context.WithoutCancel(ctx), append([]byte(nil), data...)
		time.AfterFunc(time.Duration(1+s.dice(900))*time.Millisecond, func() {
			_, _ = s.MemoryStore.Write(ctx, name, data, old)
		})
		return "", operations.ErrUnknownOutcome
	case 4: // sent twice on the way: the second finds the first
		if _, err := s.MemoryStore.Write(ctx, name, data, old); err != nil {
			return "", err
		}
		return s.MemoryStore.Write(ctx, name, data, old)
	}
	return s.MemoryStore.Write(ctx, name, data, old)
}
