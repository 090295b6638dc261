package operationstest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sheetanchor/sheetanchor/operations"
)

// life is what a program does with a record from its beginning to its end. Each step may be done again.
func life(ctx context.Context, m *operations.Map, key operations.Key, acknowledged func(step int)) error {
	steps := []func() error{
		func() error { _, err := m.Update(ctx, key, merge("a", "b")); return err },
		func() error {
			rec, err := m.Get(ctx, key)
			if err == nil {
				err = rec.List.Merge(operation("c", operations.PhaseInProgress))
			}
			if err == nil {
				_, err = m.Put(ctx, rec)
			}
			return err
		},
		func() error { return m.Upload(ctx, key) },
		func() error { _, err := m.Update(ctx, key, finish("a")); return err },
		func() error {
			_, err := m.Update(ctx, key, func(l *operations.List) error {
				return errors.Join(finish("b")(l), finish("c")(l))
			})
			return err
		},
		func() error { _, err := m.Complete(ctx, key); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		acknowledged(i)
	}
	return nil
}

// expect returns how many operations the record has at least after each step, and how many of them have ended.
func expect(step int) (total, ended int) {
	totals, ends := [...]int{0, 2, 2, 3, 3, 3, 3}, [...]int{0, 0, 0, 0, 1, 3, 3}
	return totals[step+1], ends[step+1]
}

// maxCalls is more than the calls of a life.
const maxCalls = 100

// each calls fn for each call of a life, until there are no more.
func each(fn func(n int) bool) {
	for n := range maxCalls {
		if !fn(n) {
			return
		}
	}
}

// crashes ends a process before and after each of its calls.
func crashes(c *check) {
	for _, kind := range []trouble{crashBefore, crashAfter} {
		each(func(n int) bool { return c.crashAt(kind, n) })
	}
}

// crashAt reports whether there was a call n that could be ended.
func (c *check) crashAt(kind trouble, n int) bool {
	key := c.key(fmt.Sprintf("%d-%d", kind, n))
	s := &troubled{Store: c.open(), trouble: func(at int, _, _ string) trouble {
		if at == n {
			return kind
		}
		return fine
	}}
	last := -1
	err := life(c.Context(), c.openMap(s), key, func(step int) { last = step })
	if !s.hasMet() {
		if err != nil {
			c.errorf("without any crash: %v", err)
		}
		return false
	}
	rec, err := c.openMap(c.open()).Peek(c.Context(), key)
	sum := rec.Summary()
	if total, ended := expect(last); err != nil || sum.Total < total || sum.Completed < ended {
		c.errorf("%s call %d: the record is %+v, %v; after step %d want at least %d operations, %d of them completed", kind, n, sum, err, last, total, ended)
	}
	if err := life(c.Context(), c.openMap(c.open()), key, func(int) {}); err != nil {
		c.errorf("%s call %d: the next process: %v", kind, n, err)
	}
	c.ended(key, fmt.Sprintf("%s call %d", kind, n))
	return true
}

// ended checks that the record is that of the end of a life.
func (c *check) ended(key operations.Key, when string) {
	rec, err := c.openMap(c.open()).Peek(c.Context(), key)
	if want := (operations.Summary{Total: 3, Completed: 3}); err != nil || rec.Summary() != want {
		c.errorf("%s: at the end the record is %+v, %v, want %+v", when, rec.Summary(), err, want)
	}
}

// lostAnswers loses the answer of each call of a process that goes on, of those that are done and those that are not.
func lostAnswers(c *check) {
	for _, kind := range []trouble{loseBefore, loseAfter} {
		each(func(n int) bool { return c.loseAt(kind, n) })
	}
}

func (c *check) loseAt(kind trouble, n int) bool {
	key := c.key(fmt.Sprintf("%d-%d", kind, n))
	s := &troubled{Store: c.open(), trouble: func(at int, _, _ string) trouble {
		if at == n {
			return kind
		}
		return fine
	}}
	m := c.openMap(s)
	err := life(c.Context(), m, key, func(int) {})
	if s.hasMet() && err != nil {
		err = life(c.Context(), m, key, func(int) {}) // the same process tries again
	}
	if err != nil && !errors.Is(err, operations.ErrCompleted) {
		c.errorf("%s call %d: the process cannot go on: %v", kind, n, err)
	}
	c.ended(key, fmt.Sprintf("%s call %d", kind, n))
	return s.hasMet()
}

// hanging lets the calls for one record hang until their context ends.
func hanging(c *check) {
	stuck, other := c.key("stuck"), c.key("other")
	began := make(chan struct{})
	var once sync.Once
	s := &troubled{
		Store: c.open(),
		trouble: func(_ int, _, name string) trouble {
			if name == operations.BackupForm.FileName(stuck.Name) {
				return hang
			}
			return fine
		},
		hung: func() { once.Do(func() { close(began) }) },
	}
	m := c.openMap(s)
	ctx, cancel := context.WithCancelCause(c.Context())
	defer cancel(errEnded)
	var wg sync.WaitGroup
	var got error
	wg.Go(func() { _, got = m.Update(ctx, stuck, merge("a")) })
	select {
	case <-began:
	case <-c.Context().Done():
		c.errorf("no call began: %v", context.Cause(c.Context()))
	}
	if err := life(c.Context(), m, other, func(int) {}); err != nil {
		c.errorf("while the store hangs for another record: %v", err)
	}
	cancel(errEnded)
	wg.Wait()
	if !errors.Is(got, errEnded) {
		c.errorf("the call that hung = %v, want the cause of its context's end", got)
	}
	c.ended(other, "beside a record that hangs")
}

// hostileRecord puts there what is no record.
func hostileRecord(c *check) {
	s := c.open()
	for name, data := range map[string][]byte{
		"nothing": {}, "text": []byte("<html>503</html>"), "half": {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 0xab},
	} {
		key := c.key(name)
		file := operations.BackupForm.FileName(key.Name)
		version := c.write(s, file, data, "")
		m := c.openMap(c.open())
		if _, err := m.Get(c.Context(), key); !errors.Is(err, operations.ErrMalformed) {
			c.errorf("Get of a record that is %s = %v, want ErrMalformed", name, err)
		}
		if _, err := m.Update(c.Context(), key, merge("a")); !errors.Is(err, operations.ErrMalformed) {
			c.errorf("Update of a record that is %s = %v, want ErrMalformed", name, err)
		}
		c.holds(s, file, data, version)
	}
}
