package operationstest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sheetanchor/sheetanchor/operations"
)

// writers is how many write or read at the same time.
const writers = 4

// together calls fn for each writer at the same time and joins the errors.
func together(fn func(i int) error) error {
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// concurrentCreates lets several writers create one document.
func concurrentCreates(c *check) {
	stores := make([]operations.Store, writers)
	for i := range stores {
		stores[i] = c.open()
	}
	if !fenced(stores[0]) {
		return
	}
	for round := range 5 {
		name := c.document(fmt.Sprintf("round-%d", round))
		won := make([]bool, writers)
		err := together(func(i int) error {
			_, err := stores[i].Write(c.Context(), name, []byte{byte(i)}, "")
			if won[i] = err == nil; !won[i] && !errors.Is(err, operations.ErrConflict) {
				return fmt.Errorf("writer %d: %w", i, err)
			}
			return nil
		})
		if err != nil {
			c.errorf("%v", err)
		}
		data, _, err := stores[0].Read(c.Context(), name)
		if err != nil || len(data) != 1 {
			c.fatalf("after the creates: %q, %v", data, err)
		}
		for i := range won {
			if won[i] != (int(data[0]) == i) {
				c.errorf("round %d: writer %d was told that it created: %v, but the document is that of writer %d", round, i, won[i], data[0])
			}
		}
	}
}

// concurrentUpdates lets several processes, or with an unfenced store several callers of one, add operations to a record.
func concurrentUpdates(c *check) {
	const each = 5
	key := c.key("record")
	maps := make([]*operations.Map, writers)
	first := c.open()
	for i := range maps {
		if maps[i] = c.openMap(c.open()); i > 0 && !fenced(first) {
			maps[i] = maps[0]
		}
	}
	err := together(func(i int) error {
		for n := range each {
			if err := c.retry(maps[i], key, merge(fmt.Sprintf("%d-%d", i, n))); err != nil {
				return fmt.Errorf("writer %d, update %d: %w", i, n, err)
			}
		}
		return nil
	})
	if err != nil {
		c.errorf("%v", err)
	}
	rec, err := c.openMap(c.open()).Get(c.Context(), key)
	if err != nil || rec.List.Len() != writers*each {
		c.errorf("the record has %d operations, %v, want the %d that were added", rec.List.Len(), err, writers*each)
	}
}

// maxTries is more than the conflicts that an update can meet: each means that another writer got on.
const maxTries = 100

// retry updates until there is no conflict.
func (c *check) retry(m *operations.Map, key operations.Key, fn func(*operations.List) error) (err error) {
	for range maxTries {
		_, err = m.Update(c.Context(), key, fn)
		if !errors.Is(err, operations.ErrConflict) && !errors.Is(err, operations.ErrUnknownOutcome) {
			return err
		}
		if _, err := m.Load(c.Context(), key); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d tries: %w", maxTries, err)
}

// concurrentLoads lets several callers ask for one record that the map does not know.
func concurrentLoads(c *check) {
	key := c.key("record")
	if err := c.retry(c.openMap(c.open()), key, merge("a", "b")); err != nil {
		c.fatalf("Update = %v", err)
	}
	s := &troubled{Store: c.open()}
	m := c.openMap(s)
	missing := c.key("missing")
	err := together(func(i int) error {
		rec, err := m.Get(c.Context(), key)
		if err != nil || rec.List.Len() != 2 {
			return fmt.Errorf("reader %d: %d operations, %w, want 2", i, rec.List.Len(), err)
		}
		rec, err = m.Get(c.Context(), missing)
		if err != nil || !rec.Missing() {
			return fmt.Errorf("reader %d of what is not there: %w, missing %v", i, err, rec.Missing())
		}
		return nil
	})
	if err != nil {
		c.errorf("%v", err)
	}
	if _, reads := s.count(); reads != 2 {
		c.errorf("two records were read %d times", reads)
	}
}
