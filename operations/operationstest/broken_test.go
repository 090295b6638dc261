package operationstest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/operations/operationstest"
)

// unfenced overwrites, and says so.
type unfenced struct{ operations.Store }

func (s unfenced) Capabilities() operations.Capabilities { return operations.Capabilities{} }

func (s unfenced) Write(ctx context.Context, name string, data []byte, _ string) (string, error) {
	return overwrite(ctx, s.Store, name, data)
}

// overwrite writes over whatever there is.
func overwrite(ctx context.Context, s operations.Store, name string, data []byte) (string, error) {
	for {
		_, now, err := s.Read(ctx, name)
		if err != nil && !errors.Is(err, operations.ErrNotFound) {
			return "", err
		}
		version, err := s.Write(ctx, name, data, now)
		if !errors.Is(err, operations.ErrConflict) {
			return version, err
		}
	}
}

// broken is a store with one defect.
type broken struct {
	operations.Store

	read  func(ctx context.Context, name string) ([]byte, string, error)
	write func(ctx context.Context, name string, data []byte, old string) (string, error)
}

func (s broken) Read(ctx context.Context, name string) ([]byte, string, error) {
	if s.read != nil {
		return s.read(ctx, name)
	}
	return s.Store.Read(ctx, name)
}

func (s broken) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	if s.write != nil {
		return s.write(ctx, name, data, old)
	}
	return s.Store.Write(ctx, name, data, old)
}

// remover removes any version.
type remover struct {
	operations.Store
	below operations.Remover
}

func (s remover) Remove(ctx context.Context, name, _ string) error {
	_, now, err := s.Read(ctx, name)
	if err != nil {
		return err
	}
	return s.below.Remove(ctx, name, now)
}

// broke makes a store with a defect of a good one.
type broke func(s operations.Store) operations.Store

// defects are stores that break the contract, and the cases that must find it.
func defects() map[string]struct {
	make  broke
	found []string
} {
	type defect = struct {
		make  broke
		found []string
	}
	return map[string]defect{
		"overwrites": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(ctx context.Context, name string, data []byte, _ string) (string, error) {
				return overwrite(ctx, s, name, data)
			}}
		}, []string{"contract", "two-owners", "stale-reads"}},
		"creates over what is there": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
				if old == "" {
					return overwrite(ctx, s, name, data)
				}
				return s.Write(ctx, name, data, old)
			}}
		}, []string{"contract"}},
		"says not found for an error": {func(s operations.Store) operations.Store {
			return broken{Store: s, read: func(ctx context.Context, name string) ([]byte, string, error) {
				data, version, err := s.Read(ctx, name)
				if err != nil {
					err = operations.ErrNotFound
				}
				return data, version, err
			}}
		}, []string{"ended-context"}},
		"says unknown for not found": {func(s operations.Store) operations.Store {
			return broken{Store: s, read: func(ctx context.Context, name string) ([]byte, string, error) {
				data, version, err := s.Read(ctx, name)
				if err != nil {
					err = errors.New("404")
				}
				return data, version, err
			}}
		}, []string{"contract"}},
		"loses what it said it wrote": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(context.Context, string, []byte, string) (string, error) { return "v", nil }}
		}, []string{"contract", "documents", "crashes", "lost-answers"}},
		"cuts documents": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
				return s.Write(ctx, name, data[:min(len(data), 1000)], old)
			}}
		}, []string{"documents"}},
		"drops a trailing newline": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
				return s.Write(ctx, name, bytes.TrimRight(data, "\xff\x00"), old)
			}}
		}, []string{"documents"}},
		"goes on for ended contexts": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
				return s.Write(context.WithoutCancel(ctx), name, data, old)
			}}
		}, []string{"ended-context"}},
		"folds names": {func(s operations.Store) operations.Store {
			fold := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "/", "-")) }
			return broken{
				Store: s,
				read:  func(ctx context.Context, name string) ([]byte, string, error) { return s.Read(ctx, fold(name)) },
				write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
					return s.Write(ctx, fold(name), data, old)
				},
			}
		}, []string{"names"}},
		"takes every name": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
				return s.Write(ctx, "x/"+strings.Trim(strings.ReplaceAll(name, ".", "_"), "/\x00")+"y", data, old)
			}}
		}, []string{"names"}},
		"takes any size": {func(s operations.Store) operations.Store { return s }, []string{"size"}},
		"has one version": {func(s operations.Store) operations.Store {
			var mu sync.Mutex
			return broken{
				Store: s,
				read: func(ctx context.Context, name string) ([]byte, string, error) {
					data, _, err := s.Read(ctx, name)
					return data, "v", err
				},
				write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					_, now, err := s.Read(ctx, name)
					if (err == nil) != (old != "") {
						return "", operations.ErrConflict
					}
					_, err = s.Write(ctx, name, data, now)
					return "v", err
				},
			}
		}, []string{"contract", "two-owners", "stale-reads"}},
		"checks and then writes": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
				if _, now, err := s.Read(ctx, name); (err == nil || errors.Is(err, operations.ErrNotFound)) && now != old {
					return "", operations.ErrConflict
				}
				for range 5 {
					runtime.Gosched() // let the others check too
				}
				return overwrite(ctx, s, name, data)
			}}
		}, []string{"concurrent-creates"}},
		"has no document": {func(s operations.Store) operations.Store {
			return broken{Store: s, read: func(context.Context, string) ([]byte, string, error) { return nil, "", operations.ErrNotFound }}
		}, []string{"contract", "concurrent-loads", "hostile-record", "concurrent-updates"}},
		"answers no version": {func(s operations.Store) operations.Store {
			return broken{Store: s, write: func(ctx context.Context, name string, data []byte, old string) (string, error) {
				_, err := s.Write(ctx, name, data, old)
				return "", err
			}}
		}, []string{"contract"}},
		"mixes up records": {func(s operations.Store) operations.Store {
			return broken{Store: s, read: func(ctx context.Context, name string) ([]byte, string, error) {
				return s.Read(ctx, strings.ReplaceAll(name, "other", "stuck"))
			}}
		}, []string{"hanging"}},
		"removes whatever there is": {func(s operations.Store) operations.Store { return remover{s, s.(operations.Remover)} }, []string{"removal"}},
		"does not open":             {func(operations.Store) operations.Store { return nil }, []string{"contract", "hanging"}},
	}
}

// X7: the suite finds what is wrong with a store.
func TestSuiteFindsDefects(t *testing.T) {
	t.Parallel()
	cases := map[string]operationstest.Case{}
	for _, c := range operationstest.Cases() {
		cases[c.Name] = c
		if c.Reason == "" {
			t.Errorf("case %s has no reason", c.Name)
		}
	}
	found := map[string]bool{}
	for name, d := range defects() {
		for _, want := range d.found {
			found[want] = true
			t.Run(name+"/"+want, func(t *testing.T) {
				t.Parallel()
				store := d.make(operations.NewMemoryStore())
				rec := &record{TB: t}
				for round := range 50 { // a race may need some luck
					rec.run(cases[want], operationstest.Options{
						Open: func() (operations.Store, error) { return store, nil }, MaxBytes: 1000, Run: fmt.Sprintf("run-%d", round),
					})
					if len(rec.texts()) > 0 {
						break
					}
				}
				for _, text := range rec.texts() {
					if !strings.HasPrefix(text, want+": ") {
						t.Errorf("%q does not begin with the name of the case", text)
					}
				}
				if len(rec.texts()) == 0 {
					t.Errorf("the case finds nothing wrong with a store that %s", name)
				}
			})
		}
	}
	for _, c := range slices.Sorted(maps.Keys(cases)) {
		if !found[c] {
			t.Errorf("no defect shows that case %s can fail", c)
		}
	}
}

// X7: what is missing is said.
func TestSuiteMisuse(t *testing.T) {
	t.Parallel()
	rec := &record{TB: t}
	rec.run(operationstest.Case{}, operationstest.Options{})
	if got := strings.Join(rec.texts(), ""); !strings.Contains(got, "Open") || !strings.Contains(got, "Cases") {
		t.Errorf("the zero Case with zero Options says %q", got)
	}
	rec = &record{TB: t}
	rec.run(operationstest.Cases()[0], operationstest.Options{Open: func() (operations.Store, error) { return nil, errors.New("no disk") }})
	if got := strings.Join(rec.texts(), ""); !strings.Contains(got, "no disk") {
		t.Errorf("a store that does not open says %q", got)
	}
}

// record keeps what a case says.
type record struct {
	operationstest.TB

	mu   sync.Mutex
	said []string
}

func (r *record) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *record) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *record) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

func (r *record) run(c operationstest.Case, opts operationstest.Options) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(r, opts) })
	wg.Wait()
}
